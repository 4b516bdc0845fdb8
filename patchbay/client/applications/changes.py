"""Changes of an application's file: planned in full, shown as a diff, then written atomically beside a dated backup.

Removal restores the bytes from before the installation: when a backup plus our entry gives the present bytes, the
backup is the result. Otherwise the entry is cut out of the present text, so that later edits of the user stay.
"""

from __future__ import annotations

import codecs
import difflib
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from patchbay.client.addresses.targets import MASK
from patchbay.client.applications.edits import Format, insert, read_servers, remove, remove_empty_section
from patchbay.client.profiles.files import replace_file
from patchbay.errors import ConfigError

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Bytes of the largest file that is read; Claude Code stores its whole state in one."""

MAX_BACKUPS = 5
"""Backups of one file; the oldest are deleted first."""

_BACKUP_MARK = ".patchbay-"
_BACKUP_END = ".bak"
_SECRET_VALUE = re.compile(
    r"(?i)([\w.-]*(?:secret|token|passw|credential|authorization|api[-_]?key|cookie)[\w.-]*[\"']?\s*[:=]\s*[\"'])([^\"'$]+)"
)


@dataclass(frozen=True, slots=True)
class Change:
    """A planned change. `path` is resolved; `before` is None without a file; `after` None deletes it."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def is_needed(self) -> bool:
        """Whether the file changes."""
        return self.before != self.after

    def diff(self) -> str:
        """Return the change as a unified diff, with the values of secrets masked."""
        old, new = (_lines(data) for data in (self.before, self.after))
        name = str(self.path)
        return "".join(_masked(line) for line in difflib.unified_diff(old, new, name, name))


@dataclass(frozen=True, slots=True)
class ServersFile:
    """The servers of one file: its path, its format and the section with the servers."""

    path: Path
    form: Format
    section: str

    def read(self) -> bytes | None:
        """Return the bytes of the file; None for a missing file. Raises ConfigError."""
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise ConfigError(str(self.path), "", f"expected a readable file ({problem.strerror})") from problem
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(str(self.path), "", f"expected at most {MAX_FILE_BYTES} bytes")
        return data

    def servers(self) -> dict[str, Any]:
        """Return the values of its servers by name. Raises ConfigError with line and column."""
        return read_servers(self.form, self.decode(self.read())[1], self.section, str(self.path))

    def decode(self, data: bytes | None) -> tuple[bytes, str]:
        """Return the byte order mark and the text of some bytes. Raises ConfigError for bytes that are not UTF-8."""
        data = data or b""
        mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        try:
            return mark, data[len(mark) :].decode("utf-8")
        except UnicodeDecodeError as problem:
            raise ConfigError(str(self.path), "", f"expected UTF-8 text; byte {problem.start} is not") from problem

    def plan_install(self, name: str, entry: Mapping[str, Any]) -> Change:
        """Plan to add an entry, or to replace the entry of this name. Raises ConfigError."""
        before = self.read()
        return Change(self.path.resolve(), before, self._with(before, name, entry))

    def plan_removal(self, name: str) -> Change:
        """Plan to remove an entry. Raises ConfigError."""
        before = self.read()
        mark, text = self.decode(before)
        present = read_servers(self.form, text, self.section, str(self.path))
        if before is None or name not in present:
            return Change(self.path.resolve(), before, before)
        former = [data for data in map(self._read_backup, list_backups(self.path.resolve())) if data is not None]
        for data in (*former, None):
            if self._gives(data, name, present[name], before):
                return Change(self.path.resolve(), before, data)
        text = remove(self.form, text, self.section, name, str(self.path))
        if former and self._lacked_section(former, name):
            text = remove_empty_section(self.form, text, self.section, str(self.path))
        return Change(self.path.resolve(), before, mark + text.encode())

    def _with(self, data: bytes | None, name: str, entry: Mapping[str, Any]) -> bytes:
        mark, text = self.decode(data)
        return mark + insert(self.form, text, self.section, name, entry, str(self.path)).encode()

    def _gives(self, data: bytes | None, name: str, entry: Any, present: bytes) -> bool:
        """Whether adding the entry to these bytes, which lack it, gives the present bytes."""
        try:
            text = self.decode(data)[1]
            lacks = name not in read_servers(self.form, text, self.section, "")
            return lacks and self._with(data, name, entry) == present
        except ConfigError:
            return False

    def _lacked_section(self, former: list[bytes], name: str) -> bool:
        """Whether the newest backup without the entry has no section either."""
        for data in former:
            try:
                whole = self.form.parse(self.decode(data)[1])
            except (ConfigError, ValueError):
                continue
            servers = whole.get(self.section)
            if not isinstance(servers, dict) or name not in servers:
                return self.section not in whole
        return False

    @staticmethod
    def _read_backup(path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except OSError:
            return None


def write_change(change: Change, has_secret: bool = False) -> Path | None:
    """Write a change; return the path of the backup, None when there was no file. Raises ConfigError.

    The file keeps its permissions. With `has_secret` only its owner can read it. Nothing is written when the file
    changed after the change was planned.
    """
    path = change.path
    try:
        if (path.read_bytes() if path.exists() else None) != change.before:
            raise ConfigError(str(path), "", "another program changed this file meanwhile; run the command again")
        backup = None
        mode = 0o600 if has_secret else 0o644
        if change.before is not None:
            present = stat.S_IMODE(path.stat().st_mode)
            mode = present & 0o600 if has_secret else present
            backup = _new_backup(path)
            replace_file(backup, change.before, present & 0o600)
        if change.after is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, change.after, mode)
        for old in list_backups(path)[MAX_BACKUPS:]:
            old.unlink(missing_ok=True)
    except OSError as problem:
        raise ConfigError(str(path), "", f"expected a file that can be written ({problem.strerror})") from problem
    return backup


def list_backups(path: Path) -> list[Path]:
    """List the backups of a file, the newest first."""
    if not path.parent.is_dir():
        return []
    start = path.name + _BACKUP_MARK
    found = [one for one in path.parent.iterdir() if one.name.startswith(start) and one.name.endswith(_BACKUP_END)]
    return sorted(found, key=lambda one: one.name, reverse=True)


def _new_backup(path: Path) -> Path:
    time = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S.%fZ")
    return path.with_name(f"{path.name}{_BACKUP_MARK}{time}{_BACKUP_END}")


def _lines(data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "replace").replace("\r\n", "\n")
    lines = text.splitlines(keepends=True)
    return [*lines[:-1], lines[-1] if lines[-1].endswith("\n") else lines[-1] + "\n"] if lines else []


def _masked(line: str) -> str:
    return _SECRET_VALUE.sub(lambda found: found[1] + MASK, line)
