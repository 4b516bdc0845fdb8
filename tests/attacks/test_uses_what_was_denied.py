"""A member of a shared hub tries to use, or to learn about, what the grants deny it, by every way in.

Sources: ACCESS sections 3 and 9; issue 16 items 1 to 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from patchbay.boot import change_names
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Answer, Hub, modern_request, sse_messages

Headers = dict[str, str]
GRANTS = {
    "grants": [{"to": ["key:ann"], "may": ["call", "read"], "on": ["notes"]}],
    "denials": [{"to": ["*"], "on": ["notes.delete_note", "notes.notes://diary", "notes.scold"]}],
}
SECRETS = ("delete_note", "diary", "scold", "bash.tools", "Delete a note", "delete_all", "bash__tools")
"""What ann may not learn: names and texts of denied entries and servers."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("denied"), page_size=500)
    set_grants(hub, GRANTS)
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> Headers:
    return new_key(hub, "ann")


@pytest.fixture(scope="module")
def operator(hub: Hub) -> Headers:
    return {"Authorization": f"Bearer {hub.token}"}


def legacy(hub: Hub, endpoint: str, tool: str, headers: Headers, version: str) -> Answer:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    hub.client.environ_base["HTTP_AUTHORIZATION"] = headers["Authorization"]
    session = hub.open(endpoint, version)
    del hub.client.environ_base["HTTP_AUTHORIZATION"]
    return hub.send(endpoint, message, headers | {"Mcp-Session-Id": session, "MCP-Protocol-Version": version})


def answer_text(answer: Answer) -> str:
    """The whole answer as text."""
    return f"{answer.status} {answer.body.decode('utf-8', 'replace')}"


def modern(endpoint: str, prefix: str = "") -> Callable[[Hub, str, Headers], str]:
    def call(hub: Hub, tool: str, headers: Headers) -> str:
        params = {"name": prefix + tool, "arguments": {}}
        return answer_text(hub.modern(endpoint, "tools/call", params, headers=headers))

    return call


def in_session(endpoint: str, version: str, prefix: str = "") -> Callable[[Hub, str, Headers], str]:
    return lambda hub, tool, headers: answer_text(legacy(hub, endpoint, prefix + tool, headers, version))


def pinned(hub: Hub, tool: str, headers: Headers) -> str:
    endpoint = f"notes@{hub.catalogue.find('notes').version}"
    return answer_text(hub.modern(endpoint, "tools/call", {"name": tool, "arguments": {}}, headers=headers))


def as_task(hub: Hub, tool: str, headers: Headers) -> str:
    knows: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    return answer_text(hub.modern("notes", "tools/call", {"name": tool, "arguments": {}}, knows, headers=headers))


def in_batch(hub: Hub, tool: str, headers: Headers) -> str:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    return answer_text(hub.send("notes", [message], headers | {"MCP-Protocol-Version": "2025-03-26"}))


def by_native(separator: str) -> Callable[[Hub, str, Headers], str]:
    def call(hub: Hub, tool: str, headers: Headers) -> str:
        message = {"jsonrpc": "2.0", "id": 1, "method": f"notes{separator}{tool}", "params": {}}
        answer = hub.client.post("/rpc", json=message, headers=headers | {"Accept": "application/x-ndjson"})
        lines = [orjson.loads(line) for line in answer.get_data().splitlines() if line]
        results = [line["params"]["result"] for line in lines if "params" in line]
        # Each call has another subscription and time.
        return " ".join(
            str({k: v for k, v in one.items() if k in ("type", "error", "data", "kind")}) for one in results
        )

    return call


def by_plain_http(method: str) -> Callable[[Hub, str, Headers], str]:
    def call(hub: Hub, tool: str, headers: Headers) -> str:
        answer = hub.client.open(f"/notes/{tool}", method=method, headers=headers)
        return f"{answer.status_code} {answer.text}"

    return call


def from_a_tool(hub: Hub, tool: str, headers: Headers) -> str:
    answer = hub.client.post("/notes/relay", json={"server": "notes", "tool": tool}, headers=headers)
    return f"{answer.status_code} {answer.text}"


def by_uri(hub: Hub, tool: str, headers: Headers) -> str:
    uri = {"uri": f"server://notes/{tool}"}
    return answer_text(hub.modern("notes", "resources/read", uri, headers=headers))


