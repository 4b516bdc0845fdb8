"""`/activity/events`: calls as they end, and what runs now, as server-sent events for a page that is watching.

Events: `calls` with an array of summaries, newest last; `running` with what is being answered in this worker;
`skipped` with how many calls were left out because there were too many at once. The reader's place counts among those
for streams that only listen (setting `listeners`). Everybody who watches reads the same journal, each at its own pace,
so that a slow reader holds up nobody and nothing is kept for it.
Sources: DESIGN sections 6 (every queue has a bound) and 8; the HTML standard, server-sent events; THREATS 1.2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from patchbay.activity.records import (
    Filter,
    records_in,
)
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.topics import ACTIVITY, ENDING
from patchbay.views.sse import COMMENT

MAX_CALLS_PER_UPDATE = 100
"""Calls that one look tells of; of more, the newest."""

ENTRIES = 50
"""Entries of the journal that one look reads."""

ALIVE = 3.0
"""Seconds without an event after which a comment is sent: whether the reader has left shows only then."""

UPDATE_SECONDS = 1.0
"""Seconds between two looks at what runs."""


def watching(
    store: Store, settings: Settings, wanted: Filter, running: Callable[[], list[dict[str, Any]]]
) -> Iterator[bytes]:
    """The frames of one reader, until the hub ends. It begins with what runs now."""
    with store.bus.subscribe([ACTIVITY, ENDING]) as mailbox:
        seen = store.journal.last(ACTIVITY)
        now = told = running()
        yield framed("running", now)
        spoke = time.monotonic()
        while True:
            got = mailbox.get(UPDATE_SECONDS)
            if got is not None and got[0] == ENDING:
                return
            frames: list[bytes] = []
            if got is not None:
                seen, frames = _new(store, wanted, seen)
            now = running()
            if _named(now) != _named(told):
                frames.append(framed("running", now))
                told = now
            if not frames and time.monotonic() - spoke >= min(ALIVE, settings.keepalive):
                frames.append(COMMENT)
            if frames:
                spoke = time.monotonic()
                yield b"".join(frames)


def _new(store: Store, wanted: Filter, seen: int) -> tuple[int, list[bytes]]:
    """What came since: the number of the last entry, and frames."""
    last = store.journal.last(ACTIVITY)
    entries = [each for each in store.journal.tail(ACTIVITY, ENTRIES) if seen < each.seq <= last]
    every = (wanted.shown(record) for entry in reversed(entries) for record in records_in(entry))
    found = [record for record in every if wanted.fits(record)]
    frames = [framed("skipped", len(found) - MAX_CALLS_PER_UPDATE)] if len(found) > MAX_CALLS_PER_UPDATE else []
    if found:
        frames.append(framed("calls", [record.summary() for record in found[-MAX_CALLS_PER_UPDATE:]]))
    return last, frames


def _named(running: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(run["server"], run["method"], run["name"], run["at"]) for run in running]


def framed(name: str, value: Any) -> bytes:
    """One event: its name, and a JSON value on one line."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(value) + b"\n\n"
