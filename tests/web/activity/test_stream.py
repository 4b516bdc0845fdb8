"""Calls as they happen: the stream of `/activity/events`, its bound, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.web.activity import stream as activity_stream
from tests.hubs import Hub, Stream, modern_request
from tests.web.activity.test_activity import FILES


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, FILES)
    yield hub
    hub.close()


def watch(hub: Hub, query: str = "") -> Stream:
    response = hub.client.get(f"/activity/events?{query}", buffered=False)
    assert (response.status_code, response.mimetype) == (200, "text/event-stream")
    return Stream(response)


def events(stream: Stream, name: str) -> Iterator[Any]:
    """The values of one kind of event, as they come."""
    for frame in stream:
        for block in frame.decode().split("\n\n"):
            lines = block.split("\n")
            if lines[0] == f"event: {name}":
                yield orjson.loads(lines[1].removeprefix("data: "))


def test_a_finished_call_is_reported_without_its_contents(hub: Hub) -> None:
    stream = watch(hub)
    assert next(events(stream, "running")) == []
    hub.call("busy", "say", {"text": "seen"})
    [call] = next(events(stream, "calls"))
    assert (call["server"], call["name"], call["outcome"]) == ("busy", "say", "ok")
    assert "arguments" not in call and "seen" not in orjson.dumps(call).decode()
    assert hub.client.get(f"/activity/{call['id']}.json").status_code == 200
    stream.close()


def test_only_matching_calls_are_reported(hub: Hub) -> None:
    stream = watch(hub, "outcome=tool_error&tool=fails")
    next(stream)
    hub.call("busy", "say")
    hub.call("busy", "fails")
    assert [call["name"] for call in next(events(stream, "calls"))] == ["fails"]
    stream.close()


def test_a_call_is_reported_while_it_runs_and_when_it_has_ended(hub: Hub) -> None:
    stream = watch(hub)
    assert next(events(stream, "running")) == []
    call = hub.stream("busy", *modern_request("tools/call", {"name": "hangs"}, meta={"progressToken": 1}))
    next(call)
    assert [run["name"] for run in next(events(stream, "running"))] == ["hangs"]
    call.close()
    assert next(events(stream, "running")) == []
    stream.close()


def test_the_newest_of_too_many_calls_are_reported_and_the_others_counted(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity_stream, "MAX_CALLS_PER_UPDATE", 2)
    stream = watch(hub)
    next(stream)
    for text in "abc":
        hub.call("busy", "say", {"text": text})
    hub.activity.flush()
    frame = next(stream)
    while b"event: calls" not in frame:
        frame = next(stream)
    assert frame.startswith(b"event: skipped\ndata: 1\n\n")
    assert len(orjson.loads(frame.split(b"data: ")[2].split(b"\n")[0])) == 2
    stream.close()


def test_places_are_bounded_and_given_back(tmp_path: Path) -> None:
    """THREATS 1.2: T04, T05."""
    hub = Hub(tmp_path, FILES, listeners=1)
    places = hub.app.parts.dispatcher.places
    first = watch(hub)
    next(first)
    busy = hub.client.get("/activity/events")
    assert busy.status_code == 503 and b"too many streams" in busy.get_data()
    assert places.in_use == 1
    first.close()
    assert places.in_use == 0
    watch(hub).close()
    assert [number for _, number in places.changes()] == [0, 1, 0, 1, 0]
    hub.close()


def test_a_stream_says_that_it_is_alive_and_ends_with_the_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_stream, "KEEPALIVE_SECONDS", 0.0)
    monkeypatch.setattr(activity_stream, "UPDATE_SECONDS", 0.01)
    stream = watch(hub)
    next(stream)
    assert next(stream) == b":\n\n"
    hub.app.parts.drain.begin()
    assert all(frame == b":\n\n" for frame in stream)


def test_a_filter_that_makes_no_sense_is_refused_before_a_place_is_taken(hub: Hub) -> None:
    assert hub.client.get("/activity/events?outcome=lucky").status_code == 400
    assert hub.app.parts.dispatcher.places.in_use == 0
