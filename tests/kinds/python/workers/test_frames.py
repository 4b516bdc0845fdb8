"""Frames: a value is the same after transport in any pieces; invalid frames are BadFrame and nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.activation import Cancelled
from patchbay.errors import MissingCapability, ProtocolError, ResourceNotFound, ToolFailed
from patchbay.events import Ask, Content, Data, Detach, Event, Log, Progress, Question, Text, ToolUse
from patchbay.kinds.python.workers import frames
from patchbay.kinds.python.workers.frames import BadFrame, Frames, event_frame, event_of, failure_of, failure_value
from patchbay.raised.exceptions import CodeLine, RaisedException, raised_of

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Text, TEXT),
    st.builds(Data, JSON, st.none() | TEXT, st.none() | TEXT),
    st.builds(Content, st.dictionaries(TEXT, JSON, max_size=3)),
    st.builds(Progress, FINITE | st.integers(), st.none() | st.integers(), st.none() | TEXT),
    st.builds(Log, st.sampled_from(["debug", "error"]), JSON, st.none() | TEXT),
    st.builds(ToolUse, TEXT, JSON, st.none() | TEXT),
    st.builds(Detach, st.booleans()),
    st.builds(
        Ask, st.dictionaries(TEXT, st.builds(Question, TEXT, st.dictionaries(TEXT, JSON, max_size=2)), max_size=2)
    ),
)


@given(st.lists(EVENTS, max_size=5), st.integers(1, 50))
def test_events_pass_in_any_pieces(events: list[Event], piece: int) -> None:
    data = b"".join(map(event_frame, events))
    cutter = Frames()
    found = [one for start in range(0, len(data), piece) for one in cutter.feed(data[start : start + piece])]
    assert [event_of(kind, body) for kind, body in found] == events


@given(st.integers(0, 255), st.binary(max_size=60) | JSON.map(lambda value: frames.pack_frame(0, value)[5:]))
def test_a_frame_is_an_event_or_a_bad_frame(kind: int, body: bytes) -> None:
    with suppress(BadFrame):
        event_of(kind, body)
    with suppress(BadFrame):
        failure_of(frames.unpacked(kind, body))


def test_a_frame_that_is_too_large_is_refused_before_it_has_arrived() -> None:
    with pytest.raises(BadFrame, match="a piece of 4294967295 bytes"):
        Frames().feed(b"\xff\xff\xff\xff\x0a")
    assert Frames().feed(frames.HEAD.pack(frames.MAX_FRAME_BYTES, 10)) == []
    with pytest.raises(BadFrame, match=f"the most is {frames.MAX_FRAME_BYTES}"):
        Frames().feed(frames.HEAD.pack(frames.MAX_FRAME_BYTES + 1, 10))


FAILURES = [
    ToolFailed("no", {"a": [1]}),
    Cancelled("cancelled: why"),
    ProtocolError("mine", -1, "data"),
    MissingCapability({"roots": {}}),
    ResourceNotFound("a://b"),
]


@pytest.mark.parametrize("problem", FAILURES, ids=lambda problem: type(problem).__name__)
def test_the_hubs_own_exceptions_keep_their_type_and_fields(problem: Exception) -> None:
    found = failure_of(failure_value(problem))
    assert (type(found), str(found), vars(found)) == (type(problem), str(problem), vars(problem))


def test_a_foreign_exception_keeps_its_name_and_message_and_what_was_raised() -> None:
    raised = (RaisedException("KeyError: 'k'", "", (CodeLine("notes.py", 3, "find", "return NOTES[k]"),)),)
    found = failure_of(failure_value(KeyError("k"), raised))
    assert (type(found).__name__, str(found), raised_of(found)) == ("KeyError", "'k'", raised)
    assert not isinstance(found, KeyError)
    assert raised_of(failure_of(failure_value(ToolFailed("it cannot be loaded"), raised))) == raised


def test_a_worker_cannot_give_an_exception_a_value_that_the_hub_shows_to_the_operator() -> None:
    forged = ["ToolFailed", {"message": "x", "_patchbay_raised": [{"error": "e", "relation": "", "frames": []}]}, "x"]
    assert raised_of(failure_of(forged)) == ()


@pytest.mark.parametrize("value", [None, [], ["ToolFailed", {}, ""], ["SystemExit", {"message": ""}, ""], ["x"] * 3])
def test_an_invalid_exception_is_a_bad_frame(value: Any) -> None:
    with pytest.raises(BadFrame):
        failure_of(value)


def test_a_value_without_json_form_raises() -> None:
    with pytest.raises(TypeError):
        frames.pack_frame(1, object())


def test_a_large_frame_is_joined_once_and_not_with_each_piece() -> None:
    """The hub's time grows linearly with the received data."""
    data = frames.frame(frames.TEXT, b"x" * 5000)
    pieces = [data[start : start + 100] for start in range(0, len(data), 100)]
    cutter = Frames()
    assert [cutter.feed(piece) for piece in pieces[:-1]] == [[]] * (len(pieces) - 1)
    assert all(kept is piece for kept, piece in zip(cutter._parts, pieces[:-1], strict=True))
    assert cutter.feed(pieces[-1]) == [(frames.TEXT, b"x" * 5000)]
