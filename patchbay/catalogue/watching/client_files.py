"""Files for MCP clients in the watched folder: each server in `mcpServers` (or `servers`) becomes one of the hub.

The name of a server is its key, with the characters that a name can have. Comments and trailing commas are read, as in
the files of clients. A server with a literal secret is not read, because what is read is stored by its content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from patchbay.catalogue.servers.rows import name_problem
from patchbay.client.applications.client_entries import LiteralSecret, is_client_entry, read_section, translate
from patchbay.client.applications.json_text import JsonText
from patchbay.errors import ConfigError, ParseError
from patchbay.jsonrpc import parse_file, without_mark

_SEPARATOR = ": "
_FORBIDDEN_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The servers of one file: the definition of each by its name, and the reasons why others are left out, by key."""

    definitions: Mapping[str, bytes] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def read_client_file(data: bytes, file: str) -> ClientFile | None:
    """Return the servers of a file for MCP clients; None for another file, or one with a single server of its own.

    Raises ConfigError for a single server with a literal secret: then nothing of the file may be stored.
    """
    try:
        value: Any = parse_file(data)
    except ParseError:
        value = _read_with_comments(data)
    section = read_section(value)
    if section is None:
        if isinstance(value, dict) and is_client_entry(value):
            _refuse_secrets(value, file, "")
        return None
    path, servers = section
    definitions: dict[str, bytes] = {}
    problems: dict[str, str] = {}
    for key, entry in servers.items():
        name = _FORBIDDEN_IN_NAME.sub("-", key).strip("-.")[:100]
        problem = name_problem(name)
        if problem is None and name in definitions:
            problem = f"another server of this file is {name} already: rename one of the two"
        try:
            if problem is None and isinstance(entry, dict):
                _refuse_secrets(entry, file, f"{path}.{key}")
        except ConfigError as found:
            problem = f"at {found.path}: {found.expected}"
        if problem is not None:
            problems[f"{path}.{key}"] = problem
        else:
            own = {path.rpartition(".")[2]: {key: entry}}
            definitions[name] = orjson.dumps(own, option=orjson.OPT_INDENT_2) + b"\n"
    return ClientFile(definitions, problems)


def _read_with_comments(data: bytes) -> Any:
    try:
        return JsonText().parse(without_mark(data).decode())
    except (ParseError, ValueError):
        return None


def _refuse_secrets(entry: Mapping[str, Any], file: str, path: str) -> None:
    """Raise ConfigError for a literal secret. Another error is shown on the page of the server."""
    try:
        translate(entry, file)
    except LiteralSecret as problem:
        raise ConfigError(file, ".".join(filter(None, (path, problem.path))), problem.expected) from problem
    except ConfigError:
        return


def name_part(file: str, path: str) -> str:
    """Return the name of one server of a file, in the list of what is not served: `clients.json: mcpServers.far`."""
    return f"{file}{_SEPARATOR}{path}"


def server_of_part(named: str) -> str | None:
    """Return the server that `name_part` named; None for a file."""
    file, separator, path = named.partition(_SEPARATOR)
    return path.rpartition(".")[2] if separator and file.endswith(".json") else None


def is_part(definition: bytes) -> bool:
    """Whether a definition is one server of a file for MCP clients, so that the file is not the definition itself."""
    try:
        return read_section(parse_file(definition)) is not None
    except ParseError:
        return False
