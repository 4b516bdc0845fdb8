"""A library as those who use it see it: documents by path, read, listed, searched, written, with their past.

A path is relative to the library's folder, with `/` (`specs/hub/rooms.md`). Every write happens alone, in all
processes: it looks at what is there, keeps what it replaces, writes the file, its version and its index entry, and is
acknowledged then. Reading takes the file as it is at that moment, and waits for nobody.
Sources: REQUIREMENTS JANE-4 to JANE-10, JANE-C3 to JANE-C5, A-F7.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from patchbay.documents import front_matter, paths, search
from patchbay.documents.errors import DocumentExists, NoDocument, Overwritten, Unreadable
from patchbay.documents.files import MAX_DOCUMENT_BYTES, Disk
from patchbay.documents.history import History, Version
from patchbay.documents.index import Document, DocumentChange, DocumentRow, FolderIndex, document_of
from patchbay.documents.notifications import Listener, ListenerThread
from patchbay.documents.search import Search
from patchbay.documents.watching import Watcher
from patchbay.sqlite import sqlite3

log = logging.getLogger(__name__)

MOMENT = 0.02
"""Seconds that a look at the folder may take where one comes before each list and search."""

CATCH_UP_SECONDS = 2.0
"""How long a list or search waits for an index that is behind; then it answers and says so."""

ON_DISK = "found on disk"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write made: the document as it is now, and whether anything is another than before."""

    document: Document
    changed: bool


