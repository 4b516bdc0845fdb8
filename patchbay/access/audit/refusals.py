"""Counts the refused calls of each principal, so that a flood of them becomes one row of the audit chain.

A refused call is one that never began: of a tool that does not exist or is denied, with wrong arguments, over a quota.
No quota counts it, so its rows have a limit of their own: in each minute, the first ones of a principal get a row each,
and those beyond get one row together, which has their number and the times of the first and the last of them.
Source: NIST SP 800-92, section 3.2 (log aggregation of repeated events).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from patchbay.access.audit.rows import DROPPED, Row
from patchbay.descriptors import encodable

WINDOW_SECONDS = 60.0


@dataclass(slots=True)
class _Window:
    """The refused calls of a principal since the Unix time `begun`, and those beyond the limit without a row yet."""

    begun: float
    count: int = 0
    beyond: int = 0
    first: float = 0.0
    last: float = 0.0


class Refusals:
    """The refused calls of this process. Safe to use from many threads.

    `max_rows` is the number of rows of one principal in a minute, which `processes()` processes share.
    """

    def __init__(self, max_rows: int, processes: Callable[[], int] = lambda: 1) -> None:
        self._max_rows = max_rows
        self._processes = processes
        self._windows: dict[str, _Window] = {}
        self._over: list[Row] = []
        self._lock = threading.Lock()

    def is_beyond(self, principal: str, at: float) -> bool:
        """Count a refused call at a Unix time; return whether it gets no row of its own."""
        with self._lock:
            window = self._windows.get(principal)
            if window is None or at >= window.begun + WINDOW_SECONDS:
                self._close(principal)
                window = self._windows[principal] = _Window(at)
            window.count += 1
            if window.count <= -(-self._max_rows // self._processes()):
                return False
            window.first = window.first if window.beyond else at
            window.beyond, window.last = window.beyond + 1, at
            return True

    def take_rows(self, now: float, is_end: bool = False) -> list[Row]:
        """Return the rows of the minutes that are over at a Unix time, without `seq` and `prev`; with `is_end` also of
        those that are not over.
        """
        with self._lock:
            for principal, window in tuple(self._windows.items()):
                if now >= window.begun + WINDOW_SECONDS:
                    self._close(principal)
                elif is_end:
                    self._end_row(principal, window)
            rows, self._over = self._over, []
            return rows

    def _close(self, principal: str) -> None:
        window = self._windows.pop(principal, None)
        if window is not None:
            self._end_row(principal, window)

    def _end_row(self, principal: str, window: _Window) -> None:
        """Make a row of what is beyond the limit so far."""
        if window.beyond:
            since, until = (datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") for at in _times(window))
            who = encodable(principal)
            sentence = f"{window.beyond} refused calls of {who} between {since} and {until}"
            first, last = (int(at * 1000) for at in _times(window))
            row: Row = {"at": last, "count": window.beyond, "first": first, "kind": DROPPED, "last": last}
            self._over.append({**row, "principal": who, "reason": sentence})
            window.beyond = 0


def _times(window: _Window) -> tuple[float, float]:
    return min(window.first, window.last), max(window.first, window.last)
