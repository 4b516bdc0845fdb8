"""`/activity/events`: new calls and running calls as server-sent events, for the page of activity.

Events: `calls` with an array of summaries, oldest first; `running` with the running calls of this worker; `skipped`
with the number of calls that were left out because too many came at once; `approvals` with the number of calls that
began to wait for an approval, or were decided, for the operator. A reader counts as a listening stream
(setting `listeners`). All readers read the same journal, each at its own pace: a slow reader needs no queue and delays
no other.
Source: the HTML standard, server-sent events.
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
from patchbay.topics import ACCESS_ENDED, ACTIVITY, APPROVALS, ENDING
from patchbay.views.sse import COMMENT

MAX_CALLS_PER_UPDATE = 100
"""Calls of one event, at most; of more calls the event has the newest."""

MAX_JOURNAL_ENTRIES = 50
"""Entries of the journal that one update reads, at most."""

KEEPALIVE_SECONDS = 3.0
"""Seconds without an event after which the stream sends a comment, to find out whether the reader is still
connected."""

UPDATE_SECONDS = 1.0
"""Seconds between two checks of the running calls."""


def stream_activity(
    store: Store,
    settings: Settings,
    wanted: Filter,
    running: Callable[[], list[dict[str, Any]]],
    is_current: Callable[[], bool] = lambda: True,
) -> Iterator[bytes]:
    """The event frames of one reader, until the hub ends. The first frame holds the running calls.

    The stream ends when `is_current` is false: the reader's credentials were revoked, or its rights are others now.
    """
    with store.bus.subscribe([ACTIVITY, ACCESS_ENDED, ENDING]) as mailbox:
        seen = store.journal.last(ACTIVITY)
        now = sent = running()
        yield format_event("running", now)
        sent_at = time.monotonic()
        while is_current():
            got = mailbox.get(UPDATE_SECONDS)
            if (got is not None and got[0] == ENDING) or not is_current():
                return
            frames: list[bytes] = []
            if got is not None:
                seen, frames = _read_new_calls(store, wanted, seen)
            now = running()
            if _identify_runs(now) != _identify_runs(sent):
                frames.append(format_event("running", now))
                sent = now
            if not frames and time.monotonic() - sent_at >= min(KEEPALIVE_SECONDS, settings.keepalive):
                frames.append(COMMENT)
            if frames:
                sent_at = time.monotonic()
                yield b"".join(frames)


def stream_approvals(
    store: Store,
    settings: Settings,
    is_current: Callable[[], bool],
    find_state: Callable[[], object] | None = None,
) -> Iterator[bytes]:
    """The event frames of one operator: `approvals` after each change of a call that waits, until the hub ends.

    With `find_state`, the event `attention` follows whenever it returns another value. The stream ends when
    `is_current` is false.
    """
    state = find_state() if find_state is not None else None
    with store.bus.subscribe([APPROVALS, ACCESS_ENDED, ENDING]) as mailbox:
        yield COMMENT
        sent_at = time.monotonic()
        while is_current():
            got = mailbox.get(UPDATE_SECONDS)
            if (got is not None and got[0] == ENDING) or not is_current():
                return
            is_news = got is not None and got[0] == APPROVALS
            now = find_state() if find_state is not None and not is_news else state
            if now != state:
                state, sent_at = now, time.monotonic()
                yield format_event("attention", 1)
                continue
            if not is_news and time.monotonic() - sent_at < min(KEEPALIVE_SECONDS, settings.keepalive):
                continue
            sent_at = time.monotonic()
            yield format_event("approvals", 1) if is_news else COMMENT


def _read_new_calls(store: Store, wanted: Filter, seen: int) -> tuple[int, list[bytes]]:
    """Read the journal after entry `seen`; return the number of the last entry, and frames."""
    last = store.journal.last(ACTIVITY)
    entries = [each for each in store.journal.tail(ACTIVITY, MAX_JOURNAL_ENTRIES) if seen < each.seq <= last]
    every = (wanted.redact(record) for entry in reversed(entries) for record in records_in(entry))
    found = [record for record in every if wanted.fits(record)]
    frames = [format_event("skipped", len(found) - MAX_CALLS_PER_UPDATE)] if len(found) > MAX_CALLS_PER_UPDATE else []
    if found:
        frames.append(format_event("calls", [record.summary() for record in found[-MAX_CALLS_PER_UPDATE:]]))
    return last, frames


def _identify_runs(running: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(run["server"], run["method"], run["name"], run["at"]) for run in running]


def format_event(name: str, value: Any) -> bytes:
    """Format one event with a name and a JSON value."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(value) + b"\n\n"
