"""Files of mounts in the watched folder: `NAME.json`, checked before anything is written, written atomically.

A mount is an MCP server (`"kind": "upstream"`) or an HTTP API (`"kind": "openapi"`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from patchbay.catalogue.rows import name_problem
from patchbay.config import parse_config
from patchbay.errors import ConfigError
from patchbay.kind import code_endings
from patchbay.kinds.mount.configuration import mount_of
from patchbay.kinds.mount.kind import KIND as UPSTREAM
from patchbay.kinds.openapi.kind import KIND as OPENAPI


def write_mount(folder: Path, name: str, fields: Mapping[str, Any], replace: bool, how: str = "--replace") -> Path:
    """Write the file of a mount and return its path. `replace` allows replacing another mount.

    `how` tells the reader how to replace one. Raises ConfigError before anything is written.
    """
    problem = name_problem(name)
    if problem:
        raise ConfigError("NAME", "", problem)
    file = folder / f"{name}.json"
    text = json.dumps(fields, indent=2, ensure_ascii=False).encode() + b"\n"
    checked = parse_config(text, file.name)
    if checked["kind"] == UPSTREAM.name:
        mount_of(name, checked, file.name)
    for other in (folder / f"{name}{ending}" for ending in code_endings()):
        if other.exists():
            raise ConfigError(str(other), "", f"expected no server {name} yet: give the mount another name")
    if file.exists() and not (replace and is_mount(file)):
        raise ConfigError(str(file), "", f"expected no server {name} yet; {how} replaces a mount")
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{name}.json.{os.getpid()}"
    fresh.write_bytes(text)
    fresh.replace(file)
    return file


def is_mount(file: Path) -> bool:
    """Whether a file of the folder describes a mount."""
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(found, dict) and found.get("kind") in (UPSTREAM.name, OPENAPI.name)
