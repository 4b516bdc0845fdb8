"""An event type of a mounted server that only streams: polled, streamed, and with a mark where it may miss events."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Hub
from tests.protocol.events.test_emitting import ask, poll, stream_of
from tests.protocol.webhooks.receiver import HOST, Receiver
from tests.protocol.webhooks.test_webhooks import subscribe, titles
from tests.waiting import until

pytestmark = pytest.mark.process

SERVER = Path(__file__).with_name("pushing_server.py")
TOLD = "told"


@pytest.fixture
def hub(tmp_path: Path, receiver: Receiver) -> Iterator[Hub]:
    address = f"mcp+stdio:{shlex.quote(sys.executable)} -S {shlex.quote(str(SERVER))} {shlex.quote(str(tmp_path))}"
    mount = {"kind": "upstream", "address": address, "writes": [str(tmp_path)]}
    one = Hub(tmp_path, {"far.json": json.dumps(mount)}, webhook_hosts=(HOST,))
    until(lambda: TOLD in getattr(one.catalogue.find_any("far"), "events", ()), "the event type")
    yield one
    one.close()


def tell(folder: Path, *said: str) -> None:
    with (folder / "events").open("a") as file:
        for title in said:
            file.write(json.dumps({"title": title, "id": f"id-{title}"}) + "\n")


def polled(hub: Hub, cursor: str, **more: Any) -> list[str]:
    return [one["data"]["title"] for one in poll(hub, cursor, "far", TOLD, **more)["events"]]


def test_what_a_server_streams_can_be_polled_streamed_and_sent_to_a_webhook(
    hub: Hub, tmp_path: Path, receiver: Receiver
) -> None:
    """37.1"""
    (listed,) = ask(hub, "events/list", {}, "far")["events"]
    assert listed["delivery"] == ["poll", "push", "webhook"] and set(listed["inputSchema"]["properties"]) == {"title"}
    begin = poll(hub, None, "far", TOLD)["cursor"]
    subscribe(hub, receiver.url, "far", TOLD)
    stream = stream_of(hub, "far", TOLD)
    assert next(stream)["method"] == "notifications/events/active"
    tell(tmp_path, "one", "two")
    until(lambda: polled(hub, begin) == ["one", "two"], "the events")
    found = poll(hub, begin, "far", TOLD)
    assert [one["eventId"] for one in found["events"]] == ["id-one", "id-two"] and not found["truncated"]
    assert polled(hub, begin, arguments={"title": "two"}) == ["two"]
    streamed = [one["params"]["data"]["title"] for one in (next(stream), next(stream))]
    assert streamed == ["one", "two"]
    until(lambda: titles(receiver) == ["one", "two"], "the deliveries")
    joined = poll(hub, None, "", f"far__{TOLD}")
    assert joined["cursor"]
    stream.close()


def test_a_break_of_the_stream_is_truncated_and_what_comes_after_it_is_there(hub: Hub, tmp_path: Path) -> None:
    """37.1"""
    begin = poll(hub, None, "far", TOLD)["cursor"]
    tell(tmp_path, "one")
    until(lambda: polled(hub, begin) == ["one"], "the first event")
    after = poll(hub, begin, "far", TOLD)["cursor"]
    (tmp_path / "end").touch()
    until((tmp_path / "ended").exists, "the end of the program that streams")
    tell(tmp_path, "missed")
    (tmp_path / "end").unlink()
    until(lambda: poll(hub, after, "far", TOLD)["truncated"], "the mark of the break")
    tell(tmp_path, "three")
    until(lambda: polled(hub, after)[-1:] == ["three"], "the event after the break")
    assert "missed" not in polled(hub, after)
