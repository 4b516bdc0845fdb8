"""What a confined program asked its proxy for: hosts, ports, counts and times, in memory of bounded size.

The names are text of a stranger: printable ASCII only, of bounded length. `take` gives what was added since the last
time to the one who stores it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

MAX_HOSTS = 200
"""Hosts with their ports that are remembered of one program, the ones that were asked for last."""

MAX_HOST_CHARACTERS = 253
NOT_LISTED = "not listed"
PRIVATE = "private address"
FAILED = "no answer: "
"""What the reason begins with where an allowed host was not reached."""


@dataclass(frozen=True, slots=True)
class HostRecord:
    """How often a host was reached and refused at a port, and when it was asked for last (Unix time in seconds).

    `reason` says why the last request was not served, and is empty where it was: NOT_LISTED; PRIVATE and an address;
    FAILED and a problem of the network; or what is wrong with the request.
    """

    host: str
    port: int
    reached: int = 0
    refused: int = 0
    at: float = 0.0
    reason: str = ""

    @property
    def missing(self) -> tuple[str, int] | None:
        """The destination that a list must name to allow this; None where the last request was not refused for that."""
        if self.reason == NOT_LISTED:
            return self.host, self.port
        return (self.reason.removeprefix(f"{PRIVATE} "), self.port) if self.reason.startswith(PRIVATE) else None


def merge_records(records: Iterable[HostRecord]) -> list[HostRecord]:
    """Return one record for each host and port, the ones that were asked for last, oldest first; at most MAX_HOSTS."""
    found: dict[tuple[str, int], HostRecord] = {}
    for one in records:
        _merge(found, one)
    return sorted(found.values(), key=lambda record: record.at)[-MAX_HOSTS:]


def _merge(found: dict[tuple[str, int], HostRecord], one: HostRecord) -> None:
    """Add a record to those of the same host and port; it becomes the last one. Drop the first beyond MAX_HOSTS."""
    key = (one.host, one.port)
    before = found.pop(key, one)
    last = one if one.at >= before.at else before
    counts = (one.reached, one.refused)
    if before is not one:
        counts = (before.reached + one.reached, before.refused + one.refused)
    found[key] = HostRecord(*key, *counts, last.at, last.reason)
    if len(found) > 2 * MAX_HOSTS:
        del found[next(iter(found))]


class EgressRecords:
    """The records of one program, or of all processes of one mounted server. Thread-safe.

    `above` gets each record too. `keep` stores records; it is called by `flush` on a thread that may wait.
    """

    def __init__(
        self, above: EgressRecords | None = None, keep: Callable[[list[HostRecord]], None] | None = None
    ) -> None:
        self._above, self._keep = above, keep
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._records: dict[tuple[str, int], HostRecord] = {}
        self._unsaved: dict[tuple[str, int], HostRecord] = {}

    def note(self, host: str, port: int, reason: str = "") -> HostRecord:
        """Record that a program reached a host, or did not for a reason; return this one record."""
        shown = "".join(letter for letter in host[:MAX_HOST_CHARACTERS] if "!" <= letter <= "~")
        is_refused = bool(reason) and not reason.startswith(FAILED)
        record = HostRecord(shown, port, 0 if reason else 1, int(is_refused), time.time(), reason)
        one: EgressRecords | None = self
        while one is not None:
            one._add(record)
            one = one._above
        return record

    def _add(self, record: HostRecord) -> None:
        with self._lock:
            _merge(self._records, record)
            if self._keep is not None:
                _merge(self._unsaved, record)

    def refused_since(self, at: float) -> list[HostRecord]:
        """Return the records of hosts that were refused since a time (Unix time, seconds), the latest first."""
        with self._lock:
            found = [one for one in reversed(self._records.values()) if one.at >= at]
        return [one for one in found if one.reason and not one.reason.startswith(FAILED)]

    def flush(self) -> None:
        """Store what is new; records that cannot be stored stay for the next time. Raises what `keep` raises."""
        if self._above is not None:
            self._above.flush()
        if self._keep is None:
            return
        with self._flushing:
            with self._lock:
                found, self._unsaved = self._unsaved, {}
            if not found:
                return
            try:
                self._keep(merge_records(found.values()))
            except BaseException:
                with self._lock:
                    later, self._unsaved = self._unsaved, found
                    for one in later.values():
                        _merge(self._unsaved, one)
                raise
