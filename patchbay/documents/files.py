"""Reads, writes and walks the folder of a library without leaving it.

Each folder of a path is opened by its name inside the folder before it, and no symbolic link is followed. So replacing
a folder by a link between check and use has no effect. Only regular files are read. A write goes to a temporary file,
which is synced and then renamed: a reader sees the old text or the new text.
Sources: POSIX openat(2), rename(2); CWE-367 (time of check, time of use).
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from patchbay.documents.errors import DocumentExists, NoDocument, Unreadable
from patchbay.errors import ToolFailed

MAX_DOCUMENT_BYTES = 8 * 1024 * 1024
"""Bytes of the largest document."""

TEMPORARY = ".tmp-"
"""The first characters of the names of temporary files. `walk` removes old ones."""

MAX_TEMPORARY_AGE_SECONDS = 3600.0
"""Age after which a temporary file counts as abandoned."""

OWN = ".library"
"""The folder inside the root that holds the history and the index."""

LOCK_TRY_SECONDS = 0.01
"""Seconds between two attempts to take the lock of writers, if the wait is bounded."""

RACY_NANOSECONDS = 100_000_000
"""A file may change a second time within this time without a new modification time."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENAMETOOLONG)


class Disk:
    """The folder `root`, which may not exist yet. `ignored` names folders that `walk` skips."""

    def __init__(self, root: Path, ignored: Sequence[str] = ()) -> None:
        self.root = root
        self._ignored = frozenset(ignored)

    def exists(self) -> bool:
        """Whether the folder exists."""
        return self.root.is_dir()

    def read(self, parts: Sequence[str]) -> tuple[bytes, str]:
        """Return the bytes of a file, and its stamp. Raises NoDocument, Unreadable."""
        with self._convert_errors(parts), self._folder(parts[:-1]) as folder:
            return _read_file(parts, folder)

    def read_each(
        self, keys: Sequence[str], refused: Callable[[str, ToolFailed], None]
    ) -> Iterator[tuple[str, bytes, str]]:
        """Yield the path, the bytes and the stamp of each readable file; `refused` gets the path and error of the
        others.

        Consecutive files of one folder share one open folder.
        """
        opened: Sequence[str] | None = None
        with ExitStack() as stack:
            for key in keys:
                parts = key.split("/")
                try:
                    with self._convert_errors(parts):
                        if opened != parts[:-1]:
                            stack.close()
                            opened = None
                            folder = stack.enter_context(self._folder(parts[:-1]))
                            opened = parts[:-1]
                        data, stamp = _read_file(parts, folder)
                except ToolFailed as problem:
                    refused(key, problem)
                    continue
                yield key, data, stamp

    def write(self, parts: Sequence[str], data: bytes) -> str:
        """Write or replace a file atomically, and sync it; return its stamp. Raises Unreadable."""
        temporary = TEMPORARY + secrets.token_hex(8)
        with self._convert_errors(parts, writing=True), self._folder(parts[:-1], make=True) as folder:
            try:
                with os.fdopen(os.open(temporary, _NEW, 0o666, dir_fd=folder), "wb") as opened:
                    opened.write(data)
                    opened.flush()
                    self._keep_mode(parts[-1], folder, opened.fileno())
                    os.fsync(opened.fileno())
                os.rename(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            os.fsync(folder)
            return stamp_of(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False))

    def move(self, old: Sequence[str], new: Sequence[str]) -> str:
        """Move a file to a free path; return its stamp. Raises NoDocument, Unreadable."""
        with (
            self._convert_errors(old, writing=True),
            self._folder(old[:-1]) as source,
            self._folder(new[:-1], make=True) as target,
        ):
            os.rename(old[-1], new[-1], src_dir_fd=source, dst_dir_fd=target)
            os.fsync(target)
            os.fsync(source)
            return stamp_of(os.stat(new[-1], dir_fd=target, follow_symlinks=False))

    def remove(self, parts: Sequence[str]) -> None:
        """Delete a file. Raises NoDocument, Unreadable."""
        with self._convert_errors(parts, writing=True), self._folder(parts[:-1]) as folder:
            os.unlink(parts[-1], dir_fd=folder)
            os.fsync(folder)

    def find_ignoring_case(self, parts: Sequence[str]) -> str | None:
        """Return the path of an existing file or folder that equals this path when case is ignored; or None."""
        if not self.exists():
            return None
        with self._convert_errors(parts, writing=True), self._folder(()) as top:
            return _find_ignoring_case(top, parts)

    def check_path_is_free(self, parts: Sequence[str], path: str) -> None:
        """Check that no file has this path, also when case is ignored. Raises DocumentExists."""
        taken = self.find_ignoring_case(parts)
        if taken == path:
            raise DocumentExists(f"there is a document {path} already")
        if taken is not None:
            raise DocumentExists(f"{path} differs from {taken} only by case, which some file systems ignore")

    def stamp(self, parts: Sequence[str]) -> str | None:
        """Return the stamp of a file, which differs after a change; None without a regular file."""
        try:
            with self._convert_errors(parts), self._folder(parts[:-1]) as folder:
                found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        except ToolFailed:
            return None
        return stamp_of(found) if stat.S_ISREG(found.st_mode) else None

    def walk(self, endings: tuple[str, ...], walked: list[Path], left_out: dict[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the path and the stamp of every regular file with one of these endings, in any case.

        Removes abandoned files. Appends every folder that it visits to the list `walked`, and adds to `left_out` the
        reason for each file with such an ending, and for each linked or unreadable folder, that it skips.
        """
        if not self.exists():
            return
        top = os.fspath(self.root)
        start = len(top.rstrip(os.sep)) + 1
        for folder, folders, files, descriptor in os.fwalk(top, follow_symlinks=False):
            before = folder[start:] + "/" if len(folder) >= start else ""
            visible = sorted(one for one in folders if not one.startswith(".") and one not in self._ignored)
            reasons = {one: _why_folder_is_skipped(one, descriptor) for one in visible}
            left_out |= {before + one: reason for one, reason in reasons.items() if reason}
            folders[:] = [one for one in visible if not reasons[one]]
            walked.append(Path(folder))
            for file in files:
                if file.startswith(TEMPORARY):
                    _remove_abandoned(file, descriptor)
                    continue
                if not file.lower().endswith(endings):
                    continue
                with suppress(FileNotFoundError):
                    found = os.stat(file, dir_fd=descriptor, follow_symlinks=False)
                    if reason := _why_file_is_skipped(file, found.st_mode):
                        left_out[before + file] = reason
                    else:
                        yield before + file, stamp_of(found)

    @contextmanager
    def write_lock(self, seconds: float = math.inf) -> Iterator[None]:
        """Lock out every other writer, in this process and in others, during the block.

        Raises Unreadable, and TimeoutError if another writer holds the lock for longer than `seconds`.
        """
        try:
            own = self.make_own_folder()
            descriptor = os.open(own / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as problem:
            raise Unreadable(f"the library is not writable: {problem.strerror}") from problem
        try:
            _lock(descriptor, seconds)
            yield
        finally:
            os.close(descriptor)

    def own_or_fail(self) -> None:
        """Make the folder for history and index. Raises Unreadable."""
        try:
            self.make_own_folder()
        except OSError as problem:
            raise Unreadable(f"the library is not writable: {problem.strerror}") from problem

    def make_own_folder(self) -> Path:
        """Return the folder for history and index; make it if absent. Raises OSError."""
        own = self.root / OWN
        own.mkdir(parents=True, exist_ok=True)
        if own.is_symlink():
            raise OSError(errno.ELOOP, f"its folder {OWN} is a symbolic link")
        return own

    @contextmanager
    def _folder(self, parts: Sequence[str], make: bool = False) -> Iterator[int]:
        """Yield a descriptor of a folder; each name is opened inside the folder before it."""
        if make:
            self.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                        os.fsync(descriptor)
                inner = os.open(part, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _convert_errors(self, parts: Sequence[str], writing: bool = False) -> Iterator[None]:
        """Convert OSError to errors that name the document, never the root."""
        try:
            yield
        except OSError as problem:
            path = "/".join(parts)
            if problem.errno in _NOT_THERE and not writing:
                raise NoDocument(f"there is no document {path}") from problem
            if problem.errno == errno.ENOENT:
                raise NoDocument(f"there is no document {path}") from problem
            verb = "written" if writing else "read"
            step = "; free space on the disk of the library" if problem.errno in _NO_SPACE else ""
            raise Unreadable(f"{path} cannot be {verb}: {problem.strerror}{step}") from problem

    def _keep_mode(self, name: str, folder: int, descriptor: int) -> None:
        """Give a new file the permissions of the file that it replaces."""
        with suppress(OSError):
            old = os.stat(name, dir_fd=folder, follow_symlinks=False)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _read_file(parts: Sequence[str], folder: int) -> tuple[bytes, str]:
    """Return the bytes of a file in an open folder, and its stamp. Raises NoDocument, Unreadable, OSError."""
    descriptor = os.open(parts[-1], _READ, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NoDocument(f"{'/'.join(parts)} is not a regular file")
        if found.st_size > MAX_DOCUMENT_BYTES:
            raise Unreadable(f"{'/'.join(parts)} has {found.st_size} bytes; expected at most {MAX_DOCUMENT_BYTES}")
        data = os.read(descriptor, found.st_size + 1)
        while more := os.read(descriptor, MAX_DOCUMENT_BYTES):
            data += more
        return data, stamp_of(found)
    finally:
        os.close(descriptor)


def encoded(text: str) -> bytes:
    """Return the bytes of a document's text. Raises Unreadable."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise Unreadable("expected text that UTF-8 can encode; found half of a surrogate pair") from problem


def stamp_of(found: os.stat_result) -> str:
    """Return a text that differs after a change of the file.

    A recently changed file may change again without a new modification time; its stamp ends in `?`.
    """
    racy = "?" if time.time_ns() - found.st_mtime_ns < RACY_NANOSECONDS else ""
    return f"{found.st_mtime_ns}.{found.st_ctime_ns}.{found.st_size}.{found.st_ino}{racy}"


def size_of(stamp: str) -> int:
    """Return the size in bytes of the file with this stamp."""
    return int(stamp.removesuffix("?").split(".")[2])


def _lock(descriptor: int, seconds: float) -> None:
    """Take the lock of writers. Raises TimeoutError."""
    if math.isinf(seconds):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise TimeoutError("another process writes to this library") from None
            time.sleep(LOCK_TRY_SECONDS)


def _find_ignoring_case(folder: int, parts: Sequence[str]) -> str | None:
    """Like `Disk.find_ignoring_case`, from an open folder: the first name that differs by case, or the whole path."""
    same = [one for one in os.listdir(folder) if one.casefold() == parts[0].casefold()]
    if not same:
        return None
    if parts[0] not in same:
        return same[0]
    if len(parts) == 1:
        return parts[0]
    inner = os.open(parts[0], _FOLDER, dir_fd=folder)
    try:
        rest = _find_ignoring_case(inner, parts[1:])
    finally:
        os.close(inner)
    return f"{parts[0]}/{rest}" if rest else None


def _why_folder_is_skipped(name: str, parent: int) -> str | None:
    try:
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return "it is a symbolic link to a folder, and links are not followed"
        return None if os.access(name, os.R_OK | os.X_OK, dir_fd=parent) else "this hub may not read the folder"
    except OSError as problem:
        return f"it cannot be read: {problem.strerror}"


def _why_file_is_skipped(name: str, mode: int) -> str | None:
    if name.startswith("."):
        return "its name begins with a dot"
    if stat.S_ISLNK(mode):
        return "it is a symbolic link, and links are not followed"
    return None if stat.S_ISREG(mode) else "it is not a regular file"


def _remove_abandoned(file: str, folder: int) -> None:
    with suppress(OSError):
        age = time.time() - os.stat(file, dir_fd=folder, follow_symlinks=False).st_mtime
        if age > MAX_TEMPORARY_AGE_SECONDS:
            os.unlink(file, dir_fd=folder)
