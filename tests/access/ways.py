"""The ways in which a caller lists and uses what a hub has, each compared with the independent account in `team.py`.

Each function takes a Member and a Tally, and asserts that the way lists exactly what the account allows, and that
exactly this can be used. `WAYS` names them all; `test_visible_if_usable.py` and `benchmarks/visible.py` run them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mcp
import orjson
from mcp.shared.exceptions import MCPError

from patchbay.access.principals import Principal
from patchbay.boot import change_names
from patchbay.catalogue.aggregate.public_names import public_name
from patchbay.events import Wait
from patchbay.jsonrpc import Notification, encode
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.native.subscription import Native, NativeRequest
from tests.access.members import Member, accept_member_tokens, with_sdk
from tests.access.team import CALLS, PROMPTS, READS, SERVERS, TEMPLATES, Json, team_hub
from tests.hubs import Hub

BUSY = ("relay", "peek", "names", "elsewhere")
"""Tools that use the hub itself: another check calls them."""

URIS = {"resources": "uri", "templates": "uriTemplate"}


class Comparisons:
    """Counts comparisons by their expected outcome, and asserts each. `chance` chooses where a way is sampled."""

    def __init__(self, seed: int = 0) -> None:
        self.counts: Counter[tuple[str, bool]] = Counter()
        self.chance = random.Random(seed)
        self.way = ""

    def same(self, found: bool, expected: bool, *about: object) -> None:
        """Assert that something is possible exactly when the account allows it."""
        assert found is expected, (self.way, *about, "expected", expected)
        self.counts[self.way, expected] += 1

    def equal(self, found: set[str], expected: set[str]) -> None:
        """Assert that a list has exactly the allowed names."""
        assert found == expected, (self.way, "listed", sorted(found), "expected", sorted(expected))

    def sets(self, found: set[str], expected: set[str], known: Mapping[str, Any] | tuple[str, ...]) -> None:
        """Assert that of the known names exactly the allowed ones are found."""
        for name in known:
            self.same(name in found, name in expected, name)


def check_tools(member: Member, comparisons: Comparisons, server: str) -> None:
    """tools/list and tools/call at the endpoint of one server."""
    calls = {name for name in CALLS[server] if member.may("call", server, name)}
    if not member.sees(server):
        answer = member.ask(server, "tools/list")
        comparisons.same("result" in answer, False, server)
        assert answer["error"]["message"].startswith(f"there is no server {server!r}")
        return
    comparisons.equal(member.listed(server, "tools/list", "tools", "name"), calls)
    for name in CALLS[server]:
        if name not in BUSY:
            result = member.call(server, name, **({"id": "1"} if name == "note" else {}))
            comparisons.same(not result.get("isError"), name in calls, name)
            if name not in calls:
                assert result["content"][0]["text"].startswith(f"there is no tool {name!r} on {server}")


def check_resources(member: Member, comparisons: Comparisons, server: str) -> None:
    """Lists of resources and templates, and resources/read."""
    if not member.sees(server):
        return
    reads = {uri for uri in READS[server] if member.may("read", server, uri)}
    comparisons.equal(member.listed(server, "resources/list", "resources", "uri"), reads)
    for uri in READS[server]:
        comparisons.same("result" in member.ask(server, "resources/read", uri=uri), uri in reads, uri)
    templates = {uri for uri in TEMPLATES[server] if member.may("read", server, uri)}
    found = member.listed(server, "resources/templates/list", "resourceTemplates", "uriTemplate")
    comparisons.sets(found, templates, TEMPLATES[server])


def check_prompts(member: Member, comparisons: Comparisons, server: str) -> None:
    """prompts/list and prompts/get."""
    if not member.sees(server):
        return
    prompts = {name for name in PROMPTS[server] if member.may("read", server, name)}
    comparisons.equal(member.listed(server, "prompts/list", "prompts", "name"), prompts)
    for name in PROMPTS[server]:
        comparisons.same("result" in member.ask(server, "prompts/get", name=name), name in prompts, name)


def check_completion(member: Member, comparisons: Comparisons, server: str) -> None:
    """completion/complete of a prompt and of a template."""
    if not member.sees("notes"):
        return
    argument = {"name": "topic", "value": "w"}
    for endpoint in ("notes", ""):
        name = "ask" if endpoint else public_name("notes", "ask")
        answer = member.ask(
            endpoint, "completion/complete", ref={"type": "ref/prompt", "name": name}, argument=argument
        )
        comparisons.same("result" in answer, member.may("read", "notes", "ask"), endpoint)
    reference = {"type": "ref/resource", "uri": "note://{id}"}
    answer = member.ask("notes", "completion/complete", ref=reference, argument={"name": "id", "value": ""})
    comparisons.same("result" in answer, member.may("read", "notes", "note://{id}"), "note://{id}")


def check_all_servers(member: Member, comparisons: Comparisons, server: str) -> None:
    """The endpoint of all servers, and what one server says about the others."""
    names = {public_name(name, tool): (name, tool) for name in SERVERS for tool in CALLS[name]}
    listed = member.listed("", "tools/list", "tools", "name")
    comparisons.sets(listed, {public for public, (of, tool) in names.items() if member.may("call", of, tool)}, names)
    for public in ("notes__search", "lone__lone", "notes.search", "bash.tools.run"):
        of, tool = names.get(public) or (public.rpartition(".")[0], public.rpartition(".")[2])
        comparisons.same(not member.call("", public).get("isError"), member.may("call", of, tool), public)
    text = member.ask("", "resources/read", uri="server://")["result"]["contents"][0]["text"]
    found = {one["name"] for one in orjson.loads(text)}
    comparisons.sets(found, {name for name in SERVERS if member.sees(name)}, SERVERS)
    answer = member.ask("", "resources/read", uri="variable://mcps")
    everything = all(member.may(action, "", "") for action in ("see", "call", "read"))
    if not everything:
        assert "error" in answer or not member.document or not member.document.get("denials")


def check_tools_inside(member: Member, comparisons: Comparisons, server: str) -> None:
    """What a tool can do for its caller: call another tool, read a resource, look at sources."""
    if member.may("call", "notes", "relay"):
        result = member.call("notes", "relay")
        comparisons.same(not result.get("isError"), member.may("call", "bash.tools", "run"), "relay")
    if member.may("call", "notes", "peek"):
        comparisons.same(
            not member.call("notes", "peek").get("isError"), member.may("read", "notes", "notes://plan"), "peek"
        )
    if member.may("call", "notes", "names"):
        result = member.call("notes", "names")
        found = set("".join(block["text"] for block in result["content"]).split(","))
        comparisons.sets(found, {name for name in SERVERS if member.may("see", name)}, SERVERS)


def check_native(member: Member, comparisons: Comparisons, server: str) -> None:
    """The native interface: what its schema names is what it calls."""
    native = Native(member.dispatcher.services, member.dispatcher.cancellations)
    wire = TransportInfo("", sender=member.who)

    def items(method: str) -> list[Json]:
        answer: Any = native.answer(NativeRequest(1, method, {}), wire)
        said = [orjson.loads(encode(one)) for one in list(answer)[1:] if hasattr(one, "method")]
        return [one["params"]["result"] for one in said]

    schema = next(item["data"] for item in items("plexus_schema") if item["type"] == "data")
    found = {f"{row['namespace']} {name}" for row in schema["activations"] for name in row["methods"]}
    known = {f"{name} {tool}": (name, tool) for name in SERVERS for tool in CALLS[name]}
    comparisons.sets(found, {text for text, (name, tool) in known.items() if member.may("call", name, tool)}, known)
    for name, tool in (("notes", "search"), ("lone", "lone"), ("bash.tools", "delete_all")):
        failed = any(item["type"] == "error" for item in items(f"{name}.{tool}"))
        comparisons.same(not failed, member.may("call", name, tool), name, tool)


def check_subscriptions(member: Member, comparisons: Comparisons, server: str) -> None:
    """Notifications of one subscription: changes of lists, and changes of resources."""
    uris = [*READS["notes"], "notes://absent"]
    wanted = {"toolsListChanged": True, "resourceSubscriptions": uris}
    messages = member.exchange("", "subscriptions/listen", waits=True, notifications=wanted)
    assert next(messages).method == "notifications/subscriptions/acknowledged"
    publish = member.hub.catalogue.store.bus.publish

    def read_notifications(topic: str, data: bytes) -> list[Json]:
        while not isinstance(next(messages), Wait):
            pass
        publish(topic, data)
        publish("updated/notes", b"notes://end")  # no client asked for it: the next Wait comes after both
        found = []
        while not isinstance(said := next(messages), Wait):
            if isinstance(said, Notification):
                found.append({"method": said.method, "uri": said.params.get("uri")})
        return found

    try:
        for uri in READS["notes"]:
            comparisons.same(
                bool(read_notifications("updated/notes", uri.encode())), member.may("read", "notes", uri), uri
            )
        for name in SERVERS:
            data = orjson.dumps({"server": name, "kinds": ["tools"]})
            comparisons.same(bool(read_notifications(f"changed/{name}", data)), member.sees(name), name)
    finally:
        messages.close()


def check_search(member: Member, comparisons: Comparisons, server: str) -> None:
    """`search_tools` and `call_tool`, at a hub that lists its tools by search."""
    result = member.call("", "search_tools", query="search delete note relay peek names run lone all", limit=50)
    names = {public_name(name, tool): (name, tool) for name in SERVERS for tool in CALLS[name]}
    text = orjson.dumps(result).decode()
    found = {public for public in names if f'"{public}"' in text or f'\\"{public}\\"' in text}
    comparisons.sets(found, {public for public, (of, tool) in names.items() if member.may("call", of, tool)}, names)
    for public in ("notes__search", "notes__delete_note", "lone__lone", public_name("bash.tools", "run")):
        of, tool = names[public]
        answer = member.call("", "call_tool", name=public, arguments={})
        comparisons.same(not answer.get("isError"), member.may("call", of, tool), public)


def check_cids(member: Member, comparisons: Comparisons, server: str) -> None:
    """`cid://`: the contents that a server is made of, for callers who may see its source."""
    parts = {name: _contents(member, name) for name in SERVERS}
    shown = {cid for name in SERVERS if member.may("see", name) for cid in parts[name]}
    for cid in {cid for found in parts.values() for cid in found}:
        answer = member.ask("", "resources/read", uri=f"cid://{cid}")
        comparisons.same("result" in answer, cid in shown, cid)


def _contents(member: Member, name: str) -> tuple[str, ...]:
    server = member.hub.catalogue.find(name)
    return server.version, server.definition, server.config_cid


def check_plain_http(member: Member, comparisons: Comparisons, server: str) -> None:
    """Plain HTTP: the list of servers, and each tool at its own address."""
    rows = {row["name"]: row["tools"] for row in orjson.loads(member.send("GET", "/servers.json")[1])}
    for name in SERVERS:
        calls = [tool for tool in CALLS[name] if member.may("call", name, tool)]
        assert rows.get(name, 0) == len(calls), (name, rows)
    for name in ("search", "delete_note", "run", "delete_all", "lone"):
        if name in CALLS[server]:
            status, text = member.send("POST", f"/{server}/{name}", {})
            comparisons.same(status == 200, member.may("call", server, name), name, text)


def check_pages(member: Member, comparisons: Comparisons, server: str) -> None:
    """Pages of a server for people: which exist, and which names they show."""
    status, text = member.send("GET", f"/servers/{server}", accept="text/html")
    comparisons.same(status == 200, member.sees(server), "page")
    if status == 200:
        shown = orjson.loads(member.send("GET", f"/mcp/meta/{server}.json")[1])["server"]
        tools, prompts = ({one["name"] for one in shown[kind]} for kind in ("tools", "prompts"))
        uris = {one["wire"][key] for kind, key in URIS.items() for one in shown[kind]}
        reads = (*READS[server], *TEMPLATES[server])
        comparisons.sets(tools, {name for name in CALLS[server] if member.may("call", server, name)}, CALLS[server])
        comparisons.sets(uris, {uri for uri in reads if member.may("read", server, uri)}, reads)
        comparisons.sets(
            prompts, {name for name in PROMPTS[server] if member.may("read", server, name)}, PROMPTS[server]
        )
        sections = [text.count(f'id="{kind}-') for kind in ("tool", "resource", "prompt")]
        assert sections == [len(tools), len(uris), len(prompts)], (server, sections)
    status, text = member.send("GET", f"/servers/{server}.json")
    comparisons.same(status == 200, member.sees(server), "JSON")
    has_source = status == 200 and bool(orjson.loads(text)["source"])
    comparisons.same(has_source, member.may("see", server), "source")


def check_sdk(member: Member, comparisons: Comparisons, server: str) -> None:
    """The official SDK client: lists and uses at the endpoint of one server."""
    if member.sees(server):
        with_sdk(member.hub, server, lambda client: _check_with_client(client, member, comparisons, server))


async def _check_with_client(client: mcp.Client, member: Member, comparisons: Comparisons, server: str) -> None:
    tools = {tool.name for tool in (await client.list_tools()).tools}
    resources = {str(one.uri) for one in (await client.list_resources()).resources}
    prompts = {one.name for one in (await client.list_prompts()).prompts}
    comparisons.sets(tools, {name for name in CALLS[server] if member.may("call", server, name)}, CALLS[server])
    comparisons.equal(resources, {uri for uri in READS[server] if member.may("read", server, uri)})
    comparisons.equal(prompts, {name for name in PROMPTS[server] if member.may("read", server, name)})
    name = comparisons.chance.choice([name for name in CALLS[server] if name not in BUSY])
    called = await client.call_tool(name, {"id": "1"} if name == "note" else {})
    comparisons.same(not called.is_error, member.may("call", server, name), name)
    for uri in READS[server]:
        comparisons.same(await _works(client.read_resource(uri)), uri in resources, uri)
    for name in PROMPTS[server]:
        comparisons.same(await _works(client.get_prompt(name, {})), name in prompts, name)


async def _works(request: Any) -> bool:
    try:
        await request
    except MCPError:
        return False
    return True


Check = Callable[[Member, Comparisons, str], None]

WAYS: Mapping[str, Check] = {
    "tools": check_tools,
    "resources": check_resources,
    "prompts": check_prompts,
    "completion": check_completion,
    "all servers": check_all_servers,
    "tools inside": check_tools_inside,
    "native": check_native,
    "subscriptions": check_subscriptions,
    "search_tools": check_search,
    "cid://": check_cids,
    "plain HTTP": check_plain_http,
    "pages": check_pages,
    "SDK client": check_sdk,
}
"""Every way in, by name. `search_tools` needs the hub that lists by search."""


class Team:
    """The hubs that the ways are checked on: one with plain lists, and one that lists its tools by search."""

    def __init__(self, folder: Path) -> None:
        self._hubs = [team_hub(folder / name, page_size=500) for name in ("plain", "searching")]
        searching = self._hubs[1].catalogue
        listing = searching.store.blobs.put(b'{"search": true}')
        change_names(searching.store, {"variables/listing": listing}, "test", "search")
        searching.refresh()
        self._schemes = [accept_member_tokens(hub) for hub in self._hubs]

    @property
    def hub(self) -> Hub:
        """The hub with plain lists."""
        return self._hubs[0]

    def check(self, way: str, document: Any, who: Principal, server: str, comparisons: Comparisons) -> None:
        """Check one way for one principal under one document; where a way is of one server, at this server."""
        place = 1 if way == "search_tools" else 0
        comparisons.way = way
        WAYS[way](Member(self._hubs[place], document, who, self._schemes[place]), comparisons, server)

    def close(self) -> None:
        """Close the hubs."""
        for hub in self._hubs:
            hub.close()
