"""The index of a library's folder: a row in memory for each document, and its words in the full-text index.

Rules: a file is read again only after its size, times or inode changed, and indexed again only after its bytes changed;
readers use the present index and never wait for a write; a damaged index is deleted and built again from the folder;
on a full or read-only disk, the index is in memory.
Source: https://www.sqlite.org/fts5.html.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from patchbay.cid import cid_of
from patchbay.documents import front_matter as front
from patchbay.documents import paths
from patchbay.documents.errors import NoDocument, Unreadable
from patchbay.documents.files import Disk, size_of
from patchbay.documents.front_matter import FrontMatter
from patchbay.documents.headings import headings, title_of
from patchbay.documents.meaning import Meaning
from patchbay.errors import ConfigError, ToolFailed
from patchbay.fulltext.index import Index
from patchbay.fulltext.index import IndexedText as Words
from patchbay.sqlite import fault_of, sqlite3

log = logging.getLogger(__name__)

COLUMNS = {"title": 10.0, "headings": 3.0, "tags": 3.0, "description": 3.0, "path": 2.0, "body": 1.0}
"""The searched parts of a document, and the weight of a word in each part."""

LABELS = ("top", "grp", "cid", "stamp", "about")
MAX_BATCH_FILES, MAX_BATCH_BYTES = 512, 1024 * 1024
"""Limits on the files, and their bytes, that are indexed under one lock; a single file may be larger."""


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """The entry of a document in a list. Times are ISO 8601, as in the front matter; empty if it has none."""

    key: str
    cid: str
    stamp: str
    title: str
    description: str = ""
    author: str = ""
    tags: tuple[str, ...] = ()
    created: str = ""
    updated: str = ""
    size: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A change of a document: `added`, `changed` or `removed`. `relisted` says that its entry in lists changed.

    `row` is its present row, or the last one of a removed document. `is_first` says that the first scan found it, so
    that it may be as it was before this process began.
    """

    key: str
    how: str
    relisted: bool = field(default=True, compare=False)
    row: DocumentRow | None = field(default=None, compare=False)
    is_first: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Document:
    """A document: its row, its whole text, and the parts of the text."""

    row: DocumentRow
    text: str
    front: FrontMatter = field(repr=False)

    @property
    def metadata(self) -> dict[str, Any]:
        """The values of its front matter, as JSON."""
        return {str(key): front.to_json_value(value) for key, value in self.front.metadata.items()}