class Library:
    """The documents under a folder, which need not be there yet. Safe for many threads and processes.

    `readonly` writes nothing into the folder: the index is in memory and there is no history. `listener` is told of
    every change, made here, by another process or with an editor. `start` watches the disk; without it, `refresh`.
    """

    def __init__(
        self,
        root: Path,
        endings: tuple[str, ...] = (".md",),
        readonly: bool = False,
        ignored: Sequence[str] = (),
        listener: Listener = lambda changes: None,
    ) -> None:
        self._disk = Disk(root, ignored)
        self._endings = endings
        self._readonly = readonly
        self._teller = ListenerThread(listener)
        self._writing = threading.RLock()
        self._ready = threading.Event()
        self._noticed = self._taken_in = 0
        self._watcher: Watcher | None = None
        self._history: History | None = None
        self._shelf = FolderIndex(self._disk, endings, None, self._keep, self._alone)
        self._placed = readonly
        self._settle()

    # Reading

    def read(self, path: str) -> Document:
        """A document as it is now. Raises BadPath, NoDocument, Unreadable."""
        parts = paths.document_path(path, self._endings)
        with self._failures_logged(path):
            return document_of(path, *self._disk.read(parts))

    def rows(self, under: str = "") -> list[DocumentRow]:
        """What is known of the documents whose path begins so, by path."""
        return sorted((row for row in self._shelf.rows.values() if row.key.startswith(under)), key=lambda row: row.key)

    def groups(self, top: str) -> list[str]:
        """The folders inside a first folder that hold documents, sorted."""
        return list(self.counts(top))

    def counts(self, top: str) -> dict[str, int]:
        """The same, each with how many documents it holds."""
        inside = (key.split("/", 2) for key in self._shelf.rows if key.startswith(top + "/"))
        found = Counter(parts[1] for parts in inside if len(parts) > 2)
        return dict(sorted(found.items()))

    def search(self, query: str, where: Mapping[str, str] | None = None, limit: int = 20, offset: int = 0) -> Search:
        """The documents that fit, best first; `where` may say `top` and `grp`, their first and first two folders."""
        return search.search(self._shelf, query, where or {}, limit, offset)

    def history(self, path: str) -> list[Version]:
        """The versions of a document, newest first; it may be gone. Raises BadPath, NoDocument."""
        paths.document_path(path, self._endings)
        self._settle()
        found = self._history.of(path) if self._history is not None else []
        if not found:
            raise NoDocument(f"nothing is known of the past of {path}")
        return found

    def version(self, path: str, cid: str) -> Document:
        """A document as it was. Raises BadPath, NoDocument."""
        paths.document_path(path, self._endings)
        self._settle()
        if self._history is None:
            raise NoDocument(f"nothing is known of the past of {path}")
        return document_of(path, self._history.read(path, cid), "")

    # Writing

    def create(self, path: str, metadata: Mapping[str, Any], body: str) -> Document:
        """A new document with front matter, to which its times are added.

        Raises BadPath, DocumentExists (also for a path that differs from another's by case alone), Unreadable.
        """
        parts = paths.document_path(path, self._endings)
        now = moment()
        data = _encoded(front_matter.new_document_text({**metadata, "createdAt": now, "updatedAt": now}, body))
        with self._changing():
            self._check_free(parts, path)
            return self._write(path, parts, data, "created")

    def update(
        self, path: str, changes: Mapping[str, Any], body: str | None = None, expected_cid: str | None = None
    ) -> WriteResult:
        """Other values of some keys, and another body if one is given; what is not named stays.

        `updatedAt` says when, if anything is another than before. Raises BadPath, NoDocument, Unreadable, and
        Overwritten when the document is not the version `expected_cid`.
        """
        parts = paths.document_path(path, self._endings)
        with self._changing():
            data, stamp = self._disk.read(parts)
            before = document_of(path, data, stamp)
            if expected_cid is not None and expected_cid != before.row.cid:
                raise Overwritten(f"{path} is version {before.row.cid} now, not {expected_cid}: read it again first")
            wanted = {key: value for key, value in changes.items() if before.front.metadata.get(key) != value}
            if not wanted and body in (None, before.front.body):
                return WriteResult(before, False)
            text = front_matter.changed(before.text, {**wanted, "updatedAt": moment()}, body)
            self._keep([(path, data)])
            return WriteResult(self._write(path, parts, _encoded(text), "updated"), True)

    def delete(self, path: str) -> None:
        """Take a document away; its versions stay. Raises BadPath, NoDocument, Unreadable."""
        parts = paths.document_path(path, self._endings)
        with self._changing():
            self._keep([(path, self._disk.read(parts)[0])])
            self._disk.remove(parts)
            self._record([(path, None, "deleted")])
            self._teller.tell([self._shelf.drop(path)])

    def move(self, path: str, to: str) -> Document:
        """Give a document another path. Raises BadPath, NoDocument, DocumentExists, Unreadable."""
        old, new = paths.document_path(path, self._endings), paths.document_path(to, self._endings)
        with self._changing():
            data, _ = self._disk.read(old)
            self._keep([(path, data)])
            self._check_free(new, to)
            document = document_of(to, data, self._disk.move(old, new))
            self._record([(path, None, f"moved to {to}"), (to, data, f"moved from {path}")])
            self._teller.tell([self._shelf.drop(path), self._shelf.put(document)])
            return document

    # Keeping up with the disk

    def refresh(
        self, progress: Callable[[int, int], None] = lambda done, total: None, seconds: float = math.inf
    ) -> list[DocumentChange]:
        """Take in what changed on the disk; answers that, and tells of it. After `seconds` the rest is left."""
        self._settle()
        noticed = self._noticed
        changes = self._shelf.refresh(progress, seconds)
        if changes is None:
            return []
        if not self.pending:
            self._taken_in = max(self._taken_in, noticed)
            self._ready.set()
        self._teller.tell(changes)
        return changes

    def catch_up(self) -> None:
        """Take in what changed on the disk, where that takes moments; `behind` says whether something is left."""
        if self._shelf.took <= MOMENT or self.behind:
            self.refresh(seconds=CATCH_UP_SECONDS)

    def notice(self) -> None:
        """Know that something has changed on the disk: it is looked at soon."""
        self._noticed += 1

    @property
    def behind(self) -> bool:
        """Whether the index is known to lack something that is on the disk."""
        return self._taken_in < self._noticed or self.pending > 0

    def start(self) -> None:
        """Watch the disk on a thread of its own, until `close`."""
        with self._writing:
            if self._watcher is None:
                self._watcher = Watcher(self._look, lambda: self._shelf.folders, self.notice, lambda: self.behind)
                self._watcher.start()

    def ready(self, seconds: float, progress: Callable[[int, int], None] = lambda done, total: None) -> bool:
        """Wait until the folder has been looked at for the first time; whether it has."""
        end = time.monotonic() + seconds
        while not self._ready.wait(min(0.2, max(0.0, end - time.monotonic()))):
            if self._shelf.total:
                progress(self._shelf.done, self._shelf.total)
            if time.monotonic() >= end:
                return False
        return True

    @property
    def pending(self) -> int:
        """How many documents are still to be indexed."""
        return self._shelf.total - self._shelf.done

    def close(self) -> None:
        """Stop watching; let go of files."""
        self._teller.close()
        if self._watcher is not None:
            self._watcher.stop()
        self._shelf.close()
        if self._history is not None:
            self._history.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _look(self) -> float:
        self.refresh()
        return self._shelf.took

    def _settle(self) -> None:
        """Put index and history into the folder as soon as there is one that can be written to."""
        with self._writing:
            if self._placed or not self._disk.exists():
                return
            try:
                own = self._disk.own()
                if not os.access(own, os.W_OK):
                    raise PermissionError(13, "its folder cannot be written to")
                # Alone: SQLite refuses a second process at once while the first one makes the files.
                with self._disk.alone():
                    self._history = History(own / "history.sqlite")
                    shelf = FolderIndex(self._disk, self._endings, own / "index.sqlite", self._keep, self._alone)
            except sqlite3.OperationalError as problem:
                raise Unreadable(f"the history of this library cannot be opened now: {problem}") from problem
            except (OSError, Unreadable) as problem:
                why = problem.strerror if isinstance(problem, OSError) else problem.message
                log.warning("the library %s is read-only: %s", self._disk.root.name, why)
                self._readonly = self._placed = True
                return
            # Somebody may still be searching the one that was there before, which is empty.
            self._shelf, self._placed = shelf, True

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Be the only one who writes. Raises Unreadable where nobody can."""
        if not self._readonly:
            self._disk.own_or_fail()
            self._settle()
        if self._readonly:
            raise Unreadable("this library can only be read")
        with self._failures_logged("a write"), self._disk.alone():
            yield

    @contextmanager
    def _failures_logged(self, what: str) -> Iterator[None]:
        """Log the details of a file system's failure, of which a caller sees the sentence alone."""
        try:
            yield
        except Unreadable as problem:
            cause = problem.__cause__ or problem
            log.warning("the library %s failed at %s: %s (%r)", self._disk.root, what, problem.message, cause)
            raise

    @contextmanager
    def _alone(self, seconds: float) -> Iterator[None]:
        """Be the only one who writes. Raises Unreadable, TimeoutError."""
        if not self._readonly:
            with self._disk.alone(seconds):
                yield
            return
        if not self._writing.acquire(timeout=-1 if math.isinf(seconds) else seconds):
            raise TimeoutError("another thread writes to this library")
        try:
            yield
        finally:
            self._writing.release()

    def _write(self, path: str, parts: tuple[str, ...], data: bytes, how: str) -> Document:
        if len(data) > MAX_DOCUMENT_BYTES:
            raise Unreadable(f"{path} would have {len(data)} bytes; expected at most {MAX_DOCUMENT_BYTES}")
        document = document_of(path, data, self._disk.write(parts, data))
        self._record([(path, data, how)])
        self._teller.tell([self._shelf.put(document)])
        return document

    def _check_free(self, parts: tuple[str, ...], path: str) -> None:
        taken = self._disk.taken(parts)
        if taken == path:
            raise DocumentExists(f"there is a document {path} already")
        if taken is not None:
            raise DocumentExists(f"{path} differs from {taken} by case alone, which not every system keeps apart")

    def _keep(self, found: Sequence[tuple[str, bytes | None]]) -> None:
        self._record([(path, data, ON_DISK if data is not None else f"{ON_DISK}: gone") for path, data in found])

    def _record(self, entries: Sequence[tuple[str, bytes | None, str]]) -> None:
        if self._history is not None:
            self._history.add(entries)


def moment() -> str:
    """Now, as ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise Unreadable("expected text that UTF-8 can say; there is half a surrogate pair") from problem
