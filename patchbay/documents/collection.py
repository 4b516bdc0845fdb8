"""The interface of a library: read, list, search and write documents by path, with their history.

A path is relative to the library's folder, with `/` (`specs/hub/rooms.md`). One write runs at a time, over all
processes: it reads the present file, stores the old version in the history, writes the file, its version and its index
entry, and then returns. A read returns the present file and waits for no write.
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
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from patchbay.documents import front_matter, paths, search
from patchbay.documents.errors import NoDocument, Overwritten, Unreadable
from patchbay.documents.files import MAX_DOCUMENT_BYTES, Disk, encoded
from patchbay.documents.history import DISK_FAULTS, DISK_STEP, History, Version, log_failures
from patchbay.documents.index import Document, DocumentChange, DocumentRow, FolderIndex, document_of
from patchbay.documents.meaning_loop import MeaningLoop
from patchbay.documents.notifications import Listener, ListenerThread
from patchbay.documents.passages import Match
from patchbay.documents.search import Search
from patchbay.documents.watching import Watcher
from patchbay.sqlite import fault_of, sqlite3

log = logging.getLogger(__name__)

FAST_SCAN_SECONDS = 0.02
"""A folder whose scan takes no longer is scanned before each list and search."""

CATCH_UP_SECONDS = 2.0
"""Seconds that a list or search waits for an index that lacks changes; then it answers and reports that."""

ON_DISK = "found on disk"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write: the present document, and whether the write changed it."""

    document: Document
    changed: bool