def by_a_reading_tool(hub: Hub, tool: str, headers: Headers) -> str:
    answer = hub.client.post("/notes/peek", json={"uri": f"server://notes/{tool}"}, headers=headers)
    return f"{answer.status_code} {answer.text}"


def by_a_redirect(hub: Hub, tool: str, headers: Headers) -> str:
    """34.14: a redirect calls any tool, also one that is not marked read-only."""
    answer = hub.client.post("/notes/elsewhere", json={"path": f"/notes/{tool}"}, headers=headers)
    return f"{answer.status_code} {answer.text}"


def by_the_pair(hub: Hub, tool: str, headers: Headers) -> str:
    """The two routes of 2024-11-05."""
    client = hub.app.test_client()
    opened = client.get("/mcp/notes/sse", headers=headers | {"Accept": "text/event-stream"}, buffered=False)
    frames: Any = iter(opened.response)
    address = re.search(rb"data: (\S+)", next(frames))
    assert address is not None
    start = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    said: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": start},
        {"method": "notifications/initialized"},
    ]
    said.append({"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
    for message in said:
        hub.app.test_client().post(address[1].decode(), json={"jsonrpc": "2.0", **message}, headers=headers)
    try:
        for frame in frames:
            for message in sse_messages(frame):
                if message.get("id") == 2:
                    return str(message)
    finally:
        opened.close()
    raise AssertionError("the stream ended without an answer")


WAYS: dict[str, Callable[[Hub, str, Headers], str]] = {
    "MCP 2026-07-28": modern("notes"),
    **{f"MCP {version}": in_session("notes", version) for version in ("2025-11-25", "2025-06-18", "2025-03-26")},
    "all servers": modern("", "notes__"),
    "all servers, dotted": modern("", "notes."),
    "all servers, underscored": modern("", "notes_"),
    "all servers, 2025-11-25": in_session("", "2025-11-25", "notes__"),
    "a pinned version": pinned,
    "a task": as_task,
    "an array of messages": in_batch,
    "native": by_native("."),
    "native, underscored": by_native("_"),
    "plain HTTP, GET": by_plain_http("GET"),
    "plain HTTP, POST": by_plain_http("POST"),
    "a tool that calls a tool": from_a_tool,
    "a URI": by_uri,
    "a tool that reads a URI": by_a_reading_tool,
    "a redirect": by_a_redirect,
    "the pair of 2024-11-05": by_the_pair,
}
"""Every way to call a tool: those of tests/interaction/test_ways_in.py, with each name and address that a tool has."""


def neutral(text: str, name: str) -> str:
    """An answer without the name that was asked for, its other spellings, ids, and suggestions of similar names."""
    for spelling in (f"notes__{name}", f"notes.{name}", f"notes_{name}", name):
        text = text.replace(spelling, "NAME")
    text = re.sub(r"; did you mean [^'\"]*", "", text)
    return re.sub(r"there is no method \\?'[^']*\\?'", "there is no method NAME", text)


@pytest.mark.parametrize("way", WAYS)
def test_a_denied_tool_answers_as_a_tool_that_does_not_exist(
    hub: Hub, ann: Headers, operator: Headers, way: str
) -> None:
    call = WAYS[way]
    denied, missing = call(hub, "delete_note", ann), call(hub, "absent_note", ann)
    assert neutral(denied, "delete_note") == neutral(missing, "absent_note")
    assert "deleted" not in denied
    if way not in ("a URI", "a tool that reads a URI", "plain HTTP, GET"):  # these run tools that only read
        assert "found x" in call(hub, "search", ann)
        assert "deleted 1" in call(hub, "delete_note", operator)


@pytest.mark.parametrize("way", WAYS)
def test_a_stranger_calls_nothing(hub: Hub, way: str) -> None:
    """Without credentials, with a wrong key, and with the operator's token cut short."""
    for token in ("", "Bearer ", "Bearer patchbay_key_" + "A" * 43, f"Bearer {hub.token[:-1]}"):
        try:
            answer = WAYS[way](hub, "search", {"Authorization": token})
        except (AssertionError, StopIteration, KeyError):
            continue  # the way ends before the call: no session, no stream
        assert "found" not in answer
        assert answer.startswith(("401", "429")) or answer == ""


READS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a resource": ("resources/read", {"uri": "notes://diary"}, {"uri": "notes://absent"}),
    "a prompt": ("prompts/get", {"name": "scold"}, {"name": "absent"}),
    "a completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "scold"}, "argument": {"name": "x", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "absent"}, "argument": {"name": "x", "value": ""}},
    ),
    "a server's lists": ("resources/read", {"uri": "server://bash.tools"}, {"uri": "server://absent"}),
    "a variable": ("resources/read", {"uri": "variable://access"}, {"uri": "variable://absent"}),
}


