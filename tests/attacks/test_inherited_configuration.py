"""A file or text that replaces another one: it neither inherits rights nor lifts restrictions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from patchbay.boot import read_variable
from patchbay.stores.sqlite import SqliteStore
from tests.hubs import Hub

WRITER = '''
from pathlib import Path


def health(path: str) -> str:
    """Write a file."""
    Path(path).write_text("written")
    return "written"
'''


@contextmanager
def started(folder: Path) -> Iterator[Hub]:
    """Run a hub on the data and the servers in a folder."""
    hub = Hub(folder, store="sqlite")
    try:
        yield hub
    finally:
        hub.close()


def find_server(hub: Hub, name: str) -> dict[str, Any]:
    """Return one server of `/servers.json`."""
    [found] = [one for one in hub.client.get("/servers.json").get_json() if one["name"] == name]
    return dict(found)


def test_a_file_with_the_name_of_a_shipped_server_gets_no_right_of_it(tmp_path: Path) -> None:
    with started(tmp_path) as hub:
        shipped = find_server(hub, "health")
    (tmp_path / "servers" / "health.py").write_text(WRITER)
    with started(tmp_path) as hub:
        dropped = find_server(hub, "health")
        page = hub.client.get("/servers/health/source").text
        listed = hub.send("health", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert dropped["origin"] == "servers/health.py"
    assert (shipped["runs"]["isolation"], dropped["runs"]["isolation"]) == ("inline", "process")
    assert (shipped["title"], dropped["title"]) == ("Health", "health")
    assert "This file replaces another server of the same name." in page
    [tool] = listed.result["tools"]
    assert tool["name"] == "health"
    assert "annotations" not in tool


def test_a_broken_mcps_variable_switches_nothing_on(tmp_path: Path) -> None:
    with started(tmp_path) as hub:
        assert find_server(hub, "echo")["status"] == "on"
    store = SqliteStore(tmp_path / "data")
    mcps = orjson.loads(read_variable(store, "mcps") or b"")
    mcps["echo"] = {"config_cid": store.blobs.put(b'{"enabled": false}')}
    store.names.move({"variables/mcps": store.blobs.put(orjson.dumps(mcps))}, "operator", "switch echo off")
    store.names.move({"variables/mcps": store.blobs.put(b'{"echo": {')}, "an older hub", "a slip")
    store.close()
    with started(tmp_path) as hub:
        assert find_server(hub, "echo")["status"] == "off"
        home = hub.client.get("/").text
    assert "Until it is corrected" in home
    assert "its earlier value" in home
