"""An attacker wants to act with the key that another person has stored for a mounted server, or to read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from patchbay.access.keys import PersonalKeys
from patchbay.cli.commands.patchbay import main
from tests.access.upstreams.guarded import Caller, caller_of, is_connected, name_of, page_of, tools_of
from tests.access.upstreams.keyed import Keyed, disconnect, key_of, processes_with, program_mount, running_keyed, store
from tests.hubs import Hub
from tests.kinds.openapi.mounting import document, operation, parameter
from tests.kinds.openapi.recording_api import Recorded, RecordingApi, Reply, recording_api
from tests.serving.running import running
from tests.signing_in import HTML, Browser, accounts_of, hidden_fields, make_account, shared_hub, signed_in
from tests.waiting import until

pytestmark = [pytest.mark.process]

NAMES = iter(f"person{number}" for number in range(1000))
TOKEN = [{"name": "token", "header": "X-Api-Key"}]
PATHS = {
    f"/{name}": {"get": operation(parameter("X-Api-Key", "header"), operationId=name)}
    for name in ("whoami", "moved", "refused", "pages")
}


class Api:
    """Answers with the key of a request; `/moved` redirects to `moved_to`, `/pages` leads there with its next page."""

    moved_to = ""

    def __call__(self, seen: Recorded) -> Reply:
        key = seen.headers.get("X-Api-Key", "")
        if seen.path == "/moved":
            return Reply(None, 302, {"Location": f"{self.moved_to}/caught"})
        if seen.path == "/pages":
            return Reply([1], headers={"Link": f'<{self.moved_to}/caught>; rel="next"'})
        if seen.path == "/refused":
            return Reply({"detail": f"refused {key}"}, 403)
        return Reply({"who": key.split("-")[2] if key else ""})


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with running_keyed(tmp_path_factory.mktemp("keyed")) as keyed:
        yield keyed


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[RecordingApi]:
    """Another server, which has the document of the API and must get no key."""
    with recording_api(document(PATHS), lambda seen: Reply({"who": "elsewhere"})) as elsewhere:
        yield elsewhere


@pytest.fixture(scope="module")
def api(elsewhere: RecordingApi) -> Iterator[RecordingApi]:
    answering = Api()
    answering.moved_to = elsewhere.url
    with recording_api(document(PATHS), answering) as api:
        yield api


@pytest.fixture(scope="module")
def hub(
    tmp_path_factory: pytest.TempPathFactory, keyed: Keyed, api: RecordingApi, elsewhere: RecordingApi
) -> Iterator[Hub]:
    own = {"account": "caller", "way": "key", "fields": TOKEN, "pages": 5}
    shop = {"kind": "openapi", "document": f"{elsewhere.url}/openapi.json", "base": api.url} | own
    files = {"far.json": keyed.mount(), "tool.json": program_mount(), "shop.json": json.dumps(shop)}
    hub = shared_hub(tmp_path_factory.mktemp("hub"), files=files)
    until(lambda: hub.catalogue.find("shop").tools, lambda: hub.catalogue.find("shop"))
    yield hub
    hub.close()


def person_at(hub: Hub, server: str) -> Caller:
    return caller_of(hub, signed_in(hub, next(NAMES)), server)


def connected_at(hub: Hub, server: str, name: str, field: str = "token") -> tuple[Caller, str]:
    caller, key = person_at(hub, server), key_of(name)
    assert store(caller.browser.client, server, {field: key}).status_code == 303
    until(lambda: tools_of(caller, server) not in ([], ["sign_in"]))
    return caller, key


def test_a_caller_without_a_key_does_not_use_that_of_another(hub: Hub, keyed: Keyed) -> None:
    victim, _ = connected_at(hub, "far", "victim")
    assert victim.call("far", "whoami").text == "victim"
    attacker = person_at(hub, "far")
    before = len(keyed.seen())
    assert attacker.call("far", "whoami").result["isError"]
    assert "contents" not in attacker.modern("far", "resources/read", {"uri": "keyed://x"}).last.get("result", {})
    assert not [row for row in keyed.seen()[before:] if row["headers"].get("mcp-method") == "tools/call"]
    assert victim.call("far", "whoami").text == "victim"


@pytest.mark.parametrize("server", ["far", "tool"])
def test_the_session_of_another_is_of_no_use(hub: Hub, server: str) -> None:
    field = "token" if server == "far" else "key"
    victim, _ = connected_at(hub, server, "victim", field)
    attacker, _ = connected_at(hub, server, "attacker", field)
    sessions = {}
    for caller in (victim, attacker):
        hub.client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {caller.token}"
        sessions[caller.token] = hub.open(server)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}
    headers = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": sessions[victim.token]}
    stolen = hub.send(server, call, headers)
    assert stolen.status == 404 or "error" in stolen.last
    own = hub.send(server, call, headers | {"Mcp-Session-Id": sessions[attacker.token]})
    assert own.text == "attacker"
    del hub.client.environ_base["HTTP_AUTHORIZATION"]


def test_no_argument_names_the_account_of_another(hub: Hub, api: RecordingApi) -> None:
    victim, victims = connected_at(hub, "shop", "victim")
    attacker, own = connected_at(hub, "shop", "attacker")
    (tool,) = [one for one in attacker.modern("shop", "tools/list").result["tools"] if one["name"] == "whoami"]
    assert "X-Api-Key" not in str(tool["inputSchema"])
    before = len(api.requests)
    attacker.call("shop", "whoami", arguments={"X-Api-Key": victims})
    attacker.modern("shop", "tools/call", {"name": "whoami", "arguments": {}, "principal": name_of(victim)})
    assert {seen.headers["X-Api-Key"] for seen in api.requests[before:]} <= {own}
    form = hidden_fields(page_of(attacker.browser.client, "shop").text, "csrf", "for")
    moved = form | {"do": "connect", "for": name_of(victim), "value.token": own}
    assert attacker.browser.client.post("/upstreams/shop", data=moved, headers=HTML).status_code == 401
    assert victim.call("shop", "whoami").result["structuredContent"] == {"who": "victim"}


@pytest.mark.parametrize("tool", ["moved", "pages"])
def test_a_key_does_not_follow_to_another_host(hub: Hub, elsewhere: RecordingApi, tool: str) -> None:
    caller, key = connected_at(hub, "shop", "victim")
    caller.call("shop", tool)
    assert not [seen for seen in elsewhere.requests if key in str(seen.headers) or key in seen.target]


def test_a_key_does_not_follow_a_mounted_server_to_another_host(hub: Hub, elsewhere: RecordingApi) -> None:
    """The server answers each message with a redirect that keeps its method and its body."""
    leading = f"{elsewhere.url}/mcp"
    with recording_api({}, lambda seen: Reply(None, 307, {"Location": leading})) as moved:
        mount = {"kind": "upstream", "address": f"{moved.url}/mcp", "account": "caller", "way": "key"}
        (hub.servers / "moved.json").write_text(json.dumps(mount))
        until(lambda: "moved" in [server.name for server in hub.catalogue.all()])
        caller, key = person_at(hub, "moved"), key_of("victim")
        store(caller.browser.client, "moved", key)
        until(lambda: any(key in str(seen.headers) for seen in moved.requests), "the server gets the key")
        until(lambda: hub.catalogue.find("moved").standing.health.state == "down", "it is not followed")
        assert not [seen for seen in elsewhere.requests if key in str(seen.headers) or key in str(seen.body)]
        (hub.servers / "moved.json").unlink()


def test_a_hub_behind_a_hub_gets_the_key_of_each_caller_and_no_token_of_the_first(hub: Hub, tmp_path: Path) -> None:
    """Each caller of the first hub has a personal key of the second one, whose callers have keys at its program."""
    servers = tmp_path / "servers"
    servers.mkdir()
    (servers / "tool.json").write_text(program_mount())
    data = ["--data", str(tmp_path / "data")]
    with running(tmp_path, "--servers", str(servers), "--access", "shared", "--workers", "1") as behind:
        keys = {}
        for name in ("ann", "ben"):
            made = CliRunner().invoke(main, ["key", "new", name, *data])
            assert made.exit_code == 0, made.output
            keys[name] = made.stdout.strip()
            arguments = ["account", "set", "tool", "-", "--for", f"key:{name}", *data]
            stored = CliRunner().invoke(main, arguments, input=key_of(name))
            assert stored.exit_code == 0, stored.output
        mount = {
            "address": f"http://127.0.0.1:{behind.port}/mcp/tool",
            "account": "caller",
            "way": "key",
            "changes": "follow",
        }
        (hub.servers / "chain.json").write_text(json.dumps({"kind": "upstream"} | mount))
        until(lambda: "chain" in [server.name for server in hub.catalogue.all()])
        callers = {name: person_at(hub, "chain") for name in keys}
        for name, caller in callers.items():
            store(caller.browser.client, "chain", keys[name])
            until(lambda caller=caller: "whoami" in tools_of(caller, "chain"))  # type: ignore[misc]
        assert [callers[name].call("chain", "whoami").text for name in ("ann", "ben") * 3] == ["ann", "ben"] * 3
        assert person_at(hub, "chain").call("chain", "whoami").result["isError"]
        (hub.servers / "chain.json").unlink()
        log = "".join(behind.lines)
    assert not any(text in log for caller in callers.values() for text in (caller.token, *keys.values()))


def test_an_error_that_repeats_the_key_does_not_show_it(hub: Hub) -> None:
    caller, key = connected_at(hub, "shop", "victim")
    refused = caller.call("shop", "refused")
    assert refused.result["isError"]
    assert "refused" in refused.text
    assert key not in refused.text


def test_an_error_of_a_program_that_repeats_the_key_does_not_show_it(hub: Hub, tmp_path: Path) -> None:
    """The program ends at once, with the key among its last words."""
    program = tmp_path / "leaking.py"
    program.write_text("import os, sys\nsys.exit('cannot use ' + os.environ.get('SERVICE_KEY', ''))\n")
    mount = json.loads(program_mount())
    mount["address"] = mount["address"].rpartition(" ")[0] + f" {program}"
    (hub.servers / "leaking.json").write_text(json.dumps(mount))
    until(lambda: "leaking" in [server.name for server in hub.catalogue.all()])
    caller, key = person_at(hub, "leaking"), key_of("victim")
    store(caller.browser.client, "leaking", {"key": key})
    refused = caller.call("leaking", "sign_in")
    until(lambda: hub.catalogue.find("leaking").standing.health.state == "down")
    health = hub.catalogue.find("leaking").standing.health
    assert "cannot use" in str(health)
    assert key not in str(health)
    assert key not in str(refused.last)
    assert key not in caller.browser.client.get("/servers/leaking", headers=HTML).text
    (hub.servers / "leaking.json").unlink()


def test_a_mount_of_another_name_or_address_gets_no_key(hub: Hub, keyed: Keyed, elsewhere: RecordingApi) -> None:
    """A configuration of a stranger names the server of another mount, or takes its name for another address."""
    caller, key = connected_at(hub, "far", "victim")
    (hub.servers / "near.json").write_text(keyed.mount())
    until(lambda: "near" in [server.name for server in hub.catalogue.all()])
    assert caller_of(hub, caller.browser, "near").call("near", "sign_in").result["isError"]
    (hub.servers / "far.json").write_text(keyed.mount(address=f"{elsewhere.url}/mcp"))
    until(lambda: caller.call("far", "whoami").last.get("result", {}).get("isError") is not False)
    assert not [seen for seen in elsewhere.requests if key in str(seen.headers)]
    (hub.servers / "far.json").write_text(keyed.mount())
    (hub.servers / "near.json").unlink()
    until(lambda: "whoami" in tools_of(caller, "far"))


def test_a_new_person_with_the_name_of_a_removed_one_does_not_get_its_key(hub: Hub) -> None:
    victim, key = connected_at(hub, "tool", "victim", "key")
    name = name_of(victim)
    assert victim.call("tool", "whoami").text == "victim"
    accounts_of(hub).people.remove(name)
    make_account(hub, name)
    browser = Browser(hub)
    assert browser.sign_in(name).status_code == 303
    again = caller_of(hub, browser, "tool")
    assert not is_connected(hub, name)
    assert again.call("tool", "whoami").result["isError"]
    until(lambda: not processes_with(key), "the process of the removed person ends")


def test_the_key_of_a_revoked_key_is_gone_for_the_next_one_of_its_name(hub: Hub) -> None:
    keys: PersonalKeys = hub.app.parts.keys
    robot = Caller(hub, Browser(hub), keys.make("robot"))
    operator = Browser(hub)
    assert operator.client.get(hub.app.parts.operators.links.make()).status_code == 303
    assert store(operator.client, "far", key_of("robot"), "?for=key%3Arobot").status_code == 303
    until(lambda: "whoami" in tools_of(robot, "far"))
    assert robot.call("far", "whoami").text == "robot"
    keys.revoke("robot")
    again = Caller(hub, Browser(hub), keys.make("robot"))
    assert again.call("far", "whoami").result["isError"]


def test_a_form_of_another_site_stores_and_disconnects_nothing(hub: Hub) -> None:
    victim, _ = connected_at(hub, "far", "victim")
    client = victim.browser.client
    evil = {"Origin": "https://evil.example"}
    fields = hidden_fields(page_of(client, "far").text, "csrf", "for", "id")
    forms: list[dict[str, Any]] = [{"do": "disconnect"}, {"do": "connect", "value.token": key_of("attacker")}]
    for form in forms:
        assert client.post("/upstreams/far", data=fields | form, headers=evil).status_code == 403
        assert client.post("/upstreams/far", data=fields | form | {"csrf": "guessed"}).status_code == 403
    assert victim.call("far", "whoami").text == "victim"
    assert disconnect(client, "far").status_code == 303
