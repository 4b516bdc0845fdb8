"""Events of a mounted server: offered under our rights and pins, with all delivery modes and our cursors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.hubs import Hub
from tests.interaction.programs import running_hub
from tests.protocol.events.test_emitting import EVENT, SOURCE, ask, poll, stream_of
from tests.waiting import until

pytestmark = pytest.mark.process

JOINED = f"far__{EVENT}"


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("upstream")
    (folder / "desk.py").write_text(SOURCE)
    with running_hub(folder / "hub", [folder / "desk.py"], enable="") as hub:
        yield hub


@pytest.fixture
def hub(tmp_path: Path, upstream: Any) -> Iterator[Hub]:
    shutil.copy(tmp_path_source(upstream), upstream.servers / "desk.py")
    mount = {"kind": "upstream", "address": f"{upstream.url}/mcp/desk", "changes": "hold"}
    one = Hub(tmp_path, {"far.json": orjson.dumps(mount).decode()})
    until(lambda: EVENT in one.catalogue.find("far").events, "the event type of the mounted server")
    yield one
    one.close()


def tmp_path_source(upstream: Any) -> Path:
    """The definition as it was at first, for a server that a test changed."""
    first = Path(upstream.servers).parent.parent / "desk.py"
    return first


def report(hub: Hub, title: str) -> None:
    assert not hub.call("far", "report", {"title": title}).result["isError"]


@pytest.mark.parametrize(("server", "name"), [("far", EVENT), ("", JOINED)])
def test_a_mounted_servers_events_are_listed_polled_and_streamed(hub: Hub, server: str, name: str) -> None:
    """37.1"""
    (listed,) = (one for one in ask(hub, "events/list", {}, server)["events"] if one["name"] == name)
    assert listed["delivery"] == ["poll", "push", "webhook"]
    begin = poll(hub, None, server, name)["cursor"]
    stream = stream_of(hub, server, name, cursor=begin)
    assert next(stream)["method"] == "notifications/events/active"
    for title in ("one", "two"):
        report(hub, title)
    found = poll(hub, begin, server, name, maxEvents=1)
    assert [one["data"]["title"] for one in found["events"]] == ["one"] and found["hasMore"]
    rest = poll(hub, found["cursor"], server, name)["events"]
    assert [(one["name"], one["data"]["title"]) for one in rest] == [(name, "two")]
    streamed = [next(stream)["params"] for _ in range(2)]
    assert [one["eventId"] for one in streamed] == [found["events"][0]["eventId"], rest[0]["eventId"]]
    assert all(one["name"] == name for one in streamed)
    stream.close()


def test_a_cursor_of_one_server_is_refused_for_another(hub: Hub) -> None:
    begin = poll(hub, None, "far")["cursor"]
    assert poll(hub, begin + "x", "far")["code"] == -32602


def test_a_changed_payload_schema_is_held_until_it_is_approved(hub: Hub, upstream: Any) -> None:
    """37.1"""
    (upstream.servers / "desk.py").write_text(SOURCE.replace("numbers: list[int]", "numbers: list[int]\n    more: str"))
    until(lambda: EVENT not in hub.catalogue.find("far").events, "the held event type")
    assert ("event", EVENT) in hub.catalogue.find("far").pins.held
    assert ask(hub, "events/list", {}, "far")["code"] == -32601
