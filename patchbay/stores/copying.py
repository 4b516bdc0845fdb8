"""A copy of a whole store: blobs, the journal and the history of names, with their seqs and times.

Rows are copied in order, in short transactions, so that a copy that was interrupted goes on where it ended. At the end
both stores are compared row by row, and each blob is read back and hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from patchbay.errors import ContentError
from patchbay.store import NameChange, Store, StoredBlob, StoredEntry, Transfer

PAGE = 200
"""Rows that are read at once."""

MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Bytes of blobs that one transaction writes, or one blob if it is larger."""

Row = TypeVar("Row")
Show = Callable[[str, int], None]
"""Shows the progress: what is copied, and how many rows so far."""


@dataclass(frozen=True, slots=True)
class CopiedStore:
    """How much was copied and compared."""

    blobs: int
    size: int
    entries: int
    moves: int


def copy_store(source: Store, target: Store, show: Show = lambda what, count: None) -> CopiedStore:
    """Copy everything, or what an earlier copy left, then compare both stores.

    Raises ContentError for a store in memory, for a target with other contents, and when the source changes meanwhile.
    """
    reading, writing = _transfer_of(source), _transfer_of(target)
    last_cid, last_entry, last_move = writing.last()
    _compare(reading, writing, True, "it already has other contents: use an empty one")
    done = 0
    for batch in _batches(_blobs(reading, last_cid)):
        writing.write_blobs([(blob, source.blobs.get(blob.cid)) for blob in batch])
        show("contents", done := done + len(batch))
    done = 0
    for entries in _pages(reading.entries, last_entry, lambda one: one.seq):
        writing.write_entries(entries)
        show("entries of the journal", done := done + len(entries))
    writing.set_newest_seq(reading.newest_seq())
    done = 0
    for moves in _pages(reading.moves, last_move, lambda one: one.seq):
        writing.write_moves(moves)
        show("changes of names", done := done + len(moves))
    return _verify(source, target, show)


def _verify(source: Store, target: Store, show: Show) -> CopiedStore:
    reading, writing = _transfer_of(source), _transfer_of(target)
    changed = "the source has changed since: stop its hub, and copy again"
    counts = _compare(reading, writing, False, changed)
    if source.names.all() != target.names.all() or reading.newest_seq() != writing.newest_seq():
        raise ContentError(f"the copy differs from the source: {changed}")
    size = 0
    for count, blob in enumerate(_blobs(writing, ""), 1):
        size += len(target.blobs.get(blob.cid))
        show("verified contents", count)
    return CopiedStore(counts[0], size, counts[1], counts[2])


def _compare(reading: Transfer, writing: Transfer, is_begin: bool, reason: str) -> tuple[int, int, int]:
    """Compare the rows of two stores; return how many there are. With `is_begin`, the target may end earlier.

    Raises ContentError with the reason at the first difference.
    """
    return (
        _count_equal(_blobs(reading, ""), _blobs(writing, ""), is_begin, reason),
        _count_equal(_entries(reading), _entries(writing), is_begin, reason),
        _count_equal(_moves(reading), _moves(writing), is_begin, reason),
    )


def _count_equal(source: Iterator[Row], target: Iterator[Row], is_begin: bool, reason: str) -> int:
    count = 0
    for count, (one, other) in enumerate(zip_longest(source, target), 1):
        if other is None and is_begin:
            return count - 1
        if one != other:
            raise ContentError(f"the target differs from the source: {reason}")
    return count


def _entries(transfer: Transfer) -> Iterator[StoredEntry]:
    for page in _pages(transfer.entries, 0, lambda one: one.seq):
        yield from page


def _moves(transfer: Transfer) -> Iterator[NameChange]:
    for page in _pages(transfer.moves, 0, lambda one: one.seq):
        yield from page


def _pages(read: Callable[[int, int], list[Row]], after: int, seq_of: Callable[[Row], int]) -> Iterator[list[Row]]:
    while page := read(after, PAGE):
        yield page
        after = seq_of(page[-1])


def _blobs(transfer: Transfer, after: str) -> Iterator[StoredBlob]:
    while page := transfer.blobs(after, PAGE):
        yield from page
        after = page[-1].cid


def _batches(blobs: Iterator[StoredBlob]) -> Iterator[Sequence[StoredBlob]]:
    batch: list[StoredBlob] = []
    size = 0
    for blob in blobs:
        if batch and (size + blob.size > MAX_BATCH_BYTES or len(batch) >= PAGE):
            yield batch
            batch, size = [], 0
        batch.append(blob)
        size += blob.size
    if batch:
        yield batch


def _transfer_of(store: Store) -> Transfer:
    if store.transfer is None:
        raise ContentError("a store in memory cannot be copied: it keeps nothing")
    return store.transfer
