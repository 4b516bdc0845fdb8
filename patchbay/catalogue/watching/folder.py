"""The watched folder: a saved file becomes a server, a removed file removes its server.

    hello.py, hello.sh     a server with code; hello.mcp.json beside it is its configuration
    hello.json             a server without code; a script that a toolset names by its path is no server
    clients.json           the servers of its section `mcpServers` or `servers`, as MCP clients write it

The folder is scanned after each change that the kernel reports (`following.py`). A file is imported when two scans
agree and no program is writing it (`settling.py`), and is read only after its size, time or inode changed. The file
decides the definition, the store decides whether the server is enabled. Only regular files inside the folder are read;
links are followed to those (`links.py`).
Importing the same state twice changes nothing, so several processes may watch one folder.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from patchbay.boot import change_names
from patchbay.catalogue.servers.rows import RowReader, ServerRow, name_problem
from patchbay.catalogue.watching.client_files import ClientFile, name_part, read_client_file
from patchbay.catalogue.watching.drop_ins import DropIn, DropInReader
from patchbay.catalogue.watching.folder_changes import FolderChanges, WantedServer
from patchbay.catalogue.watching.folder_lock import lock_folder
from patchbay.catalogue.watching.following import POLL_SECONDS, SECOND_SCAN_SECONDS
from patchbay.catalogue.watching.links import open_inside
from patchbay.catalogue.watching.listing import MAX_FILE_BYTES, list_files
from patchbay.catalogue.watching.references import ReferencedFiles
from patchbay.catalogue.watching.settling import (
    CONFIG_ENDING,
    ScanComparison,
    Signature,
    ending_of,
    server_of,
)
from patchbay.config import lists_tools
from patchbay.errors import ConfigError, ContentError, ParseError
from patchbay.jsonrpc import parse_file, without_mark
from patchbay.kind import code_endings, known_kinds
from patchbay.store import Store
from patchbay.topics import SERVERS

log = logging.getLogger(__name__)

AUTHOR = "servers/"
MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Bytes of files in memory from which on they are stored, in one transaction."""


class FolderState(NamedTuple):
    """What one scan found: files that do not wait and why others are refused, what waits, files that drop-ins name,
    and the rows of the store.
    """

    files: Mapping[str, Signature]
    refused: Mapping[str, str]
    waiting: frozenset[str]
    signatures: Mapping[str, object]
    rows: Mapping[str, str]

    def without(self, waiting: frozenset[str]) -> FolderState:
        """Return what a scan finds if nothing has changed since this one except that these servers wait."""
        if not self.waiting <= waiting or not waiting:
            return self
        files = {file: signature for file, signature in self.files.items() if server_of(file) not in waiting}
        signatures = {file: found for file, found in self.signatures.items() if file in files}
        return self._replace(files=files, signatures=signatures, waiting=waiting)


