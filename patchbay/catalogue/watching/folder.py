"""The watched folder: a file saved there is a server, a file taken away takes its server with it.

    hello.py, hello.sh     a server with code; hello.mcp.json beside it is its configuration
    hello.json             a server without code

Rules: the folder is looked at twice a second; a file is served when two looks agree and no program is writing it
(`settling.py`), and read only where size, time or inode changed; the file is the truth, but whether its server is
enabled is not said in it; nothing but regular files inside the folder is read; the same state of the
folder twice changes nothing, so any number of processes may watch it.
Sources: DESIGN sections 2 and 5; THREATS 1.6 (regular files only).
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchbay.boot import change
from patchbay.catalogue.rows import ServerRow, name_problem, parse_row
from patchbay.catalogue.watching.drop_ins import DropIn, drop_ins
from patchbay.catalogue.watching.references import References
from patchbay.catalogue.watching.settling import CONFIG, Settling, Signature, is_temporary, server_of
from patchbay.config import lists_tools
from patchbay.errors import ConfigError, ContentError, ParseError
from patchbay.jsonrpc import parse
from patchbay.kind import code_endings, kind_of_file, known_kinds
from patchbay.store import Store
from patchbay.topics import DROP_INS, SERVERS

log = logging.getLogger(__name__)

WHO = "servers/"
EVERY = 0.5
"""Seconds between two looks."""

MAX_FILE_BYTES = 1024 * 1024
"""Bytes of the largest file that is read."""

NAMED = 10
"""How many files one entry of the history names."""

AGAIN_SECONDS = 0.05
"""Between the first two looks, when the hub starts."""


@dataclass(frozen=True, slots=True)
class WantedServer:
    """What a file makes of a server."""

    file: str
    row: ServerRow


@dataclass(slots=True)
class Moves:
    """What one look found to do: names to move by their CIDs, and the files it is about."""

    rows: dict[str, str | None] = field(default_factory=dict)
    marks: dict[str, str | None] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def save(self, name: str, file: str, mark: str, row: str) -> None:
        """A file is a server from now on."""
        self.rows[SERVERS + name], self.marks[DROP_INS + name] = row, mark
        self.files["saved"].append(file)

    def remove(self, name: str, file: str, rows: Mapping[str, str | None]) -> None:
        """A file is gone; `rows` is what stands there now."""
        self.rows |= rows
        self.gone.append(DROP_INS + name)
        self.files["removed"].append(file)

    def why(self) -> str:
        """The reason that the history shows: each file while they are few."""
        return "; ".join(f"{verb} {_listed(files)}" for verb, files in self.files.items())


class Folder:
    """Keeps the store in step with a folder. `refused` says which files are no servers, and why."""

    every = EVERY

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self._seen: tuple[object, ...] = ()
        self._cids: dict[str, tuple[object, str]] = {}
        self._references = References(path, store.blobs)
        self._settling = Settling(path)
        self._waiting: frozenset[str] = frozenset()
        self._unreadable = ""
        self.refused: Mapping[str, str] = {}

    def check(self) -> None:
        """Say once, at the start, that there is no folder. Raises ConfigError for a path that is something else."""
        if not self._path.exists():
            log.warning("there is no folder %s to watch for servers; make it, and it is watched", self._path)
        elif not self._path.is_dir():
            raise ConfigError("the setting servers", "", f"expected a folder; {self._path} is none")

    def start(self) -> bool:
        """Look twice where files were saved a moment ago, so that they are served at once; whether anything changed."""
        changed = self.scan()
        if self._waiting:
            time.sleep(AGAIN_SECONDS)
            changed |= self.scan()
        return changed

    def scan(self) -> bool:
        """Look once; whether anything changed. What differs from the look before waits for the next one."""
        refused: dict[str, str] = {}
        try:
            files = dict(self._files(refused))
        except OSError as problem:
            return self._cannot_look(problem)
        self._unreadable = ""
        self._waiting = self._settling.look(files)
        for file in [file for file in files if server_of(file) in self._waiting]:
            del files[file]
        state = (files, dict(refused), self._waiting)
        if (*state, self._named(files), self._store.names.all(SERVERS)) == self._seen:
            return False
        wanted = self._wanted(files, refused)
        changed = self._make(self._moves(wanted), refused)
        for file in refused.keys() - self.refused.keys():
            log.warning("%s%s is not served: %s", SERVERS, file, refused[file])
        changed |= refused != self.refused
        self.refused = refused
        # The configurations that were just read say which transforms they name.
        self._seen = (*state, self._named(files), self._store.names.all(SERVERS))
        return changed

    def _cannot_look(self, problem: OSError) -> bool:
        """Leave the servers as they are while the folder cannot be read, and say so once."""
        if self._unreadable != str(problem):
            self._unreadable = str(problem)
            log.warning("the folder %s cannot be read: %s", self._path, problem.strerror)
        return False

    def _files(self, refused: dict[str, str]) -> Iterator[tuple[str, Signature]]:
        """Regular files that could be servers, with what tells that they changed."""
        try:
            listed = sorted(os.scandir(self._path), key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        for entry in listed:
            if is_temporary(entry.name) or kind_of_file(entry.name) is None:
                continue
            try:
                found = entry.stat()
                inside = Path(entry.path).resolve().parent == self._path.resolve()
            except OSError as problem:
                refused[entry.name] = f"it cannot be read: {problem.strerror}"
                continue
            if not stat.S_ISREG(found.st_mode) or not inside:
                refused[entry.name] = "expected a regular file that lies in this folder"
            elif found.st_size > MAX_FILE_BYTES:
                refused[entry.name] = f"expected at most {MAX_FILE_BYTES} bytes; it has {found.st_size}"
            else:
                yield entry.name, (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)

    def _named(self, files: Mapping[str, Signature]) -> dict[str, object]:
        """The state of the transforms that configurations name by a path."""
        return {file: self._references.signatures(file) for file in files if file.endswith(CONFIG)}

    def _wanted(self, files: Mapping[str, Signature], refused: dict[str, str]) -> dict[str, WantedServer]:
        """The servers that the files make, by name."""
        wanted: dict[str, WantedServer] = {}
        endings = [ending for kind in known_kinds() for ending in kind.endings]
        for file in sorted(files, key=lambda file: endings.index(Path(file).suffix)):
            if file.endswith(CONFIG):
                beside = [file.removesuffix(CONFIG) + ending for ending in code_endings()]
                if not any(each in files for each in beside):
                    refused[file] = f"expected {' or '.join(beside)} beside it, which it would configure"
                continue
            name, kind = server_of(file), kind_of_file(file)
            assert kind is not None, f"{file} is no definition"
            problem = name_problem(name)
            if name in wanted:
                problem = f"{wanted[name].file} is the server {name} already: rename one of the two"
            elif problem is None:
                config = name + CONFIG
                definition = self._cid(file, files[file], refused)
                own = (
                    self._cid(config, files[config], refused) if config in files and not kind.is_configuration else None
                )
                if not kind.is_configuration and config in refused:
                    # Without it more could be listed than its author wants.
                    problem = f"its configuration {config} cannot be used: {refused[config]}"
                elif definition is not None:
                    wanted[name] = WantedServer(file, ServerRow(name, kind.name, definition, own))
            if problem:
                refused[file] = problem
        return wanted

    def _cid(self, file: str, signature: Signature, refused: dict[str, str]) -> str | None:
        """The CID of a file's bytes, which are kept; None when it could not be read."""
        known = self._cids.get(file)
        if known is not None and known[0] == (signature, self._references.signatures(file)):
            return known[1]
        try:
            with os.fdopen(os.open(self._path / file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
                data = opened.read(MAX_FILE_BYTES + 1)
        except OSError as problem:
            refused[file] = f"it cannot be read: {problem.strerror}"
            return None
        if len(data) > MAX_FILE_BYTES:
            refused[file] = f"expected at most {MAX_FILE_BYTES} bytes"
            return None
        try:
            data = self._references.resolve(file, discovering(data)) if file.endswith(CONFIG) else data
        except ConfigError as problem:
            refused[file] = f"{problem.path}: {problem.expected}"
            return None
        cid = self._store.blobs.put(data)
        self._cids[file] = (signature, self._references.signatures(file)), cid
        return cid

    def _moves(self, wanted: Mapping[str, WantedServer]) -> Moves:
        """What has to move so that the store says what the folder says."""
        # Rows before marks, the other way round than they are written: whoever sees a row that another process
        # made of a file sees its mark too, and does not take it for what stood there before.
        rows = self._store.names.all(SERVERS)
        known, moves = drop_ins(self._store), Moves()
        for name, found in known.items():
            if name not in wanted and name not in self._waiting:
                now = self._row(name, rows)
                ours = now is not None and now.definition_cid == found.definition_cid
                moves.remove(name, found.file, {SERVERS + name: found.base} if ours else {})
        for name, want in wanted.items():
            now, before = self._row(name, rows), known.get(name)
            ours = before is not None and now is not None and now.definition_cid == before.definition_cid
            row = replace(want.row, enabled=now.enabled) if ours and now else want.row
            base = before.base if ours and before else rows.get(SERVERS + name)
            made = DropIn(want.file, row.definition_cid, base)
            if now != row or before != made:
                put = self._store.blobs.put
                moves.save(name, want.file, put(made.encoded()), put(row.encoded()))
        return moves

    def _make(self, moves: Moves, refused: dict[str, str]) -> bool:
        """Make all moves as one change; whether there were any. Files of a change that is impossible are refused."""
        if not moves.files:
            return False
        names, why = self._store.names, moves.why()
        names.move(moves.marks, WHO, why)
        try:
            if moves.rows:
                change(self._store, moves.rows, WHO, why)
        except ContentError as problem:
            refused |= dict.fromkeys(moves.files["saved"], problem.message)
            return True
        # Last, so that a hub that ends in between takes the servers away when it is back.
        names.move(dict.fromkeys(moves.gone), WHO, why)
        return True

    def _row(self, name: str, rows: Mapping[str, str]) -> ServerRow | None:
        cid = rows.get(SERVERS + name)
        try:
            return parse_row(name, self._store.blobs.get(cid)) if cid else None
        except ContentError:
            return None


def _listed(files: list[str]) -> str:
    more = len(files) - NAMED
    return ", ".join(files[:NAMED]) + (f" and {more} more" if more > 0 else "")


def discovering(data: bytes) -> bytes:
    """A drop-in's configuration, which says that functions are listed unless it says how itself.

    It is put into the text, so that the version and an image that is taken elsewhere mean the same as the folder.
    """
    try:
        config = parse(data)
    except ParseError:
        return data
    if not isinstance(config, dict) or "auto_discover" in config or lists_tools(config):
        return data
    return b'{"auto_discover": true' + (b"," if config else b"") + data.lstrip()[1:]
