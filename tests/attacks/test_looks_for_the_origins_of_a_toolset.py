"""A caller with a key for a toolset alone looks for its origins, and for what it fixes or hides, at every surface.

Source: docs/toolsets.md, Rights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from werkzeug.routing import Rule

from patchbay.cid import cid_of
from tests.access.team import new_key, set_grants, team_hub
from tests.attacks.test_misuses_a_toolset import RELAY, every_way
from tests.hubs import MODERN, Hub
from tests.kinds.toolset.sets import toolset

Headers = dict[str, str]

VAULT = '''"""The vault of the hidden bank."""


def opensesame(context, doorcode: str, guestname: str = "x", loud: bool = False):
    """Opens the hidden vault."""
    yield "hidden text while it runs"
    if loud:
        raise ValueError("too loud")
    context.progress(1, 2)
    return {"who": guestname, "balance": "hidden balance"}


def closesesame(n: str = "") -> str:
    """Closes the hidden vault."""
    return "hidden room"
'''
SETTINGS = {
    "auto_discover": True,
    "isolation": "inline",
    "resources": {
        "plan": {"uri": "vault://plan", "name": "Plan", "text": "the plan"},
        "map": {"uri": "vault://hiddenmap", "name": "hidden map", "text": "hidden lines"},
    },
    "resource_templates": {"room": {"uriTemplate": "vault://room/{n}", "name": "Room", "function": "closesesame"}},
    "prompts": {
        "ask": {"arguments": [{"name": "topic"}], "messages": [{"role": "user", "content": "About {{topic}}?"}]},
        "hiddenprompt": {"messages": [{"role": "user", "content": "hidden words"}]},
    },
    "completions": {"ask": {"topic": ["weather"]}},
}
SHAPED = {
    "doorcode": {"value": "f1xedvalue"},
    "guestname": {"name": "who"},
}
FILES = {
    "kernelvault.py": VAULT,
    "kernelvault.mcp.json": json.dumps(SETTINGS),
    "nestedset.json": toolset(tools={"innername": {"from": "kernelvault.opensesame", "arguments": SHAPED}}),
    "release.json": toolset(
        tools={
            "enter": {
                "from": "kernelvault.opensesame",
                "title": "Enter",
                "description": "Enter.",
                "arguments": SHAPED,
                "result": "{who}",
            },
            "deep": {"from": "nestedset.innername", "description": "Deep.", "result": "{who}"},
        },
        include=["misspelt.*"],
        resources=["vault://plan"],
        prompts=["kernelvault.ask"],
    ),
    "relay.py": RELAY,
    "relay.mcp.json": '{"auto_discover": true, "isolation": "inline"}',
}
SECRETS = re.compile(
    r"kernelvault|nestedset|opensesame|closesesame|innername|doorcode|guestname|f1xedvalue|misspelt"
    r"|hidden (?:bank|vault|text|balance|room|lines|words)|hidden ?map|hiddenprompt"
)
SERVERS = ("release", "", "kernelvault", "nestedset", "mcp")
TOPIC = {"name": "topic", "value": ""}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    ("server/discover", {}),
    *(("tools/call", {"name": name, "arguments": {"who": "me"}}) for name in ("enter", "deep", "release__enter")),
    *(("tools/call", {"name": "enter", "arguments": one}) for one in ({"loud": True}, {"who": 5}, {"door": 1})),
    *(("tools/call", {"name": "deep", "arguments": one}) for one in ({"loud": True}, {"who": 5}, {"door": 1})),
    *(("tools/call", {"name": name, "arguments": {}}) for name in ("opensesam", "kernelvaul__opensesam", "entre")),
    ("tools/call", {"name": "search_tools", "arguments": {"query": "open the door of the bank"}}),
    *(("resources/read", {"uri": uri}) for uri in ("vault://plan", "vault://hiddenma", "vault://room/1")),
    *(("resources/read", {"uri": uri}) for uri in ("server://release", "server://", "variable://mcps")),
    ("prompts/get", {"name": "ask", "arguments": {"topic": "tea"}}),
    ("prompts/get", {"name": "hiddenprom"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": TOPIC}),
    *(
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": name, "value": ""}})
        for uri, name in (("vault://room/{n}", "n"), ("server://{name}", "name"), ("variable://{name}", "name"))
    ),
    ("events/list", {}),
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = team_hub(tmp_path_factory.mktemp("vault"), FILES)
    set_grants(found, {"grants": [{"to": ["key:ann"], "may": ["call", "read"], "on": ["release", "relay"]}]})
    yield found
    found.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> Headers:
    return new_key(hub, "ann")


def secrets_in(text: str, *asked: str) -> list[str]:
    """What a text has of the origins, besides what was asked with these words."""
    for word in asked:
        text = text.replace(word, "")
    return SECRETS.findall(text)


def test_the_toolset_serves_what_the_tests_ask_for(hub: Hub, ann: Headers) -> None:
    """Otherwise nothing could be found at it."""
    said = hub.modern("release", "tools/call", {"name": "enter", "arguments": {"who": "me"}}, headers=ann)
    assert said.result["structuredContent"] == {"who": "me"}
    assert list(hub.catalogue.find("release").resources) == ["vault://plan"]
    assert hub.modern("release", "prompts/get", {"name": "ask"}, headers=ann).result


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN])
def test_no_method_names_an_origin(hub: Hub, ann: Headers, revision: str) -> None:
    for server, (method, params) in product(SERVERS, REQUESTS):
        if revision == MODERN:
            answer = hub.modern(server, method, params, headers=ann)
        else:
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = hub.send(server, message, {**ann, "MCP-Protocol-Version": revision})
        text = answer.body.decode()
        assert secrets_in(text, f"there is no server '{server}'") == [], (server, method, params, text)


@pytest.mark.parametrize("tool", ["enter", "deep"])
def test_no_way_of_a_call_names_an_origin_or_gives_what_the_expression_leaves_out(
    hub: Hub, ann: Headers, tool: str
) -> None:
    answers = every_way(hub, "release", tool, ann)
    assert all('"who' in one or "who" in one for one in answers), answers
    for text in answers:
        assert secrets_in(text) == [], text


def addresses(rule: Rule, values: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each address of a route with these values for its variables."""
    for chosen in product(values, repeat=len(rule.arguments)):
        given = iter(chosen)
        yield re.sub(r"<[^>]+>", lambda _, given=given: next(given), rule.rule), chosen  # type: ignore[misc]


