"""Sources of events: where an event type has its events, how they are read from a cursor, and what announces them.

A source without a history of its own has its events in the journal; changes of names (variables, servers) are in the
store in any case, so that their history is the source.
Source: SEP-3415, Cursor Lifecycle, Gaps and `truncated`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from patchbay.errors import InvalidParams
from patchbay.occurrences.arguments import matches
from patchbay.occurrences.cursors import Cursor, read_cursor, write_cursor
from patchbay.occurrences.records import KEPT_SECONDS, Occurrence, read_entry, topic_of
from patchbay.store import NameChange, Store
from patchbay.topics import NAMES_CHANGED, VARIABLE_CHANGED

PAGE = 500
"""Entries that one reading looks at."""

POLL_MS = 5000
"""Milliseconds until the next poll, as the hub recommends."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The events behind a cursor, each with the cursor behind it, and the cursor behind all that was looked at."""

    events: Sequence[tuple[Mapping[str, Any], str | None]]
    cursor: str | None
    truncated: bool = False
    has_more: bool = False
    poll_ms: int = POLL_MS


@dataclass(frozen=True, slots=True)
class EventQuery:
    """What a subscriber wants: the public name of the event type, arguments, and the greatest age in milliseconds."""

    name: str
    arguments: Mapping[str, Any]
    max_age_ms: int | None = None


class EventSource(Protocol):
    """Reads the events of one event type. `topics` are those of the bus that announce new ones."""

    topics: tuple[str, ...]
    waits_for_network: bool
    """Whether `read` may wait for another machine."""

    def read(self, cursor: str | None, wanted: EventQuery, limit: int) -> Batch:
        """Return the events after a cursor; without one, no events and the present cursor. Raises InvalidParams."""
        ...


class StoredSource(ABC):
    """A source in the store of the hub. Its subclass says where the newest entry is, and reads entries."""

    waits_for_network: bool = False
    topics: tuple[str, ...] = ()

    def __init__(self, store: Store, place: str) -> None:
        self._store = store
        self._place = place

    def read(self, cursor: str | None, wanted: EventQuery, limit: int) -> Batch:
        """Return the events behind a cursor."""
        now = self._store.now()
        if cursor is None:
            return Batch((), self._cursor(self._newest(), now))
        known = read_cursor(self._place, cursor)
        if not known.position.isdecimal():
            raise InvalidParams("params.cursor is not a cursor of this event type")
        seq, floor = int(known.position), 0.0
        if wanted.max_age_ms is not None:
            floor = now - wanted.max_age_ms / 1000
        entries, truncated = self._entries(seq, known.at, now)
        found: list[tuple[Mapping[str, Any], str | None]] = []
        has_more = False
        for one in entries[:PAGE]:
            if len(found) == limit:
                has_more = True
                break
            seq = int(one.position)
            if one.is_gap:
                truncated = True
                continue
            if not matches(wanted.arguments, one.data) or not self._is_shown(one.data):
                continue
            if one.at < floor:
                truncated = True
                continue
            found.append((one.wire(wanted.name), self._cursor(seq, one.at)))
        # What is behind the last entry that was looked at is not older than this moment.
        has_more = has_more or len(entries) > PAGE
        return Batch(found, self._cursor(seq, now), truncated, has_more)

    def _cursor(self, seq: int, at: float) -> str:
        return write_cursor(self._place, Cursor(str(seq), at))

    def _is_shown(self, data: Mapping[str, Any]) -> bool:
        """Whether the reader may see an event with these data."""
        return True

    @abstractmethod
    def _newest(self) -> int:
        """Return the number of the newest entry; 0 without one."""

    @abstractmethod
    def _entries(self, seq: int, at: float, now: float) -> tuple[list[Occurrence], bool]:
        """Return at most PAGE + 1 events behind a number, oldest first, and whether some before them are missing."""


class JournalSource(StoredSource):
    """The events that a server emits. `shows` says whether the reader may see an event with these data."""

    def __init__(
        self,
        store: Store,
        server: str,
        event: str,
        shows: Callable[[Mapping[str, Any]], bool] = lambda data: True,
    ) -> None:
        super().__init__(store, f"{server}/{event}")
        self._shows = shows
        self._topic = topic_of(server, event)
        self.topics = (self._topic,)

    def _newest(self) -> int:
        return self._store.journal.last(self._topic)

    def _is_shown(self, data: Mapping[str, Any]) -> bool:
        return self._shows(data)

    def _entries(self, seq: int, at: float, now: float) -> tuple[list[Occurrence], bool]:
        read = [read_entry(entry) for entry in self._store.journal.read(self._topic, seq, PAGE + 1)]
        is_gap = bool(read) and read[0][0] > seq
        return [one for _, one in read], is_gap or at < now - KEPT_SECONDS


class NameSource(StoredSource):
    """The changes of names of the hub, such as those of its variables and servers; their history never ends."""

    topics: tuple[str, ...] = (NAMES_CHANGED, f"{VARIABLE_CHANGED}*")

    def __init__(self, store: Store, place: str, prefixes: Sequence[str], name: str = "") -> None:
        super().__init__(store, place)
        self._prefixes = tuple(prefixes)
        self._name = name

    def _newest(self) -> int:
        newest = self._past(1, 0)
        return newest[0].seq if newest else 0

    def _entries(self, seq: int, at: float, now: float) -> tuple[list[Occurrence], bool]:
        found = self._past(PAGE + 1, seq)
        # The history gives the newest changes first; more than a page since the cursor is a gap.
        is_gap = len(found) > PAGE
        return [_change(one) for one in reversed(found[:PAGE])], is_gap

    def _past(self, limit: int, after: int) -> list[NameChange]:
        return self._store.names.past(self._name, limit, prefixes=self._prefixes, after=after)


def _change(change: NameChange) -> Occurrence:
    kind, _, name = change.name.partition("/")
    data = {"kind": kind, "name": name, "removed": change.cid is None, "by": change.who, "reason": change.why}
    return Occurrence(
        f"change_{change.seq}", change.at, data | ({"cid": change.cid} if change.cid else {}), str(change.seq)
    )
