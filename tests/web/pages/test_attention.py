"""The home page shows what is nearly full and which packages have a newer version, each with its button, live."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.access.limits.usage import Usage
from patchbay.stores.reserve import FEW_DISK_BYTES
from patchbay.web.pages.attention import Attention, store_newest
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub, Stream
from tests.web.browsing import BROWSER
from tests.wire.hostile import Reader

OLD = {"kind": "upstream", "address": "mcp+npx://server-everything@1.0.0", "enabled": False}
UNPINNED = {"kind": "upstream", "address": "mcp+uvx://another", "enabled": False}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    files = {"old.json": json.dumps(OLD), "free.json": json.dumps(UNPINNED)}
    found = Hub(tmp_path, files).log_in()
    yield found
    found.close()


def attention(hub: Hub, free: int) -> Attention:
    services = hub.app.parts.dispatcher.services
    usage = Usage(services.quotas, services.ledger)
    return Attention(hub.catalogue, hub.settings.data, usage, services.scheduler, lambda folder: free)


def home(hub: Hub) -> str:
    return " ".join(Reader(hub.client.get("/", headers=BROWSER).text).text.split())


def test_a_disk_with_little_room_is_said_with_what_to_do(hub: Hub) -> None:
    [found] = attention(hub, FEW_DISK_BYTES - 1).list_full()
    assert found["title"] == "The disk of this hub is nearly full" and found["sentence"].startswith("499 MiB are free.")
    assert "patchbay gc" in found["sentence"]
    assert attention(hub, FEW_DISK_BYTES).list_full() == []


def test_a_newer_version_of_a_mounted_package_is_on_the_home_page_after_a_look(hub: Hub) -> None:
    assert "1 mounted package. Newer versions were not looked for yet. Look now" in home(hub)
    store_newest(hub.catalogue.store, {"npm:server-everything": "1.2.0", "pypi:another": "9.0", "npm:gone": "3.0"})
    text = home(hub)
    assert "1 package has a newer version" in text and "old: server-everything 1.0.0, now 1.2.0." in text
    assert "See the updates" in text
    assert "Newer versions were looked for just now." in text and "9.0" not in text
    store_newest(hub.catalogue.store, {"npm:server-everything": "1.0.0"})
    assert "See the updates" not in home(hub)


def test_another_reader_sees_no_updates(hub: Hub) -> None:
    store_newest(hub.catalogue.store, {"npm:server-everything": "1.2.0"})
    text = hub.app.test_client().get("/", headers=BROWSER).text
    assert "newer version" not in text and "Newer versions" not in text


def test_a_limit_that_a_caller_has_nearly_reached_is_on_the_home_page_and_in_its_number(tmp_path: Path) -> None:
    hub = team_hub(tmp_path).log_in()
    try:
        everything = [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]
        set_grants(hub, {"grants": everything, "quotas": [{"to": ["*"], "rooms": 1}]})
        ann = new_key(hub, "ann")
        assert attention(hub, FEW_DISK_BYTES).list_full() == []
        assert hub.app.test_client().put("/rooms/full", json={}, headers=ann).status_code == 201
        fresh = attention(hub, FEW_DISK_BYTES)
        [found] = fresh.list_full()
        assert found["sentence"] == "1 caller is near the limit, or at it: created rooms"
        assert found["to"] == "/access/usage"
    finally:
        hub.close()


def test_the_stream_tells_when_something_else_needs_attention(hub: Hub) -> None:
    stream = Stream(hub.client.get("/activity/events?only=attention", buffered=False))
    next(stream)
    store_newest(hub.catalogue.store, {"npm:server-everything": "1.2.0"})
    assert any(b"event: attention" in frame for frame in stream)
    (hub.servers / "broken.py").write_text("def x(:\n")
    assert any(b"event: attention" in frame for frame in stream)
    stream.close()
    assert hub.app.test_client().get("/activity/events?only=attention").status_code == 401
