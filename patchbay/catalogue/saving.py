"""Save definitions and rows, in the store and in the files of the watched folder.

A change goes to the source of a server: its file when it has one, else the store, so that the change lasts. Files are
written before names move, each atomically. The previous content stays in the store under its CID.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from patchbay.boot import change_names
from patchbay.catalogue.provenance import is_from_operator, reaches_outside
from patchbay.catalogue.servers.rows import (
    ServerRow,
    name_problem,
    parse_row,
)
from patchbay.catalogue.watching.client_files import is_part, read_client_file
from patchbay.catalogue.watching.drop_ins import DropIn, drop_ins
from patchbay.catalogue.watching.folder import AUTHOR, with_auto_discover
from patchbay.catalogue.watching.folder_lock import lock_folder
from patchbay.catalogue.watching.references import ReferencedFiles
from patchbay.catalogue.watching.settling import CONFIG_ENDING
from patchbay.cid import cid_of
from patchbay.errors import ConfigError, ContentError, InvalidParams, Refused, StaleUpdate
from patchbay.kind import code_endings, kind_named, known_kinds
from patchbay.store import Store
from patchbay.topics import DROP_INS, SERVERS

_LOCK = threading.Lock()
"""Serializes changes in this process, so that files and names of two changes do not mix."""

Files = dict[str, bytes | None]
"""New contents of files in the folder; None removes a file."""


class ServerEditor:
    """Changes the servers of one store; `folder` is the watched folder."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder

    def definition(self, name: str, kind: str, source: bytes, base: str | None, who: str, why: str) -> str:
        """Save these bytes as a server's definition; returns the new root.

        `base` is the CID of the definition that the author started from, None for a new server. Raises StaleUpdate when
        the server has another one, InvalidParams for an invalid name.
        """
        now = self._row(name)
        if now is None:
            self._check_new(name)
        if (now.definition_cid if now else None) != base:
            there = "a server of this name exists already" if base is None else "another definition was saved meanwhile"
            raise StaleUpdate(f"{name} was not saved: {there}. Your text is still here")
        cid = self._store.blobs.put(source)
        row = replace(now, definition_cid=cid) if now else ServerRow(name, kind, cid)
        seen = {SERVERS + name: self._store.blobs.put(now.to_json()) if now else None}
        return self.names({SERVERS + name: self._store.blobs.put(row.to_json())}, who, why, seen)

    def configuration_file(self, name: str, data: bytes, base: str, who: str, why: str) -> None:
        """Write the file of a server that its configuration alone describes, such as a mount.

        The file is imported as the watcher of the folder would import it, so that it counts as the operator's; the
        history names `who` in its reason. `base` is the CID of the definition that the author started from. Raises
        StaleUpdate when the server has another one, and Refused for a server without a file of its own or when the file
        cannot be written.
        """
        with _LOCK, lock_folder(self._folder):
            mark, now = drop_ins(self._store).get(name), self._row(name)
            if mark is None:
                raise Refused(
                    f"{name} has no file in the servers folder: save its configuration as servers/{name}.json"
                )
            if is_part(self._store.blobs.get(mark.definition_cid)):
                raise Refused(
                    f"{name} was not changed: it is described in {mark.file}, in the form of MCP clients; edit that"
                )
            if now is None or now.definition_cid != base:
                raise StaleUpdate(f"{name} was not saved: another configuration was saved meanwhile")
            self._check_imported(name, mark)
            written = self._with_paths(mark.file, data)
            self._write({mark.file: written})
            self._import(now, mark, written, f"saved {mark.file} for {who}: {why}")

    def import_new_file(self, name: str, file: Path, who: str, why: str) -> None:
        """Import the file of a new server that its configuration alone describes, as `configuration_file` does.

        Leaves a file that the watcher was first to import.
        """
        with _LOCK, lock_folder(self._folder):
            if name in drop_ins(self._store) or not file.is_file():
                return
            row = ServerRow(name, next(one.name for one in known_kinds() if file.suffix in one.endings), "")
            mark = DropIn(file.name, "", self._store.names.get(SERVERS + name))
            self._import(row, mark, file.read_bytes(), f"saved {file.name} for {who}: {why}")

    def _import(self, row: ServerRow, mark: DropIn, data: bytes, why: str) -> None:
        """Import a file that was just written, with a reason that names its author.

        The author of the move is the folder, exactly as when the watcher imports the same bytes: who is trusted does
        not depend on which of the two is first. What cannot be imported is left to the watcher, which says why.
        """
        try:
            if read_client_file(data, mark.file) is not None:
                return
            stored = ReferencedFiles(self._folder, self._store.blobs).resolve_scripts(mark.file, data)
        except ContentError:
            return
        cid = self._store.blobs.put(stored)
        made = self._store.blobs.put(replace(mark, definition_cid=cid).to_json())
        self._store.names.move({DROP_INS + row.name: made}, AUTHOR, why)
        changed = self._store.blobs.put(replace(row, definition_cid=cid).to_json())
        change_names(self._store, {SERVERS + row.name: changed}, AUTHOR, why)

    def names(
        self, wanted: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None] | None = None
    ) -> str:
        """Point names (`servers/...`, `variables/...`, `templates/...`) to other CIDs, files included; returns the
        root.

        With `expected`, the change is made only if these names still point there. Raises StaleUpdate when they do not,
        Refused when a file cannot be written; ConfigError and MissingBlob like `boot.change_names`.
        """
        with _LOCK, lock_folder(self._folder):
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
            if (
                full.startswith(SERVERS)
                and name in known
                and is_part(self._store.blobs.get(known[name].definition_cid))
            ):
                self._check_part(name, known[name], cid)
            elif full.startswith(SERVERS) and name in known:
                self._check_imported(name, known[name])
                made, mark = self._plan_files(name, known[name], cid)
                files |= made
                marks[DROP_INS + name] = mark
        self._check_contents(wanted)
        self._write(files)
        self._store.names.move({mark: cid for mark, cid in marks.items() if cid}, who, why)
        # The watcher of a file may already have moved the name to the same place.
        root = change_names(self._store, wanted, who, why, {} if files else expected)
        # Last, so that a hub that stops in between removes the servers after its restart.
        self._store.names.move({mark: cid for mark, cid in marks.items() if cid is None}, who, why)
        return root

    def _check_part(self, name: str, mark: DropIn, cid: str | None) -> None:
        """Check that a change leaves the definition of a server in a file for MCP clients. Raises Refused."""
        row = parse_row(name, self._store.blobs.get(cid)) if cid is not None else None
        if row is None or row.definition_cid != mark.definition_cid:
            raise Refused(
                f"{name} was not changed: it is described in {mark.file}, in the form of MCP clients; edit that"
            )

    def _plan_files(self, name: str, mark: DropIn, cid: str | None) -> tuple[Files, str | None]:
        """Return the files to write so that a drop-in gets this row, and the new mark of the drop-in."""
        files: Files = {mark.file: None}
        if mark.file.endswith(tuple(code_endings())):
            files[name + CONFIG_ENDING] = None
        if cid is None or cid == mark.base:
            return files, None
        row = parse_row(name, self._store.blobs.get(cid))
        if not is_from_operator(self._store, row) and reaches_outside(self._store.blobs.get(row.definition_cid)):
            # The watcher could be faster than the move of the name, and counts as the operator.
            raise Refused(
                f"{name} was not saved: write a definition that mounts a server or a folder into its file by hand"
            )
        file = name + kind_named(row.kind).endings[0]
        files[file] = self._store.blobs.get(row.definition_cid)
        if not row.is_configuration and row.config_cid == self._config_cid(name, mark.file):
            files.pop(name + CONFIG_ENDING, None)
        elif not row.is_configuration:
            files[name + CONFIG_ENDING] = self._store.blobs.get(row.config_cid) if row.config_cid else None
        made = DropIn(file, row.definition_cid, mark.base)
        return files, self._store.blobs.put(made.to_json())

    def _check_imported(self, name: str, mark: DropIn) -> None:
        """Raise StaleUpdate for files that are not imported yet, so that they are not overwritten."""
        now = self._row(name)
        seen: dict[str, tuple[str | None, str | None]] = {
            mark.file: (self._file_cid(mark.file), mark.definition_cid),
        }
        if mark.file.endswith(tuple(code_endings())):
            seen[name + CONFIG_ENDING] = (self._config_cid(name, mark.file), now.config_cid if now else None)
        for file, (there, known) in seen.items():
            if there is not None and there != known:
                raise StaleUpdate(f"the file {file} was saved just now and is not imported yet; nothing was changed")

    def _file_cid(self, file: str) -> str | None:
        """Return the CID of a file's content as the watcher stores it; None without a readable file."""
        try:
            data = (self._folder / file).read_bytes()
            if file.endswith(".json"):
                data = ReferencedFiles(self._folder, self._store.blobs).resolve_scripts(file, data)
            return cid_of(data)
        except (OSError, ContentError):
            return None

    def _with_paths(self, file: str, data: bytes) -> bytes:
        """Return a new configuration with the paths of scripts that its file has. Raises Refused."""
        try:
            before = (self._folder / file).read_bytes()
            return ReferencedFiles(self._folder, self._store.blobs).keep_paths(file, data, before)
        except OSError:
            return data
        except ConfigError as problem:
            raise Refused(f"at {problem.path}: {problem.expected}; nothing was saved") from problem

    def _config_cid(self, name: str, file: str) -> str | None:
        """Return the CID of the configuration of a definition's file, as the watcher stores it."""
        config, references = name + CONFIG_ENDING, ReferencedFiles(self._folder, self._store.blobs)
        try:
            own = self._config_bytes(config)
            stored = self._store.blobs.put(references.resolve(config, with_auto_discover(own))) if own else None
            references.note_apps(file, (self._folder / file).read_bytes())
            return references.add_apps(file, stored)
        except (OSError, ContentError):
            return None

    def _config_bytes(self, config: str) -> bytes | None:
        try:
            return (self._folder / config).read_bytes()
        except FileNotFoundError:
            return None

    def _check_contents(self, wanted: Mapping[str, str | None]) -> None:
        """Check that the contents exist before any file is changed. Raises MissingBlob."""
        for cid in wanted.values():
            if cid is not None:
                self._store.blobs.get(cid)

    def _write(self, files: Files) -> None:
        # Write before deleting, so that a failure deletes nothing.
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
    """Replace a file atomically; the watcher ignores the temporary file."""
    between = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        between.write_bytes(data)
        if path.exists():
            between.chmod(path.stat().st_mode & 0o777)
        between.replace(path)
    finally:
        between.unlink(missing_ok=True)
