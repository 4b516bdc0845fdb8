"""Cursors of events: what a client sends back is checked before a store sees it."""

from __future__ import annotations

import pytest

from patchbay.errors import InvalidParams
from patchbay.occurrences.cursors import Cursor, read_cursor, write_cursor

SOURCE = "notes/changed"


@pytest.mark.parametrize(("position", "at"), [(str(2**63), 1.0), ("9" * 400, 1.0), ("1", 1e300), ("1", -1.0)])
def test_a_cursor_beyond_every_event_is_refused(position: str, at: float) -> None:
    with pytest.raises(InvalidParams, match="not a cursor of this event type"):
        read_cursor(SOURCE, write_cursor(SOURCE, Cursor(position, at)))


def test_the_last_possible_cursor_is_read() -> None:
    last = Cursor(str(2**63 - 1), 1.5)
    assert read_cursor(SOURCE, write_cursor(SOURCE, last)) == last
