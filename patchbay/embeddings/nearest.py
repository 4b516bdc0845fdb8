"""The nearest of many texts: exact search over the vectors of their sections, one byte for each number.

A document is as near as its nearest section. Which documents may be found is decided before they are ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patchbay.embeddings.static_model import StaticModel, Vectors

SCALE = 127
"""The byte of the number 1.0."""

CHUNK_ROWS = 512
"""Sections that are compared at a time: few enough that their floats stay in the cache of a processor, and that numpy's
library starts no threads, which took twenty times the processor time."""

Bytes = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Near:
    """A document near a question: its key, the number of its nearest section, their cosine."""

    key: str
    section: int
    cosine: float


def packed(vectors: Vectors) -> bytes:
    """Return vectors of length 1 as bytes, one for each number."""
    return np.rint(vectors * SCALE).astype(np.int8).tobytes()


class NearestTexts:
    """The vectors of documents by number, in memory. Not thread-safe: its owner has a lock."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._documents: dict[int, tuple[str, Bytes]] = {}
        self._rows: Bytes | None = None
        self._keys: list[str] = []
        self._starts: NDArray[np.intp] = np.empty(0, np.intp)

    def numbers(self) -> set[int]:
        """Return the numbers of the documents."""
        return set(self._documents)

    def add(self, number: int, key: str, data: bytes) -> None:
        """Add the vectors of the sections of a document, as `packed` made them."""
        rows = np.frombuffer(data, np.int8)
        if len(rows) and len(rows) % self._dimensions == 0:
            self._documents[number] = key, rows.reshape(-1, self._dimensions)
            self._rows = None

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove documents."""
        for number in numbers:
            self._documents.pop(number, None)
            self._rows = None

    def find(self, model: StaticModel, question: str, may_find: Callable[[str], bool], limit: int) -> list[Near]:
        """Return at most `limit` documents that may be found, nearest first; no document with a cosine of 0 or less."""
        rows = self._all_rows()
        allowed = np.array([may_find(key) for key in self._keys], bool)
        if not allowed.any():
            return []
        cosines = _compare(rows, model.embed([question])[0])
        best = np.maximum.reduceat(cosines, self._starts)
        best[~allowed] = -np.inf
        count = min(limit, int(allowed.sum()))
        places = np.argpartition(-best, count - 1)[:count]
        found = [self._near(int(place), cosines) for place in places if best[place] > 0]
        return sorted(found, key=lambda near: (-near.cosine, near.key))

    def _near(self, place: int, cosines: Vectors) -> Near:
        begin = int(self._starts[place])
        end = int(self._starts[place + 1]) if place + 1 < len(self._starts) else len(cosines)
        section = int(cosines[begin:end].argmax())
        return Near(self._keys[place], section, float(cosines[begin + section]))

    def _all_rows(self) -> Bytes:
        """Return the vectors of all documents as one table, made again after a change."""
        if self._rows is None:
            numbers = list(self._documents)
            self._keys = [key for key, _ in self._documents.values()]
            parts = [rows for _, rows in self._documents.values()]
            counts = np.array([len(rows) for rows in parts], np.intp)
            ends = counts.cumsum()
            self._starts = ends - counts
            table = np.concatenate(parts) if parts else np.empty((0, self._dimensions), np.int8)
            # The documents become parts of the table, so that their bytes are in memory once.
            cuts = zip(numbers, self._keys, self._starts, ends, strict=True)
            self._documents = {number: (key, table[begin:end]) for number, key, begin, end in cuts}
            self._rows = table
        return self._rows


def _compare(rows: Bytes, question: Vectors) -> Vectors:
    """Return the cosine of each row and a question."""
    found = np.empty(len(rows), np.float32)
    for begin in range(0, len(rows), CHUNK_ROWS):
        end = begin + CHUNK_ROWS
        np.dot(rows[begin:end].astype(np.float32), question, out=found[begin:end])
    found /= SCALE
    return found