class WatchedFolder:
    """Keeps the store in step with a folder. `refused` maps each file that is not a valid server to the reason."""

    every = POLL_SECONDS
    """Seconds between two scans where the kernel reports no changes."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self._seen: FolderState | None = None
        self._links: dict[str, Path] = {}
        self._cids: dict[str, tuple[object, dict[str, str]]] = {}
        self._client_files: dict[str, ClientFile] = {}
        self._references = ReferencedFiles(path, store.blobs)
        self._rows = RowReader(store.blobs)
        self._drop_ins = DropInReader(store)
        self._described: dict[str, tuple[object, WantedServer]] = {}
        self._agreed: dict[str, tuple[object, ...]] = {}
        self._settling = ScanComparison(path)
        self._waiting: frozenset[str] = frozenset()
        self._unreadable = ""
        self._scanning = threading.Lock()
        self.refused: Mapping[str, str] = {}

    def check(self) -> None:
        """Warn at the start when the folder is missing. Raises ConfigError when the path is something else."""
        if not self._path.exists():
            log.warning("the servers folder %s does not exist; create it, and the hub watches it", self._path)
        elif not self._path.is_dir():
            raise ConfigError("the setting servers", "", f"expected a folder; {self._path} is something else")

    def start(self) -> bool:
        """Scan twice when files were saved just before, so that they are served at once; return whether anything
        changed.
        """
        changed = self.scan()
        if self._waiting:
            time.sleep(SECOND_SCAN_SECONDS)
            changed |= self.scan()
        return changed

    def folders(self) -> list[Path]:
        """Return the folders to watch: this one, and those of linked files, transforms and apps."""
        linked = {target.parent for target in self._links.values()} - {self._path.resolve()}
        return [self._path, *sorted({*self._references.folders(), *linked})]

    def is_unsettled(self) -> bool:
        """Whether the last scan found files that the next one has to confirm."""
        return bool(self._waiting)

    def scan(self) -> bool:
        """Scan once; return whether anything changed. A difference from the scan before waits for the next one.

        The watcher scans, and so does a page after a change: one of them at a time, because each goes on from the
        scan before.
        """
        with self._scanning:
            return self._scan_once()

    def _scan_once(self) -> bool:
        refused: dict[str, str] = {}
        try:
            files, self._links = list_files(self._path, refused)
        except OSError as problem:
            return self._log_unreadable(problem)
        self._unreadable = ""
        self._waiting = self._settling.compare(files)
        if self._waiting:
            files = {file: signature for file, signature in files.items() if server_of(file) not in self._waiting}
        now = FolderState(files, dict(refused), self._waiting, self._references.all_signatures(files), self._rows_now())
        if self._seen is not None and now == self._seen.without(self._waiting):
            return False
        with lock_folder(self._path):
            now = self._without_changed(now)
            wanted = self._wanted_servers(now, refused)
            has_moved = self._apply(self._find_changes(wanted, now.rows), refused)
        for file in refused.keys() - self.refused.keys():
            log.warning("%s%s is not served: %s", SERVERS, file, refused[file])
        changed = has_moved or refused != self.refused
        self.refused = refused
        # The drop-ins that were just read determine the files to check.
        signatures = self._references.all_signatures(now.files)
        self._seen = now._replace(signatures=signatures, rows=self._rows_now() if has_moved else now.rows)
        return changed

    def _without_changed(self, now: FolderState) -> FolderState:
        """Return a state with the rows of now, without the files that were changed since it was made: they wait.

        The caller holds the lock of the folder.
        """
        try:
            files, _ = list_files(self._path, {})
        except OSError:
            files = {}
        listed = {file: signature for file, signature in files.items() if server_of(file) not in self._waiting}
        self._waiting |= {server_of(file) for file, _ in now.files.items() ^ listed.items()}
        return now._replace(rows=self._rows_now()).without(self._waiting)

    def _rows_now(self) -> dict[str, str]:
        return self._store.names.all(SERVERS)

    def _log_unreadable(self, problem: OSError) -> bool:
        """Keep the servers while the folder cannot be read, and log it once."""
        if self._unreadable != str(problem):
            self._unreadable = str(problem)
            log.warning("the folder %s cannot be read: %s", self._path, problem.strerror)
        return False

    def _wanted_servers(self, now: FolderState, refused: dict[str, str]) -> dict[str, WantedServer]:
        """Return the servers that the files describe, by name."""
        wanted: dict[str, WantedServer] = {}
        files = now.files
        self._store_files(now, refused)
        kinds = {ending: kind for kind in known_kinds() for ending in kind.endings}
        ranks = {ending: rank for rank, ending in enumerate(kinds)}
        cids = {file: stored[""] for file, (_, stored) in self._cids.items() if "" in stored}
        codes, with_apps = code_endings(), self._references.files_with_apps()
        scripts = self._references.scripts(files)
        described, self._described = self._described, {}
        for _, file in sorted([(ranks[ending_of(file)], file) for file in files]):
            if file.endswith(CONFIG_ENDING):
                beside = [file.removesuffix(CONFIG_ENDING) + ending for ending in codes]
                if files.keys().isdisjoint(beside):
                    refused[file] = (
                        f"expected {' or '.join(beside)} beside it, because this file is only a configuration"
                    )
                continue
            if file in self._client_files or file in scripts:
                continue
            name, kind = server_of(file), kinds[ending_of(file)]
            problem = name_problem(name)
            if name in wanted:
                problem = f"{wanted[name].file} is the server {name} already: rename one of the two"
            elif problem is None:
                config = name + CONFIG_ENDING
                definition = cids.get(file)
                own = cids.get(config) if config in files and not kind.is_configuration else None
                if not kind.is_configuration and config in refused:
                    # Without its configuration, more tools could be listed than its author wants.
                    problem = f"its configuration {config} cannot be used: {refused[config]}"
                elif definition is not None:
                    found = definition, self._references.add_apps(file, own) if file in with_apps else own
                    known = described.get(file)
                    if known is None or known[0] != found:
                        known = found, WantedServer(file, ServerRow(name, kind.name, *found))
                    self._described[file] = known
                    wanted[name] = known[1]
            if problem:
                refused[file] = problem
        self._add_client_files(files, wanted, refused)
        return wanted

    def _add_client_files(
        self, files: Mapping[str, Signature], wanted: dict[str, WantedServer], refused: dict[str, str]
    ) -> None:
        """Add the servers of the files for MCP clients; a server with a file of its own comes first."""
        kind = next(kind for kind in known_kinds() if ".json" in kind.endings)
        for file in sorted(self._client_files.keys() & files.keys()):
            found = self._client_files[file]
            refused |= {name_part(file, path): reason for path, reason in found.problems.items()}
            for name, cid in self._cids[file][1].items():
                if name in wanted:
                    taken = f"{wanted[name].file} is the server {name} already: rename one of the two"
                    refused[name_part(file, name)] = taken
                else:
                    wanted[name] = WantedServer(file, ServerRow(name, kind.name, cid))

    def _store_files(self, now: FolderState, refused: dict[str, str]) -> None:
        """Store the bytes of new and changed files, many in one transaction.

        A name moves only after the bytes it needs are stored. A hub that is killed in between leaves contents without a
        name, which the collection of blobs deletes.
        """
        batch: dict[tuple[str, str], bytes] = {}
        size = 0
        for file, signature in now.files.items():
            known = self._cids.get(file)
            if known is not None and known[0] == (signature, now.signatures.get(file)):
                continue
            self._cids.pop(file, None)
            self._client_files.pop(file, None)
            data = self._read(file, refused)
            if data is not None:
                self._cids[file] = ((signature, self._references.signatures(file) or None), {})
                found = self._client_files.get(file)
                batch |= {(file, name): one for name, one in (found.definitions if found else {"": data}).items()}
                size += len(data)
            if size > MAX_BATCH_BYTES:
                self._store_batch(batch)
                batch, size = {}, 0
        self._store_batch(batch)

    def _store_batch(self, batch: Mapping[tuple[str, str], bytes]) -> None:
        try:
            stored = self._store.blobs.put_many(batch.values())
        except BaseException:
            for file, _ in batch:
                self._cids.pop(file, None)
            raise
        for (file, name), cid in zip(batch, stored, strict=True):
            self._cids[file][1][name] = cid

    def _read(self, file: str, refused: dict[str, str]) -> bytes | None:
        """Return a file's bytes in their stored form; None when it cannot be read."""
        try:
            with os.fdopen(open_inside(self._path, file, self._links.get(file)), "rb") as opened:
                data = opened.read(MAX_FILE_BYTES + 1)
        except OSError as problem:
            refused[file] = f"it cannot be read: {problem.strerror}"
            return None
        if len(data) > MAX_FILE_BYTES:
            refused[file] = f"expected at most {MAX_FILE_BYTES} bytes"
            return None
        try:
            if ending_of(file) == ".json":
                data = without_mark(data)
            if file.endswith(CONFIG_ENDING):
                return self._references.resolve(file, with_auto_discover(data))
            self._references.note_apps(file, data)
            found = read_client_file(data, file) if file.endswith(".json") else None
            if file.endswith(".json") and found is None:
                data = self._references.resolve_scripts(file, data)
        except ConfigError as problem:
            refused[file] = f"{problem.path}: {problem.expected}"
            return None
        except ParseError as problem:
            refused[file] = problem.message
            return None
        if found is not None:
            self._client_files[file] = found
        return data

    def _find_changes(self, wanted: Mapping[str, WantedServer], rows: Mapping[str, str]) -> FolderChanges:
        """Return the moves that make the store agree with the folder. `rows` were read before this call.

        Rows are read before marks, the reverse of the order of writing: a reader that sees a row that another process
        made of a file then sees its mark too, and does not take the row for the one that the file replaced.
        """
        known, moves = self._drop_ins.all(), FolderChanges()
        made: dict[str, tuple[DropIn, ServerRow]] = {}
        self._rows.forget_all_but(wanted.keys() | known.keys())
        for name, found in known.items():
            if name not in wanted and name not in self._waiting and server_of(found.file) not in self._waiting:
                now = self._row(name, rows)
                ours = now is not None and now.definition_cid == found.definition_cid
                moves.remove(name, found.file, {SERVERS + name: found.base} if ours else {})
        agreed, self._agreed = self._agreed, {}
        for name, want in wanted.items():
            state = want, rows.get(SERVERS + name), known.get(name)
            if agreed.get(name) != state:
                now, before = self._row(name, rows), known.get(name)
                ours = before is not None and now is not None and now.definition_cid == before.definition_cid
                row = replace(want.row, enabled=now.enabled) if ours and now else want.row
                mark = DropIn(want.file, row.definition_cid, before.base if ours and before else state[1])
                if now != row or before != mark:
                    made[name] = mark, row
                    continue
            self._agreed[name] = state
        stored = iter(self._store.blobs.put_many(each.to_json() for pair in made.values() for each in pair))
        for name, mark_cid, row_cid in zip(made, stored, stored, strict=True):
            moves.save(name, wanted[name].file, mark_cid, row_cid)
        return moves

    def _apply(self, moves: FolderChanges, refused: dict[str, str]) -> bool:
        """Make all moves as one change; return whether there were any. Files of an impossible change are refused."""
        if not moves.files:
            return False
        names, why = self._store.names, moves.why()
        names.move(moves.marks, AUTHOR, why)
        try:
            if moves.rows:
                change_names(self._store, moves.rows, AUTHOR, why)
        except ContentError as problem:
            refused |= dict.fromkeys(moves.files["saved"], problem.message)
            return True
        if moves.gone:  # last, so that a hub that stops in between removes the servers after its restart
            names.move(dict.fromkeys(moves.gone), AUTHOR, why)
        return True

    def _row(self, name: str, rows: Mapping[str, str]) -> ServerRow | None:
        cid = rows.get(SERVERS + name)
        try:
            return self._rows.read(name, cid) if cid else None
        except ContentError:
            return None


def with_auto_discover(data: bytes) -> bytes:
    """Return a drop-in's configuration with `auto_discover` added, unless it says itself what it lists.

    The stored text contains it, so that a version or an exported image means the same as the folder.
    """
    try:
        config = parse_file(data)
    except ParseError:
        return data
    if not isinstance(config, dict) or "auto_discover" in config or lists_tools(config):
        return data
    return b'{"auto_discover": true' + (b"," if config else b"") + data.lstrip()[1:]
