"""Appends rows to the audit chain in the journal of the store, signs its head, prunes it, and reads it.

All workers of a hub write one chain. The transaction of the store decides the order, not one writer process: a worker
links its batch to the tip that it knows and appends it on the condition that the tip is still the newest entry
(`Journal.append_all`). If another worker was first, it reads the new tip and links again. So no worker depends on
another one that may end, a batch is in the chain as a whole or not at all, and a killed worker breaks no link. A worker
appends about two batches each second, so conflicts are rare and cost one more hash for each row of the batch.

An entry of the journal topic `audit` holds consecutive rows, those of calls in a short form. A signed head is alone in
its entry, so that old rows can be deleted exactly up to a head.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain as joined

import orjson

from patchbay.access.audit.packed_rows import CID_PREFIX, Draft
from patchbay.access.audit.rows import (
    DROPPED,
    HEAD_MARK,
    PRUNED,
    Row,
    Tip,
    advance,
    decode_lines,
    link_drafts,
    link_rows,
    make_head,
)
from patchbay.cid import USUAL, cid_of_digest, is_cid
from patchbay.errors import StaleUpdate
from patchbay.rooms.record.canonical import Signer
from patchbay.store import Journal, JournalEntry
from patchbay.topics import AUDIT

HEAD_ROWS = 5000
"""The head is signed at the latest after this number of rows."""

HEAD_SECONDS = 60.0
"""The head is signed with the first batch after this time."""

ROW_SECONDS = 100 * 365 * 24 * 3600.0
"""Lifetime of rows in the journal. An entry with a lifetime does not wait for the disk; a signed head does, and with it
all rows before it. After a power cut the chain is shorter and intact.
"""

MAX_ATTEMPTS = 1000
"""How often one batch is linked again because other workers were first."""

ENTRIES_PER_READ = 50

_CONTENTS = re.compile(rf'"(?:arguments|result)":"{CID_PREFIX}([0-9a-f]{{64}})"')
"""The digests of arguments and results in a line."""

Entry = tuple[str, bytes, float | None]


@dataclass(eq=False, slots=True)
class Batch:
    """Rows that are in the chain once, however often `AuditChain.append_batch` is called with them.

    `rows` are without `seq` and `prev`, those of `drafts` follow them. `sent` has the entries with rows of attempts
    whose answer did not arrive, `before` the tip before the first of these attempts. No other batch has these bytes:
    they hold the digest of the row before, and the times and durations of the calls. Two heads can be equal.
    """

    rows: Sequence[Row] = ()
    drafts: Sequence[Draft] = ()
    is_written: bool = False
    before: Tip | None = None
    sent: set[bytes] = field(default_factory=set)

    def note_attempt(self, tip: Tip, entries: Sequence[Entry]) -> None:
        """Remember entries of which the store may have a part or none."""
        self.before = self.before or tip
        self.sent.update(data for _, data, keep in entries if keep is not None)


class AuditChain:
    """The audit chain of one store. Safe to use from many threads and several processes."""

    def __init__(self, journal: Journal, signer: Signer) -> None:
        self._journal = journal
        self._signer = signer
        self._lock = threading.Lock()
        self._tip: Tip | None = None

    def now_ms(self) -> int:
        """Return the store's time: Unix time in milliseconds."""
        return int(self._journal.now() * 1000)

    def append(self, rows: Sequence[Row], drafts: Sequence[Draft] = ()) -> None:
        """Append rows without `seq` and `prev`, those of `drafts` after them, and a signed head when one is due, in
        one transaction.

        Raises ContentError of a failing store, and StaleUpdate after MAX_ATTEMPTS.
        """
        self.append_batch(Batch(rows, drafts))

    def append_batch(self, batch: Batch) -> None:
        """Append a batch as `append` does. After a failure, the same batch may be given again: if the failed attempt
        has written its rows, they are not written again.

        Raises ContentError of a failing store, and StaleUpdate after MAX_ATTEMPTS.
        """
        if batch.rows or batch.drafts:
            self._append(batch)

    def sign(self) -> None:
        """Append a signed head, unless the last row is one. Raises ContentError, StaleUpdate."""
        self._append(Batch(), sign=True)

    def prune(self, before: float) -> int:
        """Delete the rows before the newest signed head that is older than `before` (Unix time); return their number.

        That head stays as the first row. A row of the kind `pruned` records the deletion. Raises ContentError.
        """
        first = first_row(self._journal)
        found = _last_head(self._journal, before)
        if found is None or first is None or (rows := found[1]["seq"] - first["seq"]) <= 0:
            return 0
        if not self._journal.remove(AUDIT, found[0]):
            return 0  # another process was first
        self.append([{"at": self.now_ms(), "first": found[1]["seq"], "kind": PRUNED, "rows": rows}])
        return int(rows)

    def _append(self, batch: Batch, sign: bool = False) -> None:
        with self._lock:
            for _ in range(MAX_ATTEMPTS):
                if not batch.is_written:
                    tip = self._tip = self._catch_up(batch)
                if batch.is_written:
                    return
                entries, end = self._linked(tip, batch, sign)
                if not entries:
                    return
                self._tip = None  # a failure leaves it open which rows the store has
                try:
                    seqs = self._journal.append_all(entries, {AUDIT: tip.entry})
                except StaleUpdate:
                    self._tip = tip
                    continue
                except BaseException:
                    batch.note_attempt(tip, entries)
                    raise
                self._tip, batch.is_written = replace(end, entry=seqs[-1]), True
                return
        raise StaleUpdate(f"other processes changed the audit chain during each of {MAX_ATTEMPTS} attempts")

    def _linked(self, tip: Tip, batch: Batch, sign: bool) -> tuple[list[Entry], Tip]:
        """Return the entries that follow `tip`: the rows, and a head where the chain begins and where one is due."""
        now, entries = self.now_ms(), list[Entry]()
        if tip.seq == 0:
            data, tip = make_head(self._signer, tip, now)
            entries.append((AUDIT, data, None))
        if batch.rows:
            data, tip = link_rows(tip, batch.rows)
            entries.append((AUDIT, data, ROW_SECONDS))
        if batch.drafts:
            data, tip = link_drafts(tip, batch.drafts)
            entries.append((AUDIT, data, ROW_SECONDS))
        is_due = tip.unsigned >= HEAD_ROWS or now - tip.head_at >= HEAD_SECONDS * 1000
        if tip.unsigned and (sign or is_due):
            data, tip = make_head(self._signer, tip, now)
            entries.append((AUDIT, data, None))
        return entries, tip

    def _catch_up(self, batch: Batch) -> Tip:
        """Return the tip after what other writers have appended; note if an earlier attempt has written the batch."""
        tip = batch.before or self._tip or self._find_tip()
        while self._journal.last(AUDIT) > tip.entry:
            for entry in self._journal.read(AUDIT, tip.entry, ENTRIES_PER_READ):
                tip = replace(advance(tip, lines_of(entry)), entry=entry.seq)
                batch.is_written = batch.is_written or entry.data in batch.sent
        return tip

    def _find_tip(self) -> Tip:
        """Return the tip at the last signed head, from which the rows since then are read."""
        for entry in _entries_backwards(self._journal):
            lines = lines_of(entry)
            if HEAD_MARK in lines[0]:
                return replace(advance(Tip(), lines), entry=entry.seq)
        return Tip()


