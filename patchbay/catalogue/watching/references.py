"""Transforms, apps and scripts that a drop-in names by a path: the path is replaced by the CID of the file.

A path leads from the watched folder to a file below it. The stored configuration contains the CID of the content, so
that its own CID covers everything that is served. The watcher asks `signatures` whether one of these files changed.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from os.path import normpath
from pathlib import Path, PurePath

import orjson

from patchbay.catalogue.watching.app_files import find_apps, with_apps
from patchbay.cid import is_cid
from patchbay.errors import ConfigError, ParseError
from patchbay.jsonrpc import parse_file
from patchbay.kind import known_kinds
from patchbay.python_functions.script_texts import CID_PREFIX, is_script_path, scripts_of, with_scripts
from patchbay.store import Blobs

TRANSFORM_FIELD_ENDING = "_transform_cid"
"""Ending of the configuration fields that name a transform."""

MAX_TRANSFORM_BYTES = 1024 * 1024
"""Bytes of a transform or an app."""

DISCOVERED = b'{"auto_discover": true}'
"""The configuration of a definition with apps that has none of its own."""

APP = "an HTML file below the folder of the servers"

Signature = tuple[int, int, int, int]
"""Identifies a state of a file: its times, size and inode."""


class ReferencedFiles:
    """The transforms, apps and scripts that the drop-ins of one folder name by a path."""

    def __init__(self, folder: Path, blobs: Blobs) -> None:
        self._folder = folder
        self._blobs = blobs
        self._named: dict[str, tuple[str, ...]] = {}
        self._apps: dict[str, dict[str, str]] = {}
        self._scripts: dict[str, frozenset[str]] = {}

    def signatures(self, file: str) -> Mapping[str, Signature | None]:
        """Return the state of each file that a drop-in named at its last read; None for a missing file."""
        return {path: self._signature(path) for path in self._named.get(file, ())}

    def all_signatures(self, files: Container[str]) -> dict[str, Mapping[str, Signature | None]]:
        """Return the state of the files that each drop-in names; drop-ins that name no file are left out."""
        return {file: self.signatures(file) for file, paths in self._named.items() if paths and file in files}

    def folders(self) -> list[Path]:
        """Return the folders of the named files."""
        return sorted(
            {(self._folder / path).parent for paths in self._named.values() for path in paths} - {self._folder}
        )

    def resolve(self, config: str, data: bytes) -> bytes:
        """Replace the path of each transform and each app in a configuration by its CID. Raises ConfigError.

        Data that is not a JSON object stays as it is: the parser of configurations refuses it.
        """
        try:
            fields = parse_file(data)
        except ParseError:
            fields = None
        if not isinstance(fields, dict):
            self._named[config] = ()
            return data
        paths, apps = self._paths(fields), find_apps(fields, config)
        self._named[config] = (*paths.values(), *apps.values())
        if not paths and not apps:
            return data
        fields |= {key: self._store_file(config, key, path, "a CID or a Python file") for key, path in paths.items()}
        pages = {path: self._store_file(config, f"tools.{name}.ui", path, APP) for name, path in apps.items()}
        return orjson.dumps(with_apps(fields, apps, pages) if apps else fields)

    def note_apps(self, file: str, source: bytes) -> None:
        """Store the files that a definition names as its apps. Raises ConfigError."""
        ending = PurePath(file).suffix
        paths = next((kind.app_files(source) for kind in known_kinds() if ending in kind.endings), ())
        self._named[file], self._apps[file] = paths, {}
        self._apps[file] = {path: self._store_file(file, "UI", path, APP) for path in paths}

    def resolve_scripts(self, file: str, data: bytes) -> bytes:
        """Replace the path of each script in the definition of a toolset by `cid://` and its CID. Raises ConfigError.

        Data that is not a JSON object stays as it is.
        """
        try:
            fields = parse_file(data)
        except ParseError:
            fields = None
        paths = {name: path for name, path in scripts_of(fields).items() if is_script_path(path)}
        self._named[file] = tuple(paths.values())
        self._scripts[file] = frozenset(map(normpath, paths.values()))
        if not paths:
            return data
        found = {
            name: f"{CID_PREFIX}{self._store_file(file, f'tools.{name}.script', path, 'the text, the CID or the file')}"
            for name, path in paths.items()
        }
        return orjson.dumps(with_scripts(fields, found), option=orjson.OPT_INDENT_2) + b"\n"

    def scripts(self, files: Container[str]) -> frozenset[str]:
        """Return the paths of the scripts that these drop-ins name: such a file is no server of its own."""
        return frozenset[str]().union(*(paths for file, paths in self._scripts.items() if file in files))

    def keep_paths(self, file: str, data: bytes, before: bytes) -> bytes:
        """Return the new text of a file with the paths of scripts that the text `before` has.

        Raises ConfigError for a script that is in a file and would be another one.
        """
        try:
            fields, known = parse_file(data), parse_file(before)
        except ParseError:
            return data
        now = scripts_of(fields)
        paths = {name: path for name, path in scripts_of(known).items() if is_script_path(path) and name in now}
        for name, path in paths.items():
            stored = self._store_file(file, f"tools.{name}.script", path, "a file")
            if now[name] not in (path, f"{CID_PREFIX}{stored}"):
                raise ConfigError(
                    file, f"tools.{name}.script", f"expected no other script: it is the file {path}; edit that"
                )
        return orjson.dumps(with_scripts(fields, paths), option=orjson.OPT_INDENT_2) + b"\n" if paths else data

    def files_with_apps(self) -> frozenset[str]:
        """Return the definitions that name files as their apps."""
        return frozenset([file for file, apps in self._apps.items() if apps])

    def add_apps(self, file: str, config: str | None) -> str | None:
        """Return the CID of a definition's configuration with the apps that the definition names.

        `config` is the CID of its configuration, None without one. Raises ContentError.
        """
        apps = self._apps.get(file)
        if not apps:
            return config
        try:
            fields = parse_file(self._blobs.get(config) if config is not None else DISCOVERED)
        except ParseError:
            return config  # the parser of configurations refuses it
        return self._blobs.put(orjson.dumps(with_apps(fields, {}, apps))) if isinstance(fields, dict) else config

    def _paths(self, fields: Mapping[str, object]) -> dict[str, str]:
        named = {
            key: value
            for key, value in fields.items()
            if key.endswith(TRANSFORM_FIELD_ENDING) and isinstance(value, str)
        }
        return {key: path for key, path in named.items() if path.endswith(".py") and not is_cid(path)}

    def _store_file(self, config: str, key: str, path: str, what: str) -> str:
        """Store a file's content and return its CID."""
        try:
            file = (self._folder / path).resolve()
            inside = file.is_relative_to(self._folder.resolve())
            if inside and not file.is_file():
                raise ConfigError(config, key, f"expected {what}; there is no file {path}")
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