def document_of(key: str, data: bytes, stamp: str) -> Document:
    """Return a document from its bytes. Raises Unreadable for bytes that are not UTF-8 text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise Unreadable(f"{key} is not UTF-8 text: byte 0x{data[problem.start]:02x} in line {line}") from problem
    parts = front.split(text)
    metadata = parts.metadata
    name = unicodedata.normalize("NFC", key.rpartition("/")[2])
    stem = name.rpartition(".")[0] or name
    row = DocumentRow(
        key,
        cid_of(data),
        stamp,
        front.list_text(metadata.get("title")) or title_of(parts.body, stem) or stem,
        front.list_text(metadata.get("description")),
        front.list_text(metadata.get("author")),
        front.list_tags(metadata.get("tags")),
        front.list_text(metadata.get("createdAt")),
        front.list_text(metadata.get("updatedAt")),
        len(data),
        parts.problem or "",
    )
    return Document(row, text, parts)


class FolderIndex:
    """The rows and the index of one folder.

    The index is in the file `place`, or in memory if it is None. `took`, `folders` and `left_out` belong to the last
    scan: the seconds of its walk, the folders that it visited, and the reason for each file and folder that it skipped.
    `keep` gets each version from the disk (key and bytes, None for a deleted file) before the index has it; `alone`
    locks out other writers, and raises TimeoutError if they hold the lock for longer than its seconds.
    """

    def __init__(
        self,
        disk: Disk,
        endings: tuple[str, ...],
        place: Path | None,
        keep: Callable[[Sequence[tuple[str, bytes | None]]], None],
        alone: Callable[[float], Any],
    ) -> None:
        self._disk = disk
        self._endings = endings
        self._place = place
        self._keep = keep
        self._alone = alone
        self._refreshing = threading.Lock()
        self._logged: set[str] = set()
        self.left_out: dict[str, str] = {}
        self.done, self.total = 0, 0
        self.took = 0.0
        self.folders: list[Path] = []
        self.replaced = False
        """Whether the index was replaced by an empty one, which the next refresh fills."""
        self.index, self._rows, self._inode = self._open_index()
        self._meaning = self.index, Meaning(self.index)

    @property
    def meaning(self) -> Meaning:
        """The search by meaning in the present index."""
        index, meaning = self._meaning
        if index is not self.index:
            index = self.index
            meaning = Meaning(index)
            self._meaning = index, meaning
        return meaning

    @property
    def rows(self) -> Mapping[str, DocumentRow]:
        """The rows of all documents by path."""
        return self._rows.copy()

    def get(self, key: str) -> DocumentRow | None:
        """Return the row of one document, or None."""
        return self._rows.get(key)

    def refresh(
        self, progress: Callable[[int, int], None] = lambda done, total: None, seconds: float = math.inf
    ) -> list[DocumentChange] | None:
        """Scan the whole folder, index the changes and return them. `progress` gets done and total.

        Indexing stops after `seconds`; `total - done` is the number of files left. Returns None if another thread
        refreshes for that long.
        """
        end = time.monotonic() + seconds
        if not self._refreshing.acquire(timeout=-1 if math.isinf(seconds) else seconds):
            return None
        changes: list[DocumentChange] = []
        try:
            self._check_place()
            self.replaced = False
            self._index_changes(changes, progress, end)
            if self.replaced:  # in the middle: what was indexed before is missing now, and is no change of a document
                self.replaced = False
                self._index_changes([], progress, end)
        except TimeoutError as problem:
            log.info("the scan of a library ends early: %s", problem)
        finally:
            self._refreshing.release()
        return changes

    def _index_changes(self, changes: list[DocumentChange], progress: Callable[[int, int], None], end: float) -> None:
        """Scan the folder once, index the changes until `end` and add them to `changes`. Raises TimeoutError."""
        stale, gone = self._find_changes()
        self.done, self.total = 0, len(stale) + len(gone)
        # Remove deleted files first: otherwise a search would find a moved document twice.
        batches = [(self._remove_files, batch) for batch in _batches(dict.fromkeys(gone, 0))]
        batches += [(self._index_files, batch) for batch in _batches(stale)]
        for apply, batch in batches:
            left = max(0.0, end - time.monotonic())
            if not left:
                break
            with self._alone(left):
                changes += apply(batch)
            self.done += len(batch)
            progress(self.done, self.total)

    def _find_changes(self) -> tuple[dict[str, int], list[str]]:
        """Return the new and changed files, each with its size in bytes, and the paths of deleted files."""
        started, folders = time.monotonic(), list[Path]()
        known, left_out = self._rows.copy(), dict[str, str]()
        seen = {}
        for key, stamp in self._disk.walk(self._endings, folders, left_out):
            if key in known or (reason := paths.why_not_served(key)) is None:
                seen[key] = stamp
            else:
                left_out[key] = reason
        self.took, self.folders, self.left_out = time.monotonic() - started, folders, left_out
        for key, reason in left_out.items():
            self._log_once(key, reason)
        stale = {key: size_of(stamp) for key, stamp in seen.items() if key not in known or known[key].stamp != stamp}
        return stale, [key for key in known if key not in seen]

    def put(self, document: Document) -> DocumentChange:
        """Index a document that was just written."""
        change = self._change(document.row)
        if self._write_index(lambda index: index.put(_words(document))):
            self._rows[document.row.key] = document.row
        return change

    def drop(self, key: str) -> DocumentChange:
        """Remove a document that was just deleted."""
        self._write_index(lambda index: index.remove(key))
        return DocumentChange(key, "removed", row=self._rows.pop(key, None))

    def replace(self, problem: sqlite3.DatabaseError) -> None:
        """Replace an index that failed by an empty one: in memory when its disk is full or cannot be written."""
        if self._place is not None and fault_of(problem) in ("full", "unwritable"):
            self._use_memory(problem)
        else:
            log.error("the index of the library is damaged and will be rebuilt: %s", problem)
        self.index.close()
        if self._place is not None:
            _remove(self._place)
        self.index, self._rows, self._inode = self._open_index()
        self.replaced = True

    def close(self) -> None:
        """Close the index."""
        self.index.close()

    def _write_index(self, write: Callable[[Index], Any]) -> bool:
        """Write to the index; an index that fails is replaced, so that the write of the document succeeds.

        Returns whether it was written; if not, the index lacks documents until the next refresh.
        """
        try:
            write(self.index)
        except sqlite3.DatabaseError as problem:
            self.replace(problem)
            return False
        return True

    def _use_memory(self, problem: BaseException | None) -> None:
        log.warning(
            "the index %s cannot be written (%s): searches use an index in memory until the next start; free space on"
            " its disk, or make the folder writable",
            *(self._place, problem),
        )
        self._place = None

    def _open_index(self) -> tuple[Index, dict[str, DocumentRow], int]:
        try:
            index = Index(COLUMNS, self._place, LABELS)
            rows = dict(_rows(index))
        except (ConfigError, sqlite3.DatabaseError, orjson.JSONDecodeError, TypeError) as problem:
            if self._place is None:
                raise
            if fault_of(problem.__cause__ or problem) in ("full", "unwritable"):
                self._use_memory(problem.__cause__ or problem)
            else:
                log.warning("the index of the library is unusable and will be rebuilt: %s", problem)
                _remove(self._place)
            index, rows = Index(COLUMNS, self._place, LABELS), {}
        return index, rows, self._place.stat().st_ino if self._place is not None else 0

    def _check_place(self) -> None:
        """Open the index again if another process has replaced a damaged file."""
        if self._place is None:
            return
        try:
            same = self._place.stat().st_ino == self._inode
        except FileNotFoundError:
            same = False
        if not same:
            self.index.close()
            self.index, self._rows, self._inode = self._open_index()

    def _log_once(self, key: str, reason: str) -> None:
        if key not in self._logged:
            self._logged.add(key)
            log.warning("%r is left out of the library: %s", key, reason)

    def _index_files(self, keys: Sequence[str]) -> list[DocumentChange]:
        fresh: list[tuple[Document, bytes]] = []
        stamps: dict[str, str] = {}
        for key, data, stamp in self._disk.read_each(keys, self._refuse):
            known = self._rows.get(key)
            if known is not None and known.cid == cid_of(data):
                stamps[key] = stamp
                continue
            try:
                fresh.append((document_of(key, data, stamp), data))
            except Unreadable as problem:
                fresh.append((_unreadable(key, data, stamp, problem.message), data))
        stamped = {key: replace(self._rows[key], stamp=stamp) for key, stamp in stamps.items()}
        if stamps and self._write_index(lambda index: index.label_each("stamp", stamps)):
            self._rows |= stamped
        if not fresh:
            return []
        self._keep([(document.row.key, data) for document, data in fresh])
        changes = [self._change(document.row) for document, _ in fresh]
        if self._write_index(lambda index: _put_changed(index, [_words(document) for document, _ in fresh])):
            self._rows |= {document.row.key: document.row for document, _ in fresh}
        return changes

    def _change(self, row: DocumentRow) -> DocumentChange:
        known = self._rows.get(row.key)
        if known is None:
            return DocumentChange(row.key, "added", row=row)
        is_relisted = (known.title, known.description) != (row.title, row.description)
        return DocumentChange(row.key, "changed", is_relisted, row)

    def _refuse(self, key: str, problem: ToolFailed) -> None:
        """Record why a file cannot be read; a file that was deleted meanwhile is not missing."""
        if not isinstance(problem, NoDocument):
            self.left_out[key] = problem.message
            self._log_once(key, problem.message)

    def _remove_files(self, keys: Sequence[str]) -> list[DocumentChange]:
        gone = [key for key in keys if self._disk.stamp(key.split("/")) is None]
        self._keep([(key, None) for key in gone])
        self._write_index(lambda index: index.remove(*gone))
        return [DocumentChange(key, "removed", row=self._rows.pop(key, None)) for key in gone]


def _batches(sizes: Mapping[str, int]) -> Iterator[Sequence[str]]:
    """Yield the paths in groups of at most MAX_BATCH_FILES and MAX_BATCH_BYTES; `sizes` maps a path to its bytes."""
    batch: list[str] = []
    left = MAX_BATCH_BYTES
    for key, size in sizes.items():
        if batch and (size > left or len(batch) >= MAX_BATCH_FILES):
            yield batch
            batch, left = [], MAX_BATCH_BYTES
        batch.append(key)
        left -= size
    if batch:
        yield batch


def group_of(key: str) -> tuple[str, str]:
    """Return the first folder of a path, and the first two; an empty text for a missing one."""
    parts = key.split("/")[:-1]
    return parts[0] if parts else "", "/".join(parts[:2]) if len(parts) > 1 else ""


def _words(document: Document) -> Words:
    row, body = document.row, document.front.body
    top, group = group_of(row.key)
    about = [row.title, row.description, row.author, row.tags, row.created, row.updated, row.size, row.problem]
    return Words(
        row.key,
        {
            "title": row.title,
            "headings": "\n".join(heading.title for heading in headings(body)),
            "tags": "\n".join(row.tags),
            "description": row.description,
            "path": row.key.rpartition(".")[0],
            "body": body,
        },
        {"top": top, "grp": group, "cid": row.cid, "stamp": row.stamp, "about": orjson.dumps(about).decode()},
    )


def _put_changed(index: Index, documents: Sequence[Words]) -> None:
    """Store documents, except those that another process has stored already: what belongs to them stays."""
    stored = index.labels_of(document.key for document in documents)
    index.put(*(document for document in documents if stored.get(document.key) != document.labels))


def _rows(index: Index) -> Iterator[tuple[str, DocumentRow]]:
    for key, labels in index.labels().items():
        title, description, author, tags, *rest = orjson.loads(labels["about"])
        yield key, DocumentRow(key, labels["cid"], labels["stamp"], title, description, author, tuple(tags), *rest)


def _unreadable(key: str, data: bytes, stamp: str, problem: str) -> Document:
    row = DocumentRow(key, cid_of(data), stamp, PurePosixPath(key).stem, size=len(data), problem=problem)
    return Document(row, "", FrontMatter(""))


def _remove(place: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            place.with_name(place.name + ending).unlink()
