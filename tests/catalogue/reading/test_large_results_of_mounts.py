"""Links to large results at the address of a mounted server: the hub reads its own, the mounted server the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchbay.catalogue.reading.resources import find_resource
from patchbay.catalogue.servers.server import Server
from tests.hubs import Hub

FILES = {"away.json": json.dumps({"kind": "upstream", "address": "http://127.0.0.1:1/mcp"})}
LARGE = b"large result " * 1000


def is_own(hub: Hub, uri: str, principal: str = "local") -> bool:
    """Whether the hub itself answers a URI at the address of the mounted server."""
    server: Server = hub.catalogue.find("away")
    return find_resource(hub.catalogue, server, uri, principal).descriptor is None


@pytest.mark.parametrize("other", ["another key", "another principal", "no key"])
def test_a_large_result_is_read_where_its_key_was_made(tmp_path: Path, other: str) -> None:
    """The hub and the mounted server may store the same bytes, each under its own key."""
    hub = Hub(tmp_path, FILES)
    uri = hub.catalogue.contents.results.keep(LARGE, "local")
    assert is_own(hub, uri)
    assert hub.modern("away", "resources/read", {"uri": uri}).result["contents"][0]["text"] == LARGE.decode()
    cid = uri.partition("?")[0]
    assert not {
        "another key": lambda: is_own(hub, f"{cid}?key=another"),
        "another principal": lambda: is_own(hub, uri, "another"),
        "no key": lambda: is_own(hub, cid),
    }[other]()
    hub.close()
