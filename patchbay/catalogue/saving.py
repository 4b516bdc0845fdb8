"""Changing what servers are made of: a definition saved, rows put back; the watched folder follows.

Rules: what stands behind a server is changed, the file where it came from one and the store where it did not, so
that a change lasts; files are written before names move, each whole or not at all; what was there stays in the
store under its CID.
Sources: DESIGN sections 4 and 5; ARCHITECTURE "Content addressing".
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from patchbay.boot import change
from patchbay.catalogue.provenance import reaches_out, vouched
from patchbay.catalogue.rows import (
    ServerRow,
    name_problem,
    parse_row,
)
from patchbay.catalogue.watching.drop_ins import DropIn, drop_ins
from patchbay.catalogue.watching.folder import discovering
from patchbay.catalogue.watching.settling import CONFIG
from patchbay.cid import cid_of
from patchbay.errors import InvalidParams, Refused, StaleUpdate
from patchbay.kind import code_endings, kind_named
from patchbay.store import Store
from patchbay.topics import DROP_INS, SERVERS

_LOCK = threading.Lock()
"""One change at a time in this process: files and names of two changes do not mix."""

Files = dict[str, bytes | None]
"""What files of the folder are to hold; None takes one away."""


class Saving:
    """Changes the servers of one store; `folder` is the one that is watched for drop-ins."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder

    def definition(self, name: str, kind: str, source: bytes, base: str | None, who: str, why: str) -> str:
        """Make these bytes a server's definition; answers the new root.

        `base` is the CID of the definition that the author started from, None for a server that is to be new. Raises
        StaleUpdate when another one is there, InvalidParams for a name that no server can have.
        """
        now = self._row(name)
        if now is None:
            self._check_new(name)
        if (now.definition_cid if now else None) != base:
            there = "there is a server of this name already" if base is None else "somebody saved another definition"
            raise StaleUpdate(f"{name} was not saved: {there}. What you wrote is still here")
        cid = self._store.blobs.put(source)
        row = replace(now, definition_cid=cid) if now else ServerRow(name, kind, cid)
        seen = {SERVERS + name: self._store.blobs.put(now.encoded()) if now else None}
        return self.names({SERVERS + name: self._store.blobs.put(row.encoded())}, who, why, seen)

    def names(
        self, wanted: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None] | None = None
    ) -> str:
        """Point names (`servers/...`, `variables/...`, `templates/...`) elsewhere, files included; answers the root.

        With `expected` only if these names still point there. Raises StaleUpdate when they do not, Refused when a file
        cannot be written; ConfigError and MissingBlob as `boot.change` does.
        """
        with _LOCK:
            return self._names(wanted, who, why, expected or {})

    def _names(self, wanted: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None]) -> str:
        for full, cid in expected.items():
            if self._store.names.get(full) != cid:
                raise StaleUpdate(f"{full} has changed since you saw it; nothing was changed")
        files: Files = {}
        marks: dict[str, str | None] = {}
        known = drop_ins(self._store)
        for full, cid in wanted.items():
            name = full.removeprefix(SERVERS)
            if full.startswith(SERVERS) and name in known:
                self._check_read(name, known[name])
                made, mark = self._dropped_in(name, known[name], cid)
                files |= made
                marks[DROP_INS + name] = mark
        self._missing(wanted)
        self._write(files)
        self._store.names.move({mark: cid for mark, cid in marks.items() if cid}, who, why)
        # Behind a file stands the watcher, which may have moved the name by now, and to the same place.
        root = change(self._store, wanted, who, why, {} if files else expected)
        # Last, so that a hub that ends in between takes the servers away when it is back.
        self._store.names.move({mark: cid for mark, cid in marks.items() if cid is None}, who, why)
        return root

    def _dropped_in(self, name: str, mark: DropIn, cid: str | None) -> tuple[Files, str | None]:
        """What the files of a drop-in are to be so that its row is this one, and its mark then."""
        files: Files = {mark.file: None}
        if mark.file.endswith(tuple(code_endings())):
            files[name + CONFIG] = None
        if cid is None or cid == mark.base:
            return files, None
        row = parse_row(name, self._store.blobs.get(cid))
        if not vouched(self._store, row) and reaches_out(self._store.blobs.get(row.definition_cid)):
            # The watcher could be quicker than the move of the name, and would vouch for what it finds.
            raise Refused(f"{name} was not saved: what mounts a server or a folder is written into its file by hand")
        file = name + kind_named(row.kind).endings[0]
        files[file] = self._store.blobs.get(row.definition_cid)
        if not row.is_configuration and row.config_cid == self._config_there(name):
            files.pop(name + CONFIG, None)
        elif not row.is_configuration:
            files[name + CONFIG] = self._store.blobs.get(row.config_cid) if row.config_cid else None
        made = DropIn(file, row.definition_cid, mark.base)
        return files, self._store.blobs.put(made.encoded())

    def _check_read(self, name: str, mark: DropIn) -> None:
        """Files that were saved a moment ago are nowhere else: they are not written over. Raises StaleUpdate."""
        now = self._row(name)
        seen: dict[str, tuple[str | None, str | None]] = {
            mark.file: (self._there(mark.file), mark.definition_cid),
        }
        if mark.file.endswith(tuple(code_endings())):
            seen[name + CONFIG] = (self._config_there(name), now.config_cid if now else None)
        for file, (there, known) in seen.items():
            if there is not None and there != known:
                raise StaleUpdate(f"the file {file} was saved a moment ago and is not read yet; nothing was changed")

    def _there(self, file: str) -> str | None:
        """The CID of what a file holds; None where there is none that can be read."""
        try:
            return cid_of((self._folder / file).read_bytes())
        except OSError:
            return None

    def _config_there(self, name: str) -> str | None:
        """The same of a configuration, as the watcher keeps it."""
        try:
            return cid_of(discovering((self._folder / (name + CONFIG)).read_bytes()))
        except OSError:
            return None

    def _missing(self, wanted: Mapping[str, str | None]) -> None:
        """Before any file is touched: the contents have to be here. Raises MissingBlob."""
        for cid in wanted.values():
            if cid is not None:
                self._store.blobs.get(cid)

    def _write(self, files: Files) -> None:
        # What is to be there first, so that a failure takes nothing away.
        for file, data in sorted(files.items(), key=lambda item: item[1] is None):
            path = self._folder / file
            try:
                if data is None:
                    path.unlink(missing_ok=True)
                elif not path.is_file() or path.read_bytes() != data:
                    _replace(path, data)
            except OSError as problem:
                raise Refused(f"the file {file} cannot be changed: {problem.strerror}; nothing was saved") from problem

    def _row(self, name: str) -> ServerRow | None:
        cid = self._store.names.get(SERVERS + name)
        return parse_row(name, self._store.blobs.get(cid)) if cid else None

    def _check_new(self, name: str) -> None:
        problem = name_problem(name)
        alike = next((one for one in self._store.names.all(SERVERS) if one.lower() == f"{SERVERS}{name}".lower()), None)
        if alike and problem is None:
            problem = f"its name differs from that of {alike.removeprefix(SERVERS)} by case alone: choose another"
        if problem:
            raise InvalidParams(problem)


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old or the new one; the folder's watcher passes over the one between."""
    between = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        between.write_bytes(data)
        if path.exists():
            between.chmod(path.stat().st_mode & 0o777)
        between.replace(path)
    finally:
        between.unlink(missing_ok=True)