def stored_texts(hub: Hub) -> list[str]:
    """The identifiers of the texts of the toolset and of its origin, which the operator can read."""
    found = [cid_of(FILES[name].encode()) for name in ("release.json", "kernelvault.py", "kernelvault.mcp.json")]
    operator = {"Authorization": f"Bearer {hub.token}"}
    assert [hub.client.get(f"/cid/{one}", headers=operator).status_code for one in found] == [200] * len(found)
    return found


def test_no_page_and_no_document_of_the_hub_names_an_origin(hub: Hub, ann: Headers) -> None:
    """Every route that answers GET, with the names and identifiers that a caller may know or guess."""
    server = hub.catalogue.find("release")
    values = ["release", "kernelvault", "nestedset", f"release@{server.version}", "enter", "opensesame"]
    values += ["mcps", "access", server.version, *stored_texts(hub)]
    read = 0
    for rule in hub.app.url_map.iter_rules():
        if "GET" not in (rule.methods or ()) or rule.rule.endswith(("/events", "/changes", "/ws", "/sse")):
            continue
        for path, chosen in addresses(rule, values):
            for accepted in ("text/html", "application/json"):
                answer = hub.client.get(path, headers={**ann, "Accept": accepted})
                text = answer.get_data(as_text=True)
                assert secrets_in(text, *chosen) == [], (path, accepted, answer.status_code)
                read += answer.status_code == 200
    assert read > 20


def test_a_narrow_key_changes_no_toolset_and_learns_nothing_from_the_refusal(hub: Hub, ann: Headers) -> None:
    fields = json.dumps({"kind": "toolset", "include": ["kernelvault"]})
    forms: list[dict[str, str]] = [
        {"do": "add", "entries": "kernelvault.closesesame"},
        {"do": "remove", "entries": "enter"},
        {"do": "new", "entries": "kernelvault.*"},
        {"action": "save", "name": "mine", "fields": fields, "choose:kernelvault.opensesame": "on"},
        {"action": "check", "name": "mine", "fields": fields},
        {"action": "try:opensesame", "name": "mine", "fields": fields},
    ]
    before = (hub.servers / "release.json").read_bytes(), hub.catalogue.find("release").version
    for path, form in product(("/toolsets/release", "/toolsets/new", "/toolsets/mcp", "/toolsets/nestedset"), forms):
        answer = hub.client.post(path, data=form, headers=ann)
        assert answer.status_code in (401, 403, 404), (path, form, answer.status_code)
        text = answer.get_data(as_text=True)
        assert secrets_in(text, "kernelvault.closesesame", "kernelvault.*", "nestedset") == [], text
    assert before == ((hub.servers / "release.json").read_bytes(), hub.catalogue.find("release").version)
    assert not (hub.servers / "mine.json").exists()
    operator = {"Authorization": f"Bearer {hub.token}"}
    checked = hub.client.post("/toolsets/new", data=forms[4], headers=operator)
    assert checked.status_code == 200 and "opensesame" in checked.text, "the same form of the operator is answered"
