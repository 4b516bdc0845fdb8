"""What the files of the watched folder are, and what changes in the store because of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from patchbay.catalogue.servers.rows import ServerRow
from patchbay.topics import DROP_INS, SERVERS

MAX_NAMED_FILES = 10
"""Maximum number of files that one entry of the history names."""


@dataclass(frozen=True, slots=True)
class WantedServer:
    """The server that a file describes."""

    file: str
    row: ServerRow


@dataclass(slots=True)
class FolderChanges:
    """The result of one scan: names to move with their CIDs, and the files concerned."""

    rows: dict[str, str | None] = field(default_factory=dict)
    marks: dict[str, str | None] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def save(self, name: str, file: str, mark: str, row: str) -> None:
        """Record that a file is a server from now on."""
        self.rows[SERVERS + name], self.marks[DROP_INS + name] = row, mark
        self.files["saved"].append(file)

    def remove(self, name: str, file: str, rows: Mapping[str, str | None]) -> None:
        """Record that a file was removed; `rows` are the rows to restore."""
        self.rows |= rows
        self.gone.append(DROP_INS + name)
        self.files["removed"].append(file)

    def why(self) -> str:
        """Return the reason for the history: the files, or the first of them."""
        return "; ".join(f"{verb} {_join_names(files)}" for verb, files in self.files.items())


def _join_names(files: list[str]) -> str:
    more = len(files) - MAX_NAMED_FILES
    return ", ".join(files[:MAX_NAMED_FILES]) + (f" and {more} more" if more > 0 else "")
