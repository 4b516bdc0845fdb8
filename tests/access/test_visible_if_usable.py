"""What is listed is what can be used, for random grants, principals and objects, by every way in.

Each example compares the hub with the independent account in `team.py`. In process, over the dispatcher: every list and
every use of every entry. Over HTTP: the SDK client, plain HTTP, the native interface, and pages.

Sources: ACCESS section 3; issue 16 "Must show".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchbay.access.principals import Principal
from patchbay.boot.grants import parse_grants
from patchbay.catalogue.public_names import public_name
from patchbay.errors import PatchbayError
from patchbay.jsonrpc import Request, encode
from patchbay.protocol.callers import TransportInfo
from patchbay.protocol.native.subscription import Native, NativeRequest
from tests.access.random_access import documents, principals
from tests.access.team import CALLS, PROMPTS, READS, SERVERS, TEMPLATES, Json, may, team_hub
from tests.hubs import MODERN, Hub

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("team"), page_size=500)
    yield hub
    hub.close()


class Member:
    """A principal that asks the dispatcher, under one document."""

    def __init__(self, hub: Hub, document: Any, who: Principal) -> None:
        self.document, self.who = document, who
        self._dispatcher = hub.app.extensions["dispatcher"]
        hub.catalogue.grants = None if document is None else parse_grants(orjson.dumps(document), "access")

    def ask(self, endpoint: str, method: str, **params: Any) -> Json:
        """The whole answer of one request: `result` or `error`."""
        wire = TransportInfo(endpoint, sender=self.who, connection="one")
        *_, last = self._dispatcher.exchange(wire)(Request(1, method, {**params, "_meta": META}))
        found: Json = orjson.loads(encode(last))
        return found

    def listed(self, endpoint: str, method: str, member: str, key: str) -> set[str]:
        answer = self.ask(endpoint, method)
        return {one[key] for one in answer["result"][member]} if "result" in answer else set()

    def may(self, action: str, server: str, entry: str = "") -> bool:
        return may(self.document, self.who, action, server, entry)

    def sees(self, server: str) -> bool:
        """Whether any entry of a server, or the server itself, is visible."""
        reads = (*READS[server], *TEMPLATES[server], *PROMPTS[server])
        entries = [("call", name) for name in CALLS[server]] + [("read", name) for name in reads]
        return self.may("see", server) or any(self.may(action, server, name) for action, name in entries)


def check_server(member: Member, server: str) -> None:
    """Compare the lists and the uses of one server at its own endpoint with the account."""
    if not member.sees(server):
        error = member.ask(server, "tools/list")["error"]
        assert error["message"].startswith(f"there is no server {server!r}")
        return
    calls = {name for name in CALLS[server] if member.may("call", server, name)}
    assert member.listed(server, "tools/list", "tools", "name") == calls
    for name in CALLS[server]:
        if name not in ("relay", "peek", "names"):  # these do something inside the hub
            result = member.ask(server, "tools/call", name=name, arguments={"id": "1"} if name == "note" else {})[
                "result"
            ]
            assert bool(result.get("isError")) is (name not in calls)
            if name not in calls:
                assert result["content"][0]["text"].startswith(f"there is no tool {name!r} on {server}")
    reads = {uri for uri in READS[server] if member.may("read", server, uri)}
    assert member.listed(server, "resources/list", "resources", "uri") == reads
    for uri in READS[server]:
        assert ("result" in member.ask(server, "resources/read", uri=uri)) is (uri in reads)
    templates = {uri for uri in TEMPLATES[server] if member.may("read", server, uri)}
    assert member.listed(server, "resources/templates/list", "resourceTemplates", "uriTemplate") == templates
    prompts = {name for name in PROMPTS[server] if member.may("read", server, name)}
    assert member.listed(server, "prompts/list", "prompts", "name") == prompts
    for name in PROMPTS[server]:
        assert ("result" in member.ask(server, "prompts/get", name=name)) is (name in prompts)
    if server == "notes":
        argument, reference = {"name": "topic", "value": "w"}, {"type": "ref/prompt", "name": "ask"}
        answer = member.ask(server, "completion/complete", ref=reference, argument=argument)
        assert ("result" in answer) is ("ask" in prompts)


def check_all_servers(member: Member) -> None:
    """Compare the endpoint of all servers, and what one server tells about the others."""
    names = {public_name(server, name): (server, name) for server in SERVERS for name in CALLS[server]}
    listed = member.listed("", "tools/list", "tools", "name") & names.keys()
    assert listed == {public for public, (server, name) in names.items() if member.may("call", server, name)}
    for public in ("notes__search", "lone__lone", "notes.search", "bash.tools.run"):
        server, name = names.get(public) or (public.rpartition(".")[0], public.rpartition(".")[2])
        result = member.ask("", "tools/call", name=public, arguments={})["result"]
        assert bool(result.get("isError")) is not member.may("call", server, name)
    told = member.ask("", "resources/read", uri="server://")
    found = {one["name"] for one in orjson.loads(told["result"]["contents"][0]["text"])} & set(SERVERS)
    assert found == {server for server in SERVERS if member.sees(server)}
    answer = member.ask("", "resources/read", uri="variable://mcps")
    everything = all(member.may(action, "", "") for action in ("see", "call", "read"))
    if not everything:
        assert "error" in answer or not member.document or not member.document.get("denials")


def check_tools_inside(member: Member) -> None:
    """Compare what a tool can do for its caller: call another tool, read a resource, look at sources."""
    if member.may("call", "notes", "relay"):
        result = member.ask("notes", "tools/call", name="relay", arguments={})["result"]
        assert bool(result.get("isError")) is not member.may("call", "bash.tools", "run")
    if member.may("call", "notes", "peek"):
        result = member.ask("notes", "tools/call", name="peek", arguments={})["result"]
        assert bool(result.get("isError")) is not member.may("read", "notes", "notes://plan")
    if member.may("call", "notes", "names"):
        result = member.ask("notes", "tools/call", name="names", arguments={})["result"]
        found = set("".join(block["text"] for block in result["content"]).split(",")) & set(SERVERS)
        assert found == {server for server in SERVERS if member.may("see", server)}


def check_native(hub: Hub, member: Member) -> None:
    """Compare the native interface: what its schema names is what it calls."""
    dispatcher = hub.app.extensions["dispatcher"]
    native, wire = Native(dispatcher.services, dispatcher.cancellations), TransportInfo("", sender=member.who)

    def items(method: str) -> list[Json]:
        answer: Any = native.answer(NativeRequest(1, method, {}), wire)
        said = [orjson.loads(encode(one)) for one in list(answer)[1:] if hasattr(one, "method")]
        return [one["params"]["result"] for one in said]

    schema = next(item["data"] for item in items("plexus_schema") if item["type"] == "data")
    found = {(row["namespace"], name) for row in schema["activations"] for name in row["methods"]}
    for server in SERVERS:
        assert {name for of, name in found if of == server} == {
            name for name in CALLS[server] if member.may("call", server, name)
        }
    for server, name in (("notes", "search"), ("lone", "lone"), ("bash.tools", "delete_all")):
        failed = any(item["type"] == "error" for item in items(f"{server}.{name}"))
        assert failed is not member.may("call", server, name)


@settings(deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents, principals, st.sampled_from(SERVERS))
def test_what_is_listed_is_what_can_be_used(hub: Hub, document: Any, who: Principal, server: str) -> None:
    check_server(Member(hub, document, who), server)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents, principals)
def test_all_servers_together_tools_inside_and_the_native_interface_agree(
    hub: Hub, document: Any, who: Principal
) -> None:
    member = Member(hub, document, who)
    check_all_servers(member)
    check_tools_inside(member)
    check_native(hub, member)


def test_an_error_names_no_hidden_server(hub: Hub) -> None:
    member = Member(hub, {"grants": [{"to": ["*"], "may": ["call"], "on": ["lone"]}]}, Principal("ann"))
    for endpoint in ("note", "notes", "notes@bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"):
        message = member.ask(endpoint, "tools/list")["error"]["message"]
        assert "did you mean" not in message
    with pytest.raises(PatchbayError, match="did you mean lone"):
        hub.app.extensions["dispatcher"].server("lon", Principal("ann"))


def test_members_with_the_same_rights_share_their_lists(hub: Hub) -> None:
    """ACCESS 3: lists are cached by what a principal may see, not by the principal."""
    document = {"grants": [{"to": ["ann", "ben"], "may": ["call"], "on": ["notes.search"]}]}
    member, dispatcher = Member(hub, document, Principal("ann")), hub.app.extensions["dispatcher"]
    first = dispatcher.server("notes", member.who)
    assert dispatcher.server("notes", Principal("ben")) is first
    assert dispatcher.server("notes", member.who) is first
    whole = Member(hub, {"grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["notes"]}]}, Principal("ann"))
    assert dispatcher.server("notes", whole.who) is hub.catalogue.find("notes")
