"""Printed bytes as log lines."""

from __future__ import annotations

import pytest

from patchbay.errors import ToolFailed
from patchbay.events import Log
from patchbay.kinds.python.workers.output import MAX_LINE_BYTES, MAX_LOGGED_LINES, MAX_PRINTED_BYTES, Lines


def lines_of(*pieces: bytes) -> list[object]:
    lines = Lines("out", "info")
    return [event.data for piece in pieces for event in lines.feed(piece)] + [event.data for event in lines.rest()]


def test_lines_are_joined_and_the_last_one_needs_no_line_feed() -> None:
    assert lines_of(b"a", b"b\nc", b"\n\nd") == ["ab", "c", "", "d"]


def test_a_line_has_its_logger_and_level_and_invalid_bytes_are_replaced() -> None:
    assert list(Lines("out", "info").feed(b"\xff\n")) == [Log("info", "\ufffd", "out")]


def test_a_long_line_becomes_several() -> None:
    assert [len(str(line)) for line in lines_of(b"x" * (2 * MAX_LINE_BYTES + 5) + b"\n")] == [
        MAX_LINE_BYTES,
        MAX_LINE_BYTES,
        5,
    ]
    assert [len(str(line)) for line in lines_of(b"x" * (MAX_LINE_BYTES + 1), b"y")] == [MAX_LINE_BYTES, 1, 1]


def test_discarded_output_is_counted() -> None:
    found = lines_of(b"1\n" * (MAX_LOGGED_LINES + 10), b"more")
    assert found[MAX_LOGGED_LINES - 1] == "1"
    assert found[MAX_LOGGED_LINES:] == ["24 more bytes of output were discarded"]


def test_a_new_call_begins_anew() -> None:
    lines = Lines("out", "info")
    list(lines.feed(b"1\n" * (MAX_LOGGED_LINES + 10)))
    list(lines.rest())
    assert [event.data for event in lines.feed(b"2\n")] == ["2"]
    assert list(lines.rest()) == []


def test_a_flood_ends_the_call() -> None:
    lines = Lines("out", "info")
    with pytest.raises(ToolFailed, match="it printed more than"):
        for _ in range(MAX_PRINTED_BYTES // 1_000_000 + 1):
            list(lines.feed(b"x" * 1_000_000))
