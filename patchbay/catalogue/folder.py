"""The watched folder: a file saved there is a server, a file taken away takes its server with it.

    hello.py, hello.sh     a server with code; hello.mcp.json beside it is its configuration
    hello.json             a server without code

Rules: the folder is looked at twice a second, and read only where size, time or inode changed, so that a
file that is half written is read again when it grows; the file is the truth, but whether its server is
enabled is not said in it; nothing but regular files inside the folder is read; the same state of the
folder twice changes nothing, so any number of processes may watch it.
Sources: DESIGN sections 2 and 5; THREATS 1.6 (regular files only).
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from patchbay.boot import change
from patchbay.catalogue.dropins import PREFIX as DROP_INS
from patchbay.catalogue.dropins import DropIn, drop_ins
from patchbay.catalogue.rows import PREFIX as ROWS
from patchbay.catalogue.rows import Row, name_problem, parse_row
from patchbay.catalogue.servers import Kind
from patchbay.errors import ContentError
from patchbay.store import Store

log = logging.getLogger(__name__)

WHO = "servers/"
EVERY = 0.5
"""Seconds between two looks."""

LARGEST = 1024 * 1024
"""Bytes of the largest file that is read."""

ENDINGS: dict[str, Kind] = {".py": "python", ".sh": "shell", ".json": "static"}
CONFIG = ".mcp.json"

Signature = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file makes of a server."""

    file: str
    row: Row


class Folder:
    """Keeps the store in step with a folder. `refused` says which files are no servers, and why."""

    every = EVERY

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self._seen: tuple[object, ...] = ()
        self._cids: dict[str, tuple[Signature, str]] = {}
        self.refused: Mapping[str, str] = {}

    def scan(self) -> bool:
        """Look once; whether anything changed."""
        refused: dict[str, str] = {}
        files = dict(self._files(refused))
        state = (files, dict(refused))
        if (*state, self._store.names.all(ROWS)) == self._seen:
            return False
        wanted = self._wanted(files, refused)
        changed = self._withdraw(wanted) | self._put(wanted, refused)
        for file in refused.keys() - self.refused.keys():
            log.warning("%s%s is not served: %s", ROWS, file, refused[file])
        changed |= refused != self.refused
        self.refused = refused
        self._seen = (*state, self._store.names.all(ROWS))
        return changed

    def _files(self, refused: dict[str, str]) -> Iterator[tuple[str, Signature]]:
        """Regular files that could be servers, with what tells that they changed."""
        try:
            listed = sorted(os.scandir(self._path), key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        for entry in listed:
            if entry.name.startswith((".", "__")) or Path(entry.name).suffix not in ENDINGS:
                continue
            try:
                found = entry.stat()
                inside = Path(entry.path).resolve().parent == self._path.resolve()
            except OSError as problem:
                refused[entry.name] = f"it cannot be read: {problem.strerror}"
                continue
            if not stat.S_ISREG(found.st_mode) or not inside:
                refused[entry.name] = "expected a regular file that lies in this folder"
            elif found.st_size > LARGEST:
                refused[entry.name] = f"expected at most {LARGEST} bytes; it has {found.st_size}"
            else:
                yield entry.name, (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)

    def _wanted(self, files: Mapping[str, Signature], refused: dict[str, str]) -> dict[str, Wanted]:
        """The servers that the files make, by name."""
        wanted: dict[str, Wanted] = {}
        for file in sorted(files, key=lambda file: list(ENDINGS).index(Path(file).suffix)):
            if file.endswith(CONFIG):
                if not any(file.removesuffix(CONFIG) + ending in files for ending in (".py", ".sh")):
                    stem = file.removesuffix(CONFIG)
                    refused[file] = f"expected {stem}.py or {stem}.sh beside it, which it would configure"
                continue
            name, kind = Path(file).stem, ENDINGS[Path(file).suffix]
            problem = name_problem(name)
            if name in wanted:
                problem = f"{wanted[name].file} is the server {name} already: rename one of the two"
            elif problem is None:
                config = name + CONFIG
                definition = self._cid(file, files[file], refused)
                own = self._cid(config, files[config], refused) if config in files and kind != "static" else None
                if definition is not None:
                    wanted[name] = Wanted(file, Row(name, kind, definition, own))
            if problem:
                refused[file] = problem
        return wanted

    def _cid(self, file: str, signature: Signature, refused: dict[str, str]) -> str | None:
        """The CID of a file's bytes, which are kept; None when it could not be read."""
        known = self._cids.get(file)
        if known is not None and known[0] == signature:
            return known[1]
        try:
            with os.fdopen(os.open(self._path / file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
                data = opened.read(LARGEST + 1)
        except OSError as problem:
            refused[file] = f"it cannot be read: {problem.strerror}"
            return None
        if len(data) > LARGEST:
            refused[file] = f"expected at most {LARGEST} bytes"
            return None
        cid = self._store.blobs.put(data)
        self._cids[file] = (signature, cid)
        return cid

    def _put(self, wanted: Mapping[str, Wanted], refused: dict[str, str]) -> bool:
        """Make servers of files where they are not yet; whether there were any."""
        known, changed = drop_ins(self._store), False
        for name, want in wanted.items():
            now = self._row(name)
            before = known.get(name)
            ours = before is not None and now is not None and now.definition_cid == before.definition_cid
            row = replace(want.row, enabled=now.enabled) if ours and now else want.row
            base = before.base if ours and before else self._store.names.get(ROWS + name)
            made = DropIn(want.file, row.definition_cid, base)
            if now == row and before == made:
                continue
            try:
                self._store.names.move({DROP_INS + name: self._store.blobs.put(made.encoded())}, WHO, want.file)
                change(self._store, {ROWS + name: self._store.blobs.put(row.encoded())}, WHO, f"saved {want.file}")
            except ContentError as problem:
                refused[want.file] = problem.message
            changed = True
        return changed

    def _withdraw(self, wanted: Mapping[str, Wanted]) -> bool:
        """Take away servers whose file is gone, and bring back what stood there before; whether there were any."""
        gone = {name: found for name, found in drop_ins(self._store).items() if name not in wanted}
        for name, found in gone.items():
            now = self._row(name)
            if now is not None and now.definition_cid == found.definition_cid:
                change(self._store, {ROWS + name: found.base}, WHO, f"removed {found.file}")
            self._store.names.move({DROP_INS + name: None}, WHO, f"removed {found.file}")
        return bool(gone)

    def _row(self, name: str) -> Row | None:
        cid = self._store.names.get(ROWS + name)
        try:
            return parse_row(name, self._store.blobs.get(cid)) if cid else None
        except ContentError:
            return None
