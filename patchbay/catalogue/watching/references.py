"""Transforms that a drop-in's configuration names by a path: the path is replaced by the CID of the file.

A path leads from the watched folder to a file below it. The stored configuration contains the CID of the content, so
that its own CID covers everything that is served. The watcher asks `signatures` whether one of these files changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson

from patchbay.cid import is_cid
from patchbay.errors import ConfigError, ParseError
from patchbay.jsonrpc import parse_file
from patchbay.store import Blobs

TRANSFORM_FIELD_ENDING = "_transform_cid"
"""Ending of the configuration fields that name a transform."""

MAX_TRANSFORM_BYTES = 1024 * 1024

Signature = tuple[int, int, int, int]
"""Identifies a state of a file: its times, size and inode."""


class TransformPaths:
    """The transforms that the configurations of one folder name by a path."""

    def __init__(self, folder: Path, blobs: Blobs) -> None:
        self._folder = folder
        self._blobs = blobs
        self._named: dict[str, tuple[str, ...]] = {}

    def signatures(self, config: str) -> Mapping[str, Signature | None]:
        """Return the state of each file that a configuration named at its last read; None for a missing file."""
        return {path: self._signature(path) for path in self._named.get(config, ())}

    def folders(self) -> list[Path]:
        """Return the folders of the named files."""
        return sorted(
            {(self._folder / path).parent for paths in self._named.values() for path in paths} - {self._folder}
        )

    def resolve(self, config: str, data: bytes) -> bytes:
        """Replace the path of each transform in a configuration by its CID. Raises ConfigError.

        Data that is not a JSON object stays as it is: the parser of configurations refuses it.
        """
        try:
            fields = parse_file(data)
        except ParseError:
            fields = None
        paths = self._paths(fields) if isinstance(fields, dict) else {}
        self._named[config] = tuple(paths.values())
        if not paths:
            return data
        return orjson.dumps({**fields, **{key: self._store_file(config, key, path) for key, path in paths.items()}})

    def _paths(self, fields: Mapping[str, object]) -> dict[str, str]:
        named = {
            key: value
            for key, value in fields.items()
            if key.endswith(TRANSFORM_FIELD_ENDING) and isinstance(value, str)
        }
        return {key: path for key, path in named.items() if path.endswith(".py") and not is_cid(path)}

    def _store_file(self, config: str, key: str, path: str) -> str:
        """Store a file's content and return its CID."""
        try:
            file = (self._folder / path).resolve()
            inside = file.is_relative_to(self._folder.resolve())
            if inside and not file.is_file():
                raise ConfigError(config, key, f"expected a CID or the path of a Python file; there is no file {path}")
            if inside:
                with file.open("rb") as opened:
                    data = opened.read(MAX_TRANSFORM_BYTES + 1)
        except (OSError, ValueError) as problem:
            raise ConfigError(config, key, f"expected a file that can be read; {path}: {problem}") from problem
        if not inside:
            raise ConfigError(config, key, f"expected a path that stays in the folder of the servers; not {path}")
        if len(data) > MAX_TRANSFORM_BYTES:
            raise ConfigError(config, key, f"expected at most {MAX_TRANSFORM_BYTES} bytes in {path}")
        return self._blobs.put(data)

    def _signature(self, path: str) -> Signature | None:
        try:
            found = (self._folder / path).stat()
        except (OSError, ValueError):
            return None
        return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
