"""Files of mounts in the watched folder: `NAME.json`, checked before anything is written, written atomically.

A mount is an MCP server (`"kind": "upstream"`) or an HTTP API (`"kind": "openapi"`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from patchbay.catalogue.servers.rows import name_problem
from patchbay.client.applications.client_entries import UNUSED, is_client_entry, read_section, translate
from patchbay.client.applications.json_text import JsonText
from patchbay.config import parse_config
from patchbay.errors import ConfigError, ParseError
from patchbay.jsonrpc import parse_file, without_mark
from patchbay.kind import code_endings, configured_kind
from patchbay.upstreams.configuration import OPENAPI, UPSTREAM, mount_of


def write_mount(folder: Path, name: str, fields: Mapping[str, Any], replace: bool, how: str = "--replace") -> Path:
    """Write the file of a mount and return its path. `replace` allows replacing another mount.

    `how` tells the reader how to replace one. Raises ConfigError before anything is written.
    """
    problem = name_problem(name)
    if problem:
        raise ConfigError("NAME", "", problem)
    file = folder / f"{name}.json"
    text = check_mount(name, fields, file.name)
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


def check_name_is_free(folder: Path, name: str, taken: Collection[str], replace: bool) -> None:
    """Raise ConfigError when a hub that has the servers `taken` cannot mount one under this name.

    `replace` allows replacing a mount of the folder, and no server of another kind or of the boot image.
    """
    if name not in taken or (replace and is_mount(folder / f"{name}.json")):
        return
    why = ", which is no mount of the servers folder" if replace else ""
    raise ConfigError("the name", "", f"expected a new name: this hub has a server {name}{why}")


def check_mount(name: str, fields: Mapping[str, Any], where: str) -> bytes:
    """Return the text of the file of a mount. Raises ConfigError for fields that a mount cannot have."""
    text = json.dumps(fields, indent=2, ensure_ascii=False).encode() + b"\n"
    checked = parse_config(text, where)
    if checked["kind"] == UPSTREAM:
        mount_of(name, checked, where)
    return text


def is_mount(file: Path) -> bool:
    """Whether a file of the folder describes a mount."""
    try:
        found = parse_file(file.read_bytes())
    except (OSError, ParseError):
        return False
    kind = configured_kind(found)
    return kind is not None and kind[0].name in (UPSTREAM, OPENAPI)


def read_client_entry(file: Path, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of the mount NAME from a file in the form of MCP clients, and what is not used, with reasons.

    A file with one server describes NAME whatever its key is. Raises ConfigError.
    """
    try:
        value = JsonText().parse(without_mark(file.read_bytes()).decode())
    except OSError as problem:
        expected = f"expected a JSON file of an MCP client, but it cannot be read: {problem.strerror}; check its path"
        raise ConfigError(str(file.absolute()), "", expected) from problem
    except (ParseError, ValueError) as problem:
        raise ConfigError(str(file), "", f"expected a JSON file of an MCP client, but {problem}") from problem
    if not is_client_entry(value):
        expected = 'expected a server with "command" or "url", or servers in "mcpServers" or "servers"'
        raise ConfigError(str(file), "", expected)
    section = read_section(value)
    if section is not None and len(section[1]) > 1:
        if name not in section[1]:
            raise ConfigError(
                str(file), section[0], f"expected NAME to be one of {', '.join(section[1])}; it is {name}"
            )
        value = {section[0].rpartition(".")[2]: {name: section[1][name]}}
    fields = translate(value, str(file))
    return fields, fields.pop(UNUSED, {})
