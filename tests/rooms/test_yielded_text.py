"""Text that a tool yields while it runs: stream envelopes for members, each piece once, all of it before the result."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.events import Content, Progress, Text
from patchbay.rooms.room import Room
from tests.rooms.people import Person

Json = dict[str, Any]


@pytest.fixture
def owner(room: Room) -> Person:
    made = Person(room, "bob", caps=["tool.host", "mcp.server:fs"])
    made.announces("fs")
    return made


@pytest.fixture
def reader(room: Room) -> Person:
    return Person(room, "dave", caps=["tool.call", "can.text.stream"])


def frames_of(reader: Person, call: str) -> list[str]:
    """The text of the frames of a call, in order; they have all numbers, and the last one is the end."""
    reader.result_of(call)
    found = [one.envelope["payload"] for one in reader.heard if one.is_stream]
    mine = [one for one in found if one["streamId"] == call]
    assert [one["seq"] for one in mine] == list(range(len(mine)))
    assert [one.get("eof", False) for one in mine] == [False] * (len(mine) - 1) + [True] * bool(mine)
    return [one["data"] for one in mine[:-1]]


def result(*texts: str) -> Json:
    return {"content": [{"type": "text", "text": text} for text in texts]}


@pytest.mark.parametrize(
    ("partials", "texts", "frames"),
    [
        (["one ", "two"], ["one two"], ["one ", "two"]),
        (["one "], ["one two"], ["one ", "two"]),
        (["one "], ["one", " two"], ["one ", "two"]),
        (["working"], ["done"], ["working", "done"]),
        (["one "], [], ["one "]),
        ([], ["one two"], []),
        ([{"progress": 1, "message": "one "}, {"progress": 2, "message": "two"}], ["one two"], ["one ", "two"]),
        ([{"progress": 1, "total": 2, "message": "half"}], ["done"], []),
        ([{"type": "text", "text": "one ", "progress": 1, "message": "one "}], ["one two"], ["one ", "two"]),
        ([{"type": "image", "text": "x"}, {"level": "info", "data": "x"}, {"text": 5}, 7, None], ["done"], []),
    ],
)
def test_what_an_announced_tool_yields_is_a_stream(
    owner: Person, reader: Person, partials: list[Any], texts: list[str], frames: list[str]
) -> None:
    """34.12: what the result has beyond it follows at the end; nothing is sent twice."""
    call = reader.calls("fs", "read")
    for partial in partials:
        said = {"type": "text", "text": partial} if isinstance(partial, str) else partial
        owner.says("tool.partial", {"callId": call, "partial": said})
    reader.reads()
    live = [one for one in reader.heard if one.is_stream]
    assert len(live) == min(len(partials), len(frames)), "each piece is there before the result"
    assert owner.answers(call, result(*texts)).refusal == ""
    assert frames_of(reader, call) == frames


@pytest.mark.parametrize(
    ("events", "frames"),
    [
        (
            [Progress(1, None, "one "), Progress(2, None, "two"), Content({"type": "text", "text": "one two"})],
            ["one ", "two"],
        ),
        ([Progress(1, None, "one "), Text("one "), Text("two")], ["one ", "two"]),
        ([Progress(1, 2, "half"), Text("one two")], ["one two"]),
    ],
)
def test_what_a_mounted_tool_yields_is_a_stream(
    room: Room, owner: Person, reader: Person, events: list[Any], frames: list[str]
) -> None:
    """34.12: progress without a total is how MCP carries text; its result repeats the text."""
    call = reader.calls("fs", "read")
    for event in events:
        room._gateway._relay(call, event)
    room._calls.end(call, True, result("one two"))
    assert frames_of(reader, call) == frames


def test_a_session_without_the_capability_gets_no_frames(room: Room, owner: Person, reader: Person) -> None:
    """34.12: `tool.partial` is for all; frames are for `stream` and for capabilities that end in `.stream`."""
    plain = Person(room, "carol", caps=["tool.call"])
    call = reader.calls("fs", "read")
    owner.says("tool.partial", {"callId": call, "partial": {"type": "text", "text": "one"}})
    owner.answers(call, result("one"))
    plain.result_of(call)
    assert "tool.partial" in plain.types() and not [one for one in plain.heard if one.is_stream]
    assert frames_of(reader, call) == ["one"]
