"""Servers as the documentation of MCP servers prints them, for MCP clients: read as mounts.

    {"command": "npx", "args": [...], "env": {...}, "cwd": "..."}       a program
    {"type": "http", "url": "https://...", "headers": {...}}            a URL; also streamable-http and sse
    {"mcpServers": {"NAME": {...}, ...}}                                several; also servers, mcp, context_servers

An entry of a file in servers/ may also have the fields of a mount that say what its program may do (`RIGHTS`).
References to the environment, `${NAME}`, `${env:NAME}` and `${input:id}`, become `${NAME}` of the hub. A literal secret
is an error, because definitions are addressed by their content. A member that the hub does not follow is reported with
the reason (the field `unused`, which no configuration can have), and one that is misspelled is an error.
Sources: modelcontextprotocol.io/docs/develop/connect-local-servers; code.visualstudio.com/docs/copilot/reference/
mcp-configuration; the READMEs of playwright-mcp, github-mcp-server, context7 and modelcontextprotocol/servers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from patchbay.client.addresses.formatting import format_address
from patchbay.client.addresses.secrets import is_evident_secret, is_url_secret
from patchbay.client.addresses.targets import AddressError, Http, Transport
from patchbay.client.applications.entries import MAX_SECONDS, Entry, make_stdio, texts
from patchbay.client.applications.members import (
    EXCLUDED,
    INCLUDED,
    PROGRAM_TYPES,
    REFUSED,
    TRANSPORTS,
    TYPES,
    URLS,
    find_refusal,
)
from patchbay.client.applications.members import UNUSED as UNUSED_MEMBERS
from patchbay.client.applications.mounts import Variables, hide, hide_headers, mount_fields
from patchbay.client.applications.references import Inexpressible, References, variable_name
from patchbay.errors import ConfigError

UNUSED = "unused"
"""The field with the members that the hub does not use, each with the reason; no configuration can have it."""

SECTIONS = ("mcpServers", "servers", "mcp_servers", "context_servers", "mcp")
"""Members of a file that hold servers by name. VS Code nests `servers` in `mcp` of its settings."""

_ENVIRONMENTS = ("env", "environment")
_IDENTIFYING = (*URLS, "command", "args", "env", "cwd", "type")
_INCLUDED = (*INCLUDED, "tools")
_TAKEN = frozenset(
    (
        *(*URLS, *_ENVIRONMENTS, *TYPES, *_INCLUDED, *EXCLUDED, "command", "args", "cwd", "headers", "timeout"),
        *("disabled", "enabled", "description", "name", "title"),
    )
)
RIGHTS = ("reads", "writes", "home", "needs", "network", "confine", "memory")
"""Fields of a mount that say what a program may do: an entry has them where the operator wrote it."""

_OF_THE_OPERATOR = "only a file in servers/ says what a program may do; here an option or a box on the page allows it"
_OAUTH = "write a mount with account or a sign-in instead (docs/mounting.md)"
_SIGN_INS = frozenset(("oauth", "auth", "oauthClientId"))
_FOREIGN_REFERENCE = re.compile(r"\$\{(env|input):([^}:]+)(:-[^}]*)?\}")
_OF_AN_EDITOR = re.compile(r"\$\{(workspaceFolder|workspaceFolderBasename|workspaceRoot|userHome|pathSeparator|/)\}")
_MAX_SECONDS_IN_FILE = 3600
"""A larger `timeout` is in milliseconds: clients that count seconds allow at most an hour."""


def read_section(value: object) -> tuple[str, Mapping[str, Any]] | None:
    """Return the section of a whole file for clients: its path, and its servers by name. None for another value."""
    if not isinstance(value, Mapping) or "kind" in value:
        return None
    for name in SECTIONS:
        found = value.get(name)
        if isinstance(found, Mapping):
            inner = read_section(found) if name == "mcp" else None
            return (f"{name}.{inner[0]}", inner[1]) if inner is not None else (name, found)
    return None


def is_client_entry(value: object) -> bool:
    """Whether a configuration has the form of an entry for MCP clients, or of a file with such entries."""
    if not isinstance(value, Mapping) or "kind" in value:
        return False
    return any(name in value for name in _IDENTIFYING) or read_section(value) is not None


def translate(
    value: Mapping[str, Any],
    where: str,
    name: str = "",
    variables: Variables | None = None,
    takes_rights: bool = False,
) -> dict[str, Any]:
    """Return the fields of the mount that an entry describes, with `unused`. Raises ConfigError.

    A file with a section must have exactly one server there: only the watched folder makes several of one file.
    A literal secret is an error. With `variables` it becomes a reference, whose value is kept there; `name` is the
    server whose variables they are. With `takes_rights` the fields RIGHTS are those of the mount, else they are not
    used.
    """
    section = read_section(value)
    path = ""
    if section is not None:
        if len(section[1]) != 1:
            names = ", ".join(map(str, section[1])) or "none"
            expected = f"expected one server, found {names}; a file in servers/ may have several"
            raise ConfigError(where, section[0], expected)
        ((key, value),) = section[1].items()
        path = f"{section[0]}.{key}"
    if not isinstance(value, Mapping):
        raise ConfigError(where, path, "expected an object with command or url")
    rights = {key: value[key] for key in RIGHTS if key in value} if takes_rights else {}
    unused = dict(_check_members(value, where, path, rights))
    try:
        fields = _fields(_resolve(value), _EntryLocation(where, path, name, variables))
    except Inexpressible as problem:
        raise ConfigError(where, path, str(problem)) from problem
    except AddressError as problem:
        raise ConfigError(where, path, problem.message) from problem
    return fields | rights | ({UNUSED: unused} if unused else {})


def _check_members(
    value: Mapping[str, Any], where: str, path: str, rights: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the members that the hub does not use, with the reason. Raises ConfigError for one that it needs."""
    refused = find_refusal(value) or next(((name, _OAUTH) for name in value if name in _SIGN_INS and value[name]), None)
    if refused is not None:
        raise ConfigError(where, _join(path, refused[0]), f"the hub cannot follow it: {refused[1]}")
    for name in value:
        if name in _TAKEN or name in REFUSED or name in _SIGN_INS or name in rights:
            continue
        if name in RIGHTS:
            yield name, _OF_THE_OPERATOR
            continue
        close = get_close_matches(name, _TAKEN, 1, 0.75) if name not in UNUSED_MEMBERS else []
        if close:
            raise ConfigError(where, _join(path, name), f"unknown; did you mean {close[0]}?")
        yield name, UNUSED_MEMBERS.get(name, "the hub does not know this member")