def first_row(journal: Journal) -> Row | None:
    """Return the oldest row, a signed head; None for an empty chain."""
    entries = journal.read(AUDIT, 0, 1)
    return _parse(lines_of(entries[0])[0]) if entries else None


def read_lines(journal: Journal, since: float = 0.0) -> Iterator[bytes]:
    """Yield the lines of the chain, oldest first, from the newest signed head that is not after `since` (Unix time).

    Without such a head, from the oldest row. Lines have no line feed.
    """
    found = _last_head(journal, since) if since else None
    after = found[0] - 1 if found else 0
    while entries := journal.read(AUDIT, after, ENTRIES_PER_READ):
        yield from joined.from_iterable(lines_of(entry) for entry in entries)
        after = entries[-1].seq


def read_newest_lines(journal: Journal, max_lines: int) -> list[bytes]:
    """Return the newest lines, oldest first, from a signed head on: about `max_lines`, or all of a shorter chain."""
    entries: list[list[bytes]] = []
    count = 0
    for entry in _entries_backwards(journal):
        entries.append(lines_of(entry))
        count += len(entries[-1])
        if count >= max_lines and HEAD_MARK in entries[-1][0]:
            break
    return list(joined.from_iterable(reversed(entries)))


def newest_rows(journal: Journal, limit: int) -> list[Row]:
    """Return the newest rows, newest first."""
    found: list[Row] = []
    for entry in _entries_backwards(journal):
        found += map(_parse, lines_of(entry)[::-1])
        if len(found) >= limit:
            break
    return found[:limit]


def find_row(journal: Journal, seq: int) -> Row | None:
    """Return the row with a seq, or None."""
    for entry in _entries_backwards(journal):
        lines = lines_of(entry)
        first = _parse(lines[0])["seq"]
        if first <= seq:
            return _parse(lines[seq - first]) if seq - first < len(lines) else None
    return None


def reached_cids(journal: Journal) -> set[str]:
    """Return every CID that a row has: a collection of blobs keeps these contents while the chain has the row."""
    found: set[str] = set()
    digests: set[str] = set()
    for line in read_lines(journal):
        text = line.decode()
        found.update(USUAL.findall(text))
        digests.update(_CONTENTS.findall(text))
    return {*filter(is_cid, found), *(cid_of_digest(bytes.fromhex(digest)) for digest in digests)}


def dropped_row(count: int, reason: str, at: int) -> Row:
    """Return the row that stands for `count` calls without a row; `at` is Unix time in milliseconds."""
    return {"at": at, "count": count, "kind": DROPPED, "reason": reason}


def lines_of(entry: JournalEntry) -> list[bytes]:
    """Return the lines of one entry, oldest first."""
    return decode_lines(entry.data)


def _entries_backwards(journal: Journal) -> Iterator[JournalEntry]:
    before: int | None = None
    while entries := journal.tail(AUDIT, ENTRIES_PER_READ, before):
        yield from entries
        before = entries[-1].seq


def _last_head(journal: Journal, at: float) -> tuple[int, Row] | None:
    """Return the newest signed head not after `at` (Unix time), and the seq of its entry; None without one."""
    for entry in _entries_backwards(journal):
        if entry.at > at + 1:
            continue
        line = lines_of(entry)[0]
        if HEAD_MARK in line and (row := _parse(line))["at"] <= at * 1000:
            return entry.seq, row
    return None


def _parse(line: bytes) -> Row:
    row: Row = orjson.loads(line)
    return row


def texts_of(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with their line feeds, as they stand in an exported file."""
    return (line + b"\n" for line in lines)
