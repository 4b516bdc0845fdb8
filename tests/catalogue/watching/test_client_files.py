"""Files for MCP clients in the watched folder: each server in them is a server of the hub, with problems of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.catalogue.operating.removal import remove_server
from patchbay.catalogue.saving import ServerEditor
from patchbay.cid import cid_of
from patchbay.errors import Refused
from tests.hubs import Hub
from tests.waiting import until

FAR = {"url": "http://127.0.0.1:9/mcp"}
OFF = {"command": "python3", "args": ["-c", "pass"], "disabled": True, "alwaysAllow": ["x"]}


@pytest.fixture(name="hub")
def running_hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path)
    yield hub
    hub.close()


def served(hub: Hub, name: str) -> Any:
    """Return a server, also one that is broken or off; None for an unknown name."""
    return next((one for one in hub.catalogue.all() if one.name == name), None)


def drop(hub: Hub, file: str, servers: dict[str, Any]) -> None:
    (hub.servers / file).write_text(json.dumps({"mcpServers": servers}))


def test_each_server_of_a_file_is_a_server_and_goes_with_its_entry(hub: Hub) -> None:
    drop(hub, "desktop.json", {"far": FAR, "my server": OFF})
    until(lambda: served(hub, "far") and served(hub, "my-server"))
    assert served(hub, "far").broken is None
    assert served(hub, "far").origin == "servers/desktop.json"
    assert not served(hub, "my-server").enabled
    assert served(hub, "desktop") is None, "the file itself is no server"
    drop(hub, "desktop.json", {"my server": OFF})
    until(lambda: served(hub, "far") is None)
    assert served(hub, "my-server") is not None
    (hub.servers / "desktop.json").unlink()
    until(lambda: served(hub, "my-server") is None)


def test_the_servers_of_a_file_are_the_same_after_a_restart(tmp_path: Path) -> None:
    assert row_of_a_new_hub(tmp_path) == row_of_a_new_hub(tmp_path)


def row_of_a_new_hub(folder: Path) -> str:
    """Start a hub, let it read the file, and return what it has stored of the server."""
    hub = Hub(folder, store="sqlite")
    try:
        drop(hub, "desktop.json", {"far": FAR})
        until(lambda: served(hub, "far"), "the server")
        return str(hub.catalogue.store.names.get("servers/far"))
    finally:
        hub.close()


def test_comments_are_read_and_members_that_are_not_used_are_problems_of_the_server(hub: Hub) -> None:
    (hub.servers / "mcp.json").write_text(
        '{"servers": { // as in VS Code\n "far": {"url": "http://127.0.0.1:9/mcp", "shiny": 1,},}}'
    )
    until(lambda: served(hub, "far"))
    problems = [(one.where, one.reason) for one in served(hub, "far").problems]
    assert ("shiny", "not used: the hub does not know this member") in problems


def test_a_wrong_entry_breaks_its_own_server_alone(hub: Hub) -> None:
    drop(hub, "desktop.json", {"far": FAR, "bad": {"command": "x", "arg": []}, "none": 5})
    until(lambda: served(hub, "far"))
    assert served(hub, "far").broken is None
    assert "servers/desktop.json: at mcpServers.bad.arg: unknown; did you mean args?" in served(hub, "bad").broken
    assert "mcpServers.none: expected an object" in served(hub, "none").broken


def test_a_literal_secret_is_never_stored_and_the_operator_is_told(hub: Hub) -> None:
    secret = {"command": "x", "env": {"API_KEY": "sk-do-not-keep"}}
    drop(hub, "desktop.json", {"far": FAR, "leaky": secret})
    (hub.servers / "alone.json").write_text(json.dumps(secret))
    until(lambda: all(served(hub, name) for name in ("far", "leaky", "alone")))
    for name, path in (("leaky", "mcpServers.leaky.env.API_KEY"), ("alone", "env.API_KEY")):
        assert path in served(hub, name).broken
        assert "patchbay secret set API_KEY" in served(hub, name).broken
    blobs = hub.catalogue.store.blobs
    possible = [(hub.servers / file).read_bytes() for file in ("desktop.json", "alone.json")]
    possible.append(orjson.dumps({"mcpServers": {"leaky": secret}}, option=orjson.OPT_INDENT_2) + b"\n")
    cids = [cid_of(data) for data in possible]
    assert blobs.missing(cids) == cids
    far = orjson.dumps({"mcpServers": {"far": FAR}}, option=orjson.OPT_INDENT_2) + b"\n"
    assert blobs.missing([cid_of(far)]) == [], "this is how a server without a secret is stored"


def test_two_servers_of_one_name_are_a_problem_and_the_file_of_its_own_comes_first(hub: Hub) -> None:
    drop(hub, "a.json", {"far": FAR, "x y": OFF, "x-y": FAR})
    (hub.servers / "far.json").write_text(json.dumps({"kind": "upstream", "address": "http://127.0.0.1:9/own"}))
    # The folder may be read between the two files; a problem is told after the servers.
    told = {"a.json: far", "a.json: mcpServers.x-y"}
    until(lambda: served(hub, "far") and served(hub, "far").origin == "servers/far.json" and served(hub, "x-y"))
    until(lambda: told <= set(hub.catalogue.refused), "both problems are told")
    assert hub.catalogue.refused["a.json: far"] == "far.json is the server far already: rename one of the two"
    assert "x-y already" in hub.catalogue.refused["a.json: mcpServers.x-y"]


def test_a_page_switches_such_a_server_and_leaves_its_definition_to_the_file(hub: Hub) -> None:
    drop(hub, "desktop.json", {"far": FAR, "off": OFF})
    until(lambda: served(hub, "far"))
    before = (hub.servers / "desktop.json").read_bytes()
    editor = ServerEditor(hub.catalogue.store, hub.servers)
    base = served(hub, "far").definition
    with pytest.raises(Refused, match=r"described in desktop\.json"):
        editor.definition("far", "static", b'{"kind": "static"}', base, "test", "edit")
    with pytest.raises(Refused, match=r"remove it from desktop\.json, which also describes off"):
        remove_server(hub.catalogue.store, hub.servers, "far", "test")
    assert (hub.servers / "desktop.json").read_bytes() == before


@pytest.mark.parametrize("form", [{"command": "touch"}, {"mcpServers": {"x": {"command": "touch"}}}])
def test_such_a_definition_from_elsewhere_than_a_file_starts_nothing(hub: Hub, form: dict[str, Any]) -> None:
    source = json.dumps(form).encode()
    ServerEditor(hub.catalogue.store, hub.servers).definition("sneaky", "static", source, None, "a caller", "made")
    hub.catalogue.refresh()
    assert "which needs the operator: save it as servers/" in served(hub, "sneaky").broken
    assert served(hub, "sneaky").upstream is None