@dataclass(frozen=True, slots=True)
class _EntryLocation:
    """Where an entry stands, and what becomes of its secrets."""

    where: str
    path: str
    name: str
    variables: Variables | None


def _fields(value: Mapping[str, Any], place: _EntryLocation) -> dict[str, Any]:
    where, path = place.where, place.path
    kind = next((value[name] for name in TYPES if value.get(name)), "")
    url = next((name for name in URLS if value.get(name)), None)
    if kind and kind not in TRANSPORTS and kind not in PROGRAM_TYPES:
        expected = f"expected one of {', '.join(dict.fromkeys((*PROGRAM_TYPES, *TRANSPORTS)))}; this is {kind!r:.60}"
        raise ConfigError(where, _join(path, next(name for name in TYPES if value.get(name))), expected)
    if url is not None and value.get("command"):
        raise ConfigError(where, _join(path, url), "expected command or a URL, not both")
    if url is None and kind in TRANSPORTS:
        raise ConfigError(where, _join(path, "url"), f'expected the URL of the server beside "type": "{kind}"')
    if url is None and not value.get("command"):
        raise ConfigError(where, _join(path, "command"), "expected command (a program) or url")
    fields = _remote(value, url, kind, place) if url is not None else _program(value, place)
    fields |= {key: value[key] for key in ("description",) if isinstance(value.get(key), str)}
    title = value.get("title", value.get("name"))
    fields |= {"title": title} if isinstance(title, str) and title else {}
    fields |= _limit(value, where, path) | _listing(value, where, path)
    is_off = value.get("disabled") is True or value.get("enabled") is False
    return fields | ({"enabled": False} if is_off else {})


