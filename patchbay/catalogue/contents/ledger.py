"""The ledger: what each principal leaves in the store, in bytes and in things, as one account for each kind.

Every entry of the journal that a principal causes and that outlasts its request has a row in the ledger, written in
the same transaction and with the same lifetime. So all processes of all machines count the same, and a crash loses
nothing. The row of a thing is JSON: `[name, bytes]`, where a newer row of the same name replaces an older one, or
`[name, bytes, things]`, which is added. `[name, bytes, things, 1]` takes the place of all rows before it.

The account `STORED` makes room: beyond its limit, the oldest things of the principal are deleted. The other accounts
refuse with OverQuota.
Source: CWE-400 and CWE-770 (resources without a limit).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import orjson

from patchbay.errors import OverQuota, StaleUpdate
from patchbay.store import Journal, JournalEntry
from patchbay.topics import LEDGERS, RESULTS

STORED, SESSION_CHANGES, CALL_IDS, ROOMS = "stored", "session_changes", "call_ids", "rooms"
REPEATS, ROOM_BYTES, STATE_BYTES = "repeats", "room_bytes", "state_bytes"
"""The accounts: large results and kept answers; changes of sessions; ids of calls; rooms; calls that equal calls join;
what a principal writes into the logs of rooms; what its calls write into the state of tools.
"""

ACCOUNTS = (STORED, SESSION_CHANGES, CALL_IDS, ROOMS, REPEATS, ROOM_BYTES, STATE_BYTES)

Entry = tuple[str, bytes, float | None]
"""An entry of the journal: topic, data, lifetime in seconds."""

MAX_REMEMBERED = 4096
"""Accounts whose sums are in the memory of a process."""

RECOUNT_SECONDS = 5.0
"""Seconds between two complete counts of an account that refuses: what has expired since then still counts."""

RETRY_SECONDS = 60
"""Seconds after which a refused caller may try again."""

MAX_ATTEMPTS = 100
"""How often a row is written again because another process wrote to the same account."""

SETTLE_BYTES = 64 * 1024
"""A stream is counted again each time it has grown by so much, and at its end."""

PAGE = 1000
"""Rows in one read."""


class Limit(NamedTuple):
    """The limits of one account; None for no limit."""

    bytes: int | None = None
    things: int | None = None


NO_LIMIT = Limit()


class Used(NamedTuple):
    """What an account has now."""

    bytes: int = 0
    things: int = 0


class Known(NamedTuple):
    """An account that a process remembers."""

    principal: str
    account: str
    used: Used


class Refusal(NamedTuple):
    """The words of an account for people: what it has too much of, and what to do."""

    what: str
    advice: str


REFUSALS: Mapping[str, Refusal] = {
    SESSION_CHANGES: Refusal(
        "subscriptions and other changes of sessions", "use one session for longer; old changes end with their session"
    ),
    CALL_IDS: Refusal("calls with an id in 24 hours", "send calls without io.patchbay/call"),
    REPEATS: Refusal("calls that equal ones join in 24 hours", "later ones run, and none joins them"),
    ROOMS: Refusal("rooms", "delete one first (patchbay room remove)"),
    ROOM_BYTES: Refusal("bytes in the logs of rooms", "delete a room with such a log first (patchbay room remove)"),
    STATE_BYTES: Refusal("bytes of changes in the state of tools in 24 hours", "call such tools later again"),
}


class _Sums:
    """The sums of one account up to the row `seq`. The lock is held while they are read or changed."""

    __slots__ = ("account", "bytes", "counted_at", "lock", "principal", "seq", "things")

    def __init__(self, principal: str, account: str) -> None:
        self.principal, self.account = principal, account
        self.lock = threading.Lock()
        self.seq = self.bytes = self.things = 0
        self.counted_at = 0.0


class Ledger:
    """The accounts of all principals in one store. Safe to use from many threads.

    `limit_of` returns the limits of an account, by the id of the principal and the name of the account.
    """

    def __init__(self, journal: Journal, limit_of: Callable[[str, str], Limit] = lambda principal, account: NO_LIMIT):
        self.limit_of = limit_of
        self._journal = journal
        self._sums: OrderedDict[str, _Sums] = OrderedDict()
        self.refused: Counter[str] = Counter()
        """How many requests were refused since the start, by account."""
        self._lock = threading.Lock()

    def used(self, principal: str, account: str) -> Used:
        """Return what an account of a principal has now, counted from its rows."""
        return _sum(self._rows(topic_of(principal, account)))

    def row(
        self, principal: str, account: str, name: str, size: int, keep: float | None, things: int | None = None
    ) -> Entry:
        """Return the row of a thing, to be appended after the thing itself; `keep` is the lifetime of the thing.

        Without `things` the row replaces an older one of the same name.
        """
        return topic_of(principal, account), orjson.dumps([name, size, *([] if things is None else [things])]), keep

    def add(
        self,
        principal: str,
        account: str,
        entries: Sequence[Entry],
        row: Entry,
        last: Mapping[str, int] | None = None,
    ) -> list[int]:
        """Append entries and their row, if the account has room for the row; return the seqs of the entries.

        `last` is as for `Journal.append_all`. Raises OverQuota; StaleUpdate if another writer of `last` was first.
        """
        limit, sums = self.limit_of(principal, account), self._find_sums(principal, account)
        _, size, things = orjson.loads(row[1])
        for _ in range(MAX_ATTEMPTS):
            with sums.lock:
                self._catch_up(sums, row[0])
                if _is_over(limit, sums, size, things):
                    self._recount(sums, row[0])
                    if _is_over(limit, sums, size, things):
                        raise self._refusal(account, limit, sums, size)
                known = sums.seq
            try:
                seqs = self._journal.append_all([*entries, row], {**(last or {}), row[0]: known})
                with sums.lock:
                    if sums.seq == known:
                        sums.seq, sums.bytes, sums.things = seqs[-1], sums.bytes + size, sums.things + things
                return seqs[:-1]
            except StaleUpdate:
                if any(self._journal.last(topic) != seq for topic, seq in (last or {}).items()):
                    raise
        raise StaleUpdate("other requests of this caller change its account without a pause; try again")

    def take_back(
        self,
        owner: str,
        account: str,
        size: int,
        things: int,
        entries: Sequence[Entry] = (),
        last: Mapping[str, int] | None = None,
    ) -> None:
        """Take bytes and things out of an account that does not expire. `owner` is what `owner_of` returns.

        `entries` are appended in the same transaction; `last` is as for `Journal.append_all`.
        Raises StaleUpdate if another writer of `last` was first.
        """
        topic = f"{LEDGERS}{owner}/{account}"
        for _ in range(MAX_ATTEMPTS):
            rows = list(self._rows(topic))
            now = _sum(rows)
            left = orjson.dumps(["", max(0, now.bytes - size), max(0, now.things - things), 1])
            try:
                expected = {**(last or {}), topic: rows[-1].seq if rows else 0}
                seq = self._journal.append_all([*entries, (topic, left, None)], expected)[-1]
            except StaleUpdate:
                if any(self._journal.last(other) != seq for other, seq in (last or {}).items()):
                    raise
                continue
            self._journal.remove(topic, seq)
            return
        raise StaleUpdate("other requests of this caller change its account without a pause; try again")

    def check(self, principal: str, account: str, size: int, things: int) -> None:
        """Check that an account has room, without an entry. Raises OverQuota."""
        limit, topic = self.limit_of(principal, account), topic_of(principal, account)
        if limit == NO_LIMIT:
            return
        sums = self._find_sums(principal, account)
        with sums.lock:
            self._catch_up(sums, topic)
            if _is_over(limit, sums, size, things):
                self._recount(sums, topic)
                if _is_over(limit, sums, size, things):
                    raise self._refusal(account, limit, sums, size)

    def note(self, principal: str, account: str, size: int, keep: float | None) -> None:
        """Append a row of bytes that are stored elsewhere than in the journal."""
        self._journal.append(*self.row(principal, account, "", size, keep, things=0))

    def make_room(self, principal: str) -> None:
        """Delete the oldest stored things of a principal beyond its limits, but never its newest one."""
        limit, topic = self.limit_of(principal, STORED), topic_of(principal, STORED)
        sums = self._find_sums(principal, STORED)
        with sums.lock:
            self._catch_up(sums, topic)
            if not _is_over(limit, sums, 0, 0):
                return
            self._delete_oldest(sums, topic, limit, principal)

    def _delete_oldest(self, sums: _Sums, topic: str, limit: Limit, principal: str) -> None:
        rows = list(self._rows(topic))
        if _is_over(limit, _sum(rows), 0, 0):
            # Room for several more things, so that not every one of them counts all others.
            most = limit.things if limit.things is None else limit.things - limit.things // 16
            deleted = _beyond(rows, Limit(limit.bytes, most))
            kept = {orjson.loads(entry.data)[0] for entry in rows[len(deleted) :]}
            before = {topic: deleted[-1].seq + 1} if deleted else {}
            for entry in deleted:
                name, _, *more = orjson.loads(entry.data)
                if more or name not in kept:
                    before[name if "/" in name else f"{RESULTS}{owner_of(principal)}/{name}"] = entry.seq
            self._journal.remove_all(before)
        sums.counted_at = 0.0
        self._recount(sums, topic)

    def known(self) -> list[Known]:
        """Return the accounts that this process remembers, as they were at their last change here."""
        with self._lock:
            return [Known(one.principal, one.account, Used(one.bytes, one.things)) for one in self._sums.values()]

    def _find_sums(self, principal: str, account: str) -> _Sums:
        topic = topic_of(principal, account)
        with self._lock:
            sums = self._sums.get(topic) or self._sums.setdefault(topic, _Sums(principal, account))
            self._sums.move_to_end(topic)
            while len(self._sums) > MAX_REMEMBERED:
                self._sums.popitem(last=False)
            return sums

    def _catch_up(self, sums: _Sums, topic: str) -> None:
        """Add the rows since the last read. Rows that have expired since then still count."""
        before = sums.seq
        for entry in self._rows(topic, before):
            _, size, *more = orjson.loads(entry.data)
            if len(more) > 1:
                sums.bytes = sums.things = 0
            sums.seq, sums.bytes = entry.seq, sums.bytes + size
            sums.things += more[0] if more else 1
        if before and sums.seq == before and not self._journal.last(topic):  # all rows have expired
            sums.seq = sums.bytes = sums.things = 0

    def _refusal(self, account: str, limit: Limit, now: _Sums, size: int) -> OverQuota:
        self.refused[account] += 1
        words = REFUSALS[account]
        number = f"{limit.things} {words.what}"
        if _exceeds(limit.bytes, now.bytes + size):
            number = f"{limit.bytes} {words.what}" if limit.things is None else f"{words.what} of {limit.bytes} bytes"
        return OverQuota(f"each caller may have {number}: {words.advice}", RETRY_SECONDS)

    def _recount(self, sums: _Sums, topic: str) -> None:
        """Count all rows anew, unless that was done just now."""
        if sums.counted_at and time.monotonic() - sums.counted_at < RECOUNT_SECONDS:
            return
        rows = list(self._rows(topic))
        sums.seq = rows[-1].seq if rows else 0
        sums.bytes, sums.things = _sum(rows)
        sums.counted_at = time.monotonic()

    def _rows(self, topic: str, after: int = 0) -> Iterator[JournalEntry]:
        while entries := self._journal.read(topic, after, PAGE):
            yield from entries
            after = entries[-1].seq
            if len(entries) < PAGE:
                return


class KeptMessages:
    """Counts the messages of one stream or call in the account `STORED` of its principal, while they are written."""

    def __init__(self, ledger: Ledger, principal: str, topic: str, keep: float) -> None:
        self._ledger = ledger
        self._principal = principal
        self._topic = topic
        self._keep = keep
        self._bytes = self._counted = 0

    def grow(self, size: int, is_last: bool = False) -> list[Entry]:
        """Count `size` more bytes; return the row to append after them, if one is due."""
        self._bytes += size
        if not is_last and self._bytes - self._counted < SETTLE_BYTES:
            return []
        self._counted = self._bytes
        return [self._ledger.row(self._principal, STORED, self._topic, self._bytes, self._keep)]

    def make_room(self) -> None:
        """Delete what is beyond the limit of the principal, after a row was appended."""
        self._ledger.make_room(self._principal)


def topic_of(principal: str, account: str) -> str:
    """Return the topic of an account."""
    owner = owner_of(principal)
    return RESULTS + owner if account == STORED else f"{LEDGERS}{owner}/{account}"


def owner_of(principal: str) -> str:
    """Return the name of a principal in a topic, as a digest of its id."""
    return sha256(principal.encode()).hexdigest()[:32]


def _beyond(rows: Sequence[JournalEntry], limit: Limit) -> Sequence[JournalEntry]:
    """Return the oldest rows that do not fit into a limit, without the newest row of all."""
    used, seen = Used(), set[str]()
    for place in range(len(rows) - 1, -1, -1):
        name, size, *more = orjson.loads(rows[place].data)
        if more or name not in seen:
            used = Used(used.bytes + size, used.things + (more[0] if more else 1))
            seen.add(name)
        if place < len(rows) - 1 and (_exceeds(limit.bytes, used.bytes) or _exceeds(limit.things, used.things)):
            return rows[: place + 1]
    return ()


def _sum(rows: Iterable[JournalEntry]) -> Used:
    """Return the sums of rows, oldest first, where a newer row of a name replaces an older one."""
    newest: dict[str, int] = {}
    size = things = 0
    for entry in rows:
        name, own, *more = orjson.loads(entry.data)
        if len(more) > 1:
            newest.clear()
            size, things = own, more[0]
        elif more:
            size, things = size + own, things + more[0]
        else:
            newest[name] = own
    return Used(size + sum(newest.values()), things + len(newest))


def _is_over(limit: Limit, now: _Sums | Used, size: int, things: int) -> bool:
    return _exceeds(limit.bytes, now.bytes + size) or _exceeds(limit.things, now.things + things)


def _exceeds(limit: int | None, number: int) -> bool:
    return limit is not None and number > limit