class Library:
    """The documents under a folder, which may not exist yet. Safe for many threads and processes.

    With `readonly` the library writes no file into the folder: the index is in memory and there is no history.
    `listener` gets every change, from this process, another process or an editor. `start` watches the folder; without
    it, call `refresh` to find changes.
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
        self._listener_thread = ListenerThread(listener)
        self._writing = threading.RLock()
        self._ready = threading.Event()
        self._reported_changes = self._indexed_changes = 0
        self._watcher: Watcher | None = None
        self._meaning_loop = MeaningLoop(lambda: self._index.meaning, self._ready.is_set)
        self._history: History | None = None
        self._index = FolderIndex(self._disk, endings, None, self._keep_disk_versions, self._lock_writers)
        self._has_files = readonly
        self._open_files()

    # Reading

    def read(self, path: str) -> Document:
        """Return the present document. Raises BadPath, NoDocument, Unreadable."""
        path, parts = self._find(path)
        with log_failures(self._disk.root, path):
            return document_of(path, *self._disk.read(parts))

    def rows(self, under: str = "") -> list[DocumentRow]:
        """Return the rows of the documents whose path begins with `under`, sorted by path."""
        return sorted((row for row in self._index.rows.values() if row.key.startswith(under)), key=lambda row: row.key)

    def groups(self, top: str) -> list[str]:
        """Return the folders with documents inside a top folder, sorted."""
        return list(self.counts(top))

    def counts(self, top: str) -> dict[str, int]:
        """Return the folders with documents inside a top folder, each with its number of documents."""
        inside = (key.split("/", 2) for key in self._index.rows if key.startswith(top + "/"))
        found = Counter(parts[1] for parts in inside if len(parts) > 2)
        return dict(sorted(found.items()))

    def search(
        self,
        query: str,
        where: Mapping[str, str] | None = None,
        limit: int = 20,
        offset: int = 0,
        may_find: search.MayFind = search.may_find_all,
    ) -> Search:
        """Return the documents that match, best first.

        `where` may restrict the first folder (`top`) and the first two folders (`grp`), `may_find` the paths that are
        found by meaning.
        """
        return search.search(self._index, query, where or {}, limit, offset, may_find=may_find)

    def matches(self, query: str, document: Document, every: bool = True) -> list[Match]:
        """Return the lines of a document that match. Stored definitions call it; `answered` is for new ones."""
        return search.matches(self._index, query, document)

    def history(self, path: str) -> list[Version]:
        """Return the versions of a document, newest first, also of a deleted one. Raises BadPath, NoDocument."""
        path, _ = self._find(path)
        self._open_files()
        found = self._history.of(path) if self._history is not None else []
        if not found:
            raise NoDocument(f"the library has no earlier versions of {path}")
        return found

    def version(self, path: str, cid: str) -> Document:
        """Return one version of a document. Raises BadPath, NoDocument."""
        path, _ = self._find(path)
        self._open_files()
        if self._history is None:
            raise NoDocument(f"the library has no earlier versions of {path}")
        return document_of(path, self._history.read(path, cid), "")

    @property
    def left_out(self) -> dict[str, str]:
        """The files and folders that the last scan did not take, each with the reason, sorted by path."""
        return dict(sorted((paths.printable(key), reason) for key, reason in self._index.left_out.copy().items()))

    def _find(self, path: str) -> tuple[str, tuple[str, ...]]:
        """Return the path of an existing document as it is on the disk, and its names. Raises BadPath.

        A document that a scan found may have any name, also in another Unicode normalization than `path`. Every other
        path has to be valid on every system.
        """
        if self._index.get(path) is not None:
            return path, tuple(path.split("/"))
        if found := paths.find_equal(path, self._index.rows):
            return found, tuple(found.split("/"))
        return path, paths.document_path(path, self._endings)

    # Writing

    def create(self, path: str, metadata: Mapping[str, Any], body: str) -> Document:
        """Create a document with front matter, and add `createdAt` and `updatedAt` to it.

        Raises BadPath, DocumentExists (also for a path that differs from an existing one only by case), Unreadable.
        """
        now = timestamp()
        text = front_matter.new_document_text({**metadata, "createdAt": now, "updatedAt": now}, body)
        return self.add(path, text)

    def add(self, path: str, text: str) -> Document:
        """Create a document with this text. Raises as `create` does."""
        parts = paths.document_path(path, self._endings)
        with self._write_access():
            self._disk.check_path_is_free(parts, path)
            return self._write(path, parts, encoded(text), "created")

    def update(
        self, path: str, changes: Mapping[str, Any], body: str | None = None, expected_cid: str | None = None
    ) -> WriteResult:
        """Set some keys of the front matter, and the body if one is given; other keys stay unchanged.

        A change also sets `updatedAt`. Raises BadPath, NoDocument, Unreadable, and Overwritten if the document is not
        the version `expected_cid`.
        """

        def changed_text(before: Document) -> str:
            wanted = {key: value for key, value in changes.items() if before.front.metadata.get(key) != value}
            if not wanted and body in (None, before.front.body):
                return before.text
            return front_matter.changed(before.text, {**wanted, "updatedAt": timestamp()}, body)

        return self._change(path, changed_text, expected_cid)

    def replace(self, path: str, text: str, expected_cid: str | None = None) -> WriteResult:
        """Replace the whole text of a document, front matter included. Raises as `update` does."""
        return self._change(path, lambda before: text, expected_cid)

    def _change(self, path: str, make: Callable[[Document], str], expected_cid: str | None) -> WriteResult:
        path, parts = self._find(path)
        with self._write_access():
            data, stamp = self._disk.read(parts)
            before = document_of(path, data, stamp)
            if expected_cid is not None and expected_cid != before.row.cid:
                raise Overwritten(f"{path} is version {before.row.cid} now, not {expected_cid}: read it again first")
            text = make(before)
            if text == before.text:
                return WriteResult(before, False)
            self._record_disk_versions([(path, data)])
            return WriteResult(self._write(path, parts, encoded(text), "updated"), True)

    def delete(self, path: str) -> None:
        """Delete a document; its versions stay in the history. Raises BadPath, NoDocument, Unreadable."""
        path, parts = self._find(path)
        with self._write_access():
            self._record_disk_versions([(path, self._disk.read(parts)[0])])
            self._disk.remove(parts)
            self._keep([(path, None, "deleted")])
            self._listener_thread.report([self._index.drop(path)])

    def move(self, path: str, to: str) -> Document:
        """Move a document to another path. Raises BadPath, NoDocument, DocumentExists, Unreadable."""
        (path, old), new = self._find(path), paths.document_path(to, self._endings)
        with self._write_access():
            data, _ = self._disk.read(old)
            self._record_disk_versions([(path, data)])
            self._disk.check_path_is_free(new, to)
            document = document_of(to, data, self._disk.move(old, new))
            self._keep([(path, None, f"moved to {to}"), (to, data, f"moved from {path}")])
            self._listener_thread.report([self._index.drop(path), self._index.put(document)])
            self._meaning_loop.wake()
            return document

    # Following changes on the disk

    def refresh(
        self, progress: Callable[[int, int], None] = lambda done, total: None, seconds: float = math.inf
    ) -> list[DocumentChange]:
        """Index the changes on the disk, report them to the listener and return them.

        The refresh stops after `seconds`; `pending` is then above 0.
        """
        self._open_files()
        reported = self._reported_changes
        changes = self._index.refresh(progress, seconds)
        if changes is None:
            return []
        is_first = not self._ready.is_set()
        if not self.pending:
            self._indexed_changes = max(self._indexed_changes, reported)
            self._ready.set()
        if changes:
            self._meaning_loop.wake()
        if is_first:
            self._listener_thread.report([replace(one, is_first=True) for one in changes], True)
        else:
            self._listener_thread.report(changes)
        return changes

    def catch_up(self) -> None:
        """Index the changes on the disk if the scan is fast or a change is known; `behind` says if some are left."""
        if self._index.took <= FAST_SCAN_SECONDS or self.behind:
            self.refresh(seconds=CATCH_UP_SECONDS)

    def notice(self) -> None:
        """Report a change on the disk; the library scans the folder soon."""
        self._reported_changes += 1

    @property
    def behind(self) -> bool:
        """Whether the index is known to lack changes on the disk."""
        return self._indexed_changes < self._reported_changes or self.pending > 0 or self._index.replaced

    def start(self) -> None:
        """Watch the folder on a separate thread, until `close`."""
        with self._writing:
            if self._watcher is None:
                self._watcher = Watcher(self._scan, lambda: self._index.folders, self.notice, lambda: self.behind)
                self._watcher.start()
                self._meaning_loop.start()

    def ready(self, seconds: float, progress: Callable[[int, int], None] = lambda done, total: None) -> bool:
        """Wait up to `seconds` for the first complete scan of the folder; return whether it is complete.

        `progress` gets done and total each time that more documents are done.
        """
        end, reported = time.monotonic() + seconds, -1
        while not self._ready.wait(min(0.2, max(0.0, end - time.monotonic()))):
            done, total = self._index.done, self._index.total
            if total and done > reported:
                progress(done, total)
                reported = done
            if time.monotonic() >= end:
                return False
        return True

    @property
    def readonly(self) -> bool:
        """Whether the library writes no file."""
        self._open_files()
        return self._readonly

    @property
    def pending(self) -> int:
        """The number of documents that are not indexed yet."""
        return self._index.total - self._index.done

    def close(self) -> None:
        """Stop watching, and close the files."""
        self._listener_thread.close()
        self._meaning_loop.stop()
        if self._watcher is not None:
            self._watcher.stop()
        self._index.close()
        if self._history is not None:
            self._history.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def embed(self, seconds: float = math.inf) -> bool:
        """Make the vectors that search by meaning lacks, for at most `seconds`; return whether some are left.

        `start` does this in the background. Nothing happens without a model.
        """
        return self._index.meaning.embed(seconds)

    @property
    def has_meaning(self) -> bool:
        """Whether documents are found by their meaning too."""
        return self._index.meaning.is_possible

    @property
    def not_embedded(self) -> int:
        """The number of documents that are found by their words only until their vectors are made."""
        return self._index.meaning.pending()

    def _scan(self) -> float:
        self.refresh()
        return self._index.took

    def _open_files(self) -> None:
        """Open the index and the history in the folder, once the folder exists and is writable."""
        with self._writing:
            if self._has_files or not self._disk.exists():
                return
            try:
                own = self._disk.make_own_folder()
                if not os.access(own, os.W_OK):
                    raise PermissionError(13, "its folder is not writable")
                # Lock: SQLite refuses a second process while the first one creates the files.
                with self._disk.write_lock():
                    self._history = History(own / "history.sqlite")
                    index = FolderIndex(
                        self._disk,
                        self._endings,
                        own / "index.sqlite",
                        self._keep_disk_versions,
                        self._lock_writers,
                    )
            except sqlite3.OperationalError as problem:
                if fault_of(problem) not in DISK_FAULTS:
                    raise Unreadable(f"the history of this library cannot be opened now: {problem}") from problem
                log.warning("the history in %s cannot be opened (%s): %s", own, problem, DISK_STEP)
                return
            except (OSError, Unreadable) as problem:
                why = problem.strerror if isinstance(problem, OSError) else problem.message
                log.warning("the library %s is read-only: %s", self._disk.root.name, why)
                self._readonly = self._has_files = True
                return
            # Keep the earlier index open, which is empty: another thread may still search it.
            self._index, self._has_files = index, True

    @contextmanager
    def _write_access(self) -> Iterator[None]:
        """Lock out all other writers. Raises Unreadable for a read-only library."""
        if not self._readonly:
            self._disk.own_or_fail()
            self._open_files()
        if self._readonly:
            raise Unreadable("this library is read-only")
        if not self._has_files:
            raise Unreadable(f"the history of this library cannot be opened: {DISK_STEP}")
        with log_failures(self._disk.root, "a write"), self._disk.write_lock():
            yield

    @contextmanager
    def _lock_writers(self, seconds: float) -> Iterator[None]:
        """Lock out all other writers. Raises Unreadable, TimeoutError."""
        if not self._readonly:
            with self._disk.write_lock(seconds):
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
        self._keep([(path, data, how)])
        self._listener_thread.report([self._index.put(document)])
        self._meaning_loop.wake()
        return document

    def _record_disk_versions(self, found: Sequence[tuple[str, bytes | None]]) -> None:
        self._record([(path, data, ON_DISK if data is not None else f"{ON_DISK}: gone") for path, data in found])

    def _keep_disk_versions(self, found: Sequence[tuple[str, bytes | None]]) -> None:
        self._keep([(path, data, ON_DISK if data is not None else f"{ON_DISK}: gone") for path, data in found])

    def _keep(self, entries: Sequence[tuple[str, bytes | None, str]]) -> None:
        """Record changes that are on the disk already, also where the history cannot be written now."""
        if self._history is not None:
            self._history.add_if_possible(entries)

    def _record(self, entries: Sequence[tuple[str, bytes | None, str]]) -> None:
        if self._history is not None:
            self._history.add(entries)


def timestamp() -> str:
    """Return the present time as ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