@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("endpoint", ["notes", ""])
def test_a_denied_entry_is_answered_like_a_missing_one(hub: Hub, ann: Headers, what: str, endpoint: str) -> None:
    method, denied, missing = READS[what]
    names = [str(next(iter(params.values()))) for params in (denied, missing)]
    answers = [answer_text(hub.modern(endpoint, method, params, headers=ann)) for params in (denied, missing)]
    found = []
    for answer, name in zip(answers, names, strict=True):
        for word in (name, name.rpartition("/")[2], "scold", "absent"):
            answer = answer.replace(word, "NAME")
        found.append(re.sub(r"; did you mean [^'\"]*", "", answer))
    assert found[0] == found[1]
    assert "the diary" not in answers[0]


def test_content_of_hidden_servers_is_not_read_by_its_cid(hub: Hub, ann: Headers, operator: Headers) -> None:
    """Knowing a CID gives no permission."""
    absent = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
    access, root = (hub.catalogue.store.names.get(name) for name in ("variables/access", "root"))
    for name in ("bash.tools", "notes"):  # ann may use notes, and not see its source
        server = hub.catalogue.find(name)
        for cid in (
            server.definition,
            server.version,
            server.config_cid,
            access,
            root,
        ):
            for path in (f"/cid/{cid}", f"/cid/{cid}.bin", f"/cid/{cid}/links.json"):
                denied = hub.client.get(path, headers=ann)
                missing = hub.client.get(path.replace(cid, absent), headers=ann)
                assert denied.status_code == missing.status_code == 404
                assert denied.text.replace(cid, absent) == missing.text
            read = hub.modern("notes", "resources/read", {"uri": f"cid://{cid}"}, headers=ann)
            assert "error" in read.last
            assert hub.client.get(f"/cid/{cid}", headers=operator).status_code == 200


PAGES = (
    *("/", "/index.json", "/servers", "/servers.json", "/servers/notes", "/servers/notes.json", "/mcp", "/mcp.json"),
    *("/mcp/meta/notes", "/mcp/meta/notes.json", "/rooms", "/rooms.json", "/activity", "/activity.json", "/metrics"),
    *("/activity/plots.json", "/openapi.json", "/inspect", "/login", "/search?q=delete", "/search.json?q=diary+scold"),
    *("/search.json?q=bash", "/history", "/history/names", "/history.json", "/variables", "/variables.json"),
    *("/variables/access", "/history/revoke", "/access", "/access/keys", "/servers/notes/edit", "/servers/bash.tools"),
    *("/mcp/meta/bash.tools", "/servers/bash.tools/edit", "/servers/notes/compare?old=x&new=y", "/cid/x", "/nowhere"),
)


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_no_page_names_what_is_hidden(hub: Hub, ann: Headers, operator: Headers, accept: str) -> None:
    for tool in ("search", "delete_note"):
        assert hub.client.post(f"/notes/{tool}", json={}, headers=operator).status_code == 200
    for path in PAGES:
        answer = hub.client.get(path, headers=ann | {"Accept": accept})
        text = answer.text.replace("There is no page at", "").replace(path, "").replace(path.partition("?")[0], "")
        text = re.sub(r'value="[^"]*"', "", text)  # what the reader typed
        asked = [word for word in SECRETS if word in path]
        for secret in SECRETS:
            assert secret not in text or secret in asked, (path, secret)
    for path in ("/servers/bash.tools", "/mcp/meta/bash.tools", "/servers/bash.tools/edit", "/variables", "/history"):
        assert hub.client.get(path, headers=ann | {"Accept": accept}).status_code == 404, path
    for path in ("/access", "/access/keys"):
        assert hub.client.get(path, headers=ann | {"Accept": accept}).status_code == 401, path


def test_no_list_and_no_schema_names_what_is_hidden(hub: Hub, ann: Headers) -> None:
    methods = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "server/discover")
    for endpoint in ("notes", ""):
        for method in methods:
            text = answer_text(hub.modern(endpoint, method, headers=ann))
            assert not [secret for secret in SECRETS if secret in text], (endpoint, method)
    for method in ("plexus_schema", "plexus_full_schema"):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
        text = hub.client.post("/rpc", json=message, headers=ann | {"Accept": "application/x-ndjson"}).text
        assert not [secret for secret in SECRETS if secret in text], method