def _remote(value: Mapping[str, Any], key: str, kind: str, place: _EntryLocation) -> dict[str, Any]:
    url, where, path = value[key], place.where, place.path
    if not isinstance(url, str) or not url.lower().startswith(("http://", "https://")):
        raise ConfigError(where, _join(path, key), f"expected an http or https URL; this is {url!r:.60}")
    parts = urlsplit(url)
    query = parse_qsl(parts.query, True)
    secret = next((name for name, text in query if "${" not in text and is_url_secret(name, text)), "")
    if (parts.password and "${" not in parts.password) or (secret and place.variables is None):
        raise _secret(where, _join(path, key), secret or "the password")
    if place.variables is not None and secret:
        own = {name: text for name, text in query if "${" not in text and is_url_secret(name, text)}
        query = [(name, hide(name, text, place.name, place.variables) if name in own else text) for name, text in query]
    headers = texts(value.get("headers"), "headers")
    for name, text in headers.items():
        if "${" not in text and is_evident_secret(name, text) and place.variables is None:
            raise _secret(where, _join(path, f"headers.{name}"), name)
    if place.variables is not None:
        headers = hide_headers(headers, place.name, place.variables)
    transport: Transport = "sse" if TRANSPORTS.get(kind) == "sse" else "auto"
    has_reference = any("${" in text for _, text in query)
    address = format_address(Http(url.partition("?")[0] if has_reference else url, {}, transport))
    if has_reference:
        given = [f"query.{name}={quote(text, safe='/:@,${}')}" for name, text in query]
        sign = "&" if "?" in address else "?"
        address = f"{'' if address.startswith('mcp+') else 'mcp+'}{address}{sign}{'&'.join(given)}"
    return {"kind": "upstream", "address": address} | ({"headers": headers} if headers else {})


def _program(value: Mapping[str, Any], place: _EntryLocation) -> dict[str, Any]:
    command, args = value.get("command"), value.get("args")
    if isinstance(command, list) and command:
        command, args = command[0], [*command[1:], *(args or [])]
    key = next((name for name in _ENVIRONMENTS if name in value), "env")
    environment = texts(value.get(key), key)
    target = make_stdio(command, args, environment, value.get("cwd"), References("shell", Path.home()))
    if place.variables is not None:
        return mount_fields(Entry(place.name, target), place.name, place.variables)
    for name, text in environment.items():
        if "${" not in text and is_evident_secret(name, text):
            raise _secret(place.where, _join(place.path, f"{key}.{name}"), name)
    variables = Variables()
    fields = mount_fields(Entry("", target), "", variables, dict.fromkeys(environment, False))
    if variables.values:
        raise _secret(place.where, _join(place.path, "args"), ", ".join(variables.values))
    return fields


class LiteralSecret(ConfigError):
    """A secret stands in an entry; its text may not be stored."""


def _secret(where: str, path: str, name: str) -> LiteralSecret:
    variable = variable_name(name)
    return LiteralSecret(
        where,
        path,
        f"expected a reference such as ${{{variable}}} in place of the value: store it with `patchbay secret set"
        f" {variable}`; a definition never holds a secret",
    )


def _limit(value: Mapping[str, Any], where: str, path: str) -> dict[str, Any]:
    given = value.get("timeout")
    if given is None:
        return {}
    if isinstance(given, bool) or not isinstance(given, int | float) or given <= 0:
        raise ConfigError(where, _join(path, "timeout"), f"expected a number of seconds or milliseconds, not {given!r}")
    seconds = given if given <= _MAX_SECONDS_IN_FILE else given / 1000
    return {"timeout": min(float(seconds), MAX_SECONDS)}


def _listing(value: Mapping[str, Any], where: str, path: str) -> dict[str, Any]:
    listing = {}
    for field, names in (("include", _INCLUDED), ("exclude", EXCLUDED)):
        key = next((name for name in names if value.get(name)), None)
        tools = value[key] if key is not None else []
        if not isinstance(tools, list) or not all(isinstance(tool, str) for tool in tools):
            raise ConfigError(where, _join(path, str(key)), "expected a list with names of tools")
        if tools and tools != ["*"]:
            listing[field] = tools
    return {"listing": listing} if listing else {}


def _resolve(value: Any) -> Any:
    """Return a value in which every reference of a client has the form of the hub."""
    if isinstance(value, str):
        editor = _OF_AN_EDITOR.search(value)
        if editor:
            raise Inexpressible(f"only an editor knows {editor[0]}: write the path")
        return _FOREIGN_REFERENCE.sub(lambda found: f"${{{_variable(found)}{found[3] or ''}}}", value)
    if isinstance(value, Mapping):
        return {key: _resolve(one) for key, one in value.items()}
    return [_resolve(one) for one in value] if isinstance(value, list) else value


def _variable(found: re.Match[str]) -> str:
    return found[2] if found[1] == "env" else variable_name(found[2])


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