def test_a_search_of_tools_finds_only_what_may_be_called(hub: Hub, ann: Headers, operator: Headers) -> None:
    store = hub.catalogue.store
    change_names(store, {"variables/listing": store.blobs.put(b'{"search": true}')}, "test", "search")
    hub.catalogue.refresh()
    params = {"name": "search_tools", "arguments": {"query": "delete note search", "limit": 50}}
    found = answer_text(hub.modern("", "tools/call", params, headers=ann))
    assert "notes__search" in found and not [secret for secret in SECRETS if secret in found]
    assert "notes__delete_note" in answer_text(hub.modern("", "tools/call", params, headers=operator))
    for tool, works in (("notes__delete_note", False), ("notes__search", True)):
        params = {"name": "call_tool", "arguments": {"name": tool, "arguments": {}}}
        result = hub.modern("", "tools/call", params, headers=ann).result
        assert bool(result.get("isError")) is not works
    change_names(store, {"variables/listing": None}, "test", "no search")
    hub.catalogue.refresh()


def test_a_key_with_scopes_is_limited_to_them(hub: Hub) -> None:
    narrow = new_key(hub, "narrow", ["call:notes.search"])
    set_grants(hub, {"grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]})
    names = [tool["name"] for tool in hub.modern("notes", "tools/list", headers=narrow).result["tools"]]
    assert names == ["search"]
    assert hub.modern("lone", "tools/list", headers=narrow).status == 404
    set_grants(hub, None)
    assert [tool["name"] for tool in hub.modern("notes", "tools/list", headers=narrow).result["tools"]] == ["search"]
    assert hub.client.post("/notes/peek", json={}, headers=narrow).status_code == 404
    set_grants(hub, GRANTS)


def test_members_hear_of_no_change_of_what_is_hidden(hub: Hub, ann: Headers) -> None:
    """The listener of all servers hears of its own servers, and a resource that it may not read is never announced."""
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["notes://plan", "notes://diary"]}
    message, headers = modern_request("subscriptions/listen", {"notifications": wanted})
    stream = hub.stream("", message, headers | ann)
    services = hub.app.parts.dispatcher.services
    next(stream)
    publish = services.catalogue.store.bus.publish
    publish("updated/notes", b"notes://diary")
    publish("updated/bash.tools", b"notes://plan")
    publish("changed/bash.tools", orjson.dumps({"kinds": ["tools"], "seq": 1}))
    publish("updated/notes", b"notes://plan")
    heard = []
    for frame in stream:
        heard += sse_messages(frame)
        if heard:
            break
    assert [one["params"]["uri"] for one in heard] == ["notes://plan"]
    stream.close()


def test_an_event_stream_has_no_event_for_a_hidden_change(hub: Hub, ann: Headers) -> None:
    """An event with a number and without a message also shows that something changed, and when."""
    hub.client.environ_base["HTTP_AUTHORIZATION"] = ann["Authorization"]
    session = hub.open("")
    del hub.client.environ_base["HTTP_AUTHORIZATION"]
    headers = ann | {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Host": "localhost"}
    stream = hub.client.get("/mcp", headers=headers, buffered=False)
    frames: Any = iter(stream.response)
    assert next(frames).startswith(b"id: changes-")
    store = hub.catalogue.store
    for server in ("bash.tools", "notes"):
        seq = store.journal.append("changes/", orjson.dumps({"kinds": ["tools"], "server": server}), 60.0)
        store.bus.publish(f"changed/{server}", orjson.dumps({"kinds": ["tools"], "seq": seq}))
    events = []
    for frame in frames:
        events += [frame] if b"id: " in frame else []
        if b"list_changed" in frame:
            break
    assert len(events) == 1, events
    stream.close()


def test_the_stream_of_a_revoked_key_ends(hub: Hub) -> None:
    key = new_key(hub, "listening")
    set_grants(hub, None)
    message, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    stream = hub.stream("", message, headers | key)
    next(stream)
    hub.app.parts.keys.revoke("listening")
    assert [one for frame in stream for one in sse_messages(frame)] == []  # it ends
    assert hub.modern("notes", "tools/list", headers=key).status in (401, 429)
    set_grants(hub, GRANTS)
