"""Servers in a text that somebody pasted: what the documentation of an MCP server prints, in any of its forms.

    {"mcpServers": {"NAME": {...}}}, {"servers": ...}    a file for MCP clients, as servers/ reads it; also a part of it
    {"command": ...}, {"url": ...}, "NAME": {...}        one server
    [mcp_servers.NAME]                                   the TOML of Codex
    npx -y PACKAGE, uvx PACKAGE, docker run -i IMAGE     a command line, with NAME=VALUE before it; one a line
    claude mcp add NAME -- COMMAND, code --add-mcp JSON  a command of an MCP client that adds a server
    https://..., mcp+npx://PACKAGE, openapi+https://...  an address of the hub

Nothing is started and no server is asked. A secret becomes a reference to a variable, and its value is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from patchbay.catalogue.operating.named_sources import find_api_profile, make_api_fields
from patchbay.catalogue.operating.pasted_commands import CommandLine, read_command_line
from patchbay.catalogue.servers.rows import name_problem
from patchbay.catalogue.watching.mount_files import check_mount
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.targets import AddressError, Http, Local, Stdio
from patchbay.client.applications.client_entries import UNUSED, is_client_entry, read_section, translate
from patchbay.client.applications.json_text import JsonText
from patchbay.client.applications.mounts import Variables
from patchbay.client.applications.toml_text import TomlText
from patchbay.client.profiles.lookup import find_homes
from patchbay.client.source import get_scheme
from patchbay.client.sources.http_targets import SCHEMES, is_document
from patchbay.errors import ConfigError
from patchbay.kind import configured_kind, find_kind
from patchbay.processes.confinement.programs import ProgramConfinement, ProgramPlaces
from patchbay.settings import whole_environment
from patchbay.upstreams.configuration import OPENAPI, mount_of
from patchbay.upstreams.connections.description import mount_confinement

_FLAGS = frozenset(("-y", "--yes", "-q", "--quiet", "-m", "-i", "--rm", "-S", "-u"))
"""Options of launchers without a value."""

MAX_PASTED_CHARACTERS = 64 * 1024
MAX_PASTED_SERVERS = 50
WHERE = "the pasted text"

_ADDRESS = re.compile(r"(?i)(mcp(\+[a-z]+)?|https?|openapi\+(https?|file)):|@")
"""How an address begins; some may have spaces."""

_OPENAPI = "openapi+"
_FORBIDDEN_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_FENCE = re.compile(r"\A```[\w-]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_COMMON_WORDS = re.compile(r"^(mcp-server-|server-|mcp-)|(-mcp-server|-server|-mcp)$")
LAUNCHERS = frozenset(("npx", "bunx", "pnpx", "uvx", "uv", "pipx", "docker", "podman", "node", "python", "python3"))
"""The first words of most command lines of MCP servers."""


@dataclass(frozen=True, slots=True)
class PastedServer:
    """One server of a pasted text. `fields` is the definition of its mount, empty when `problem` says why not.

    `unused` has the members that the hub does not use, with the reasons. `variables` are those that the definition
    refers to; `dropped` are those of them whose values stood in the text.
    """

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    unused: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def read_pasted_servers(text: str) -> list[PastedServer]:
    """Return the servers of a pasted text, at least one. Raises ConfigError for a text in none of the forms."""
    if len(text) > MAX_PASTED_CHARACTERS:
        raise ConfigError(WHERE, "", f"expected at most {MAX_PASTED_CHARACTERS} characters; it has {len(text)}")
    text = text.strip().removeprefix("\ufeff")
    fenced = _FENCE.match(text)
    text = fenced[1].strip() if fenced else text
    if not text:
        raise ConfigError(WHERE, "", "expected a configuration, a command line or a URL; it is empty")
    found = list(_read(text))
    if len(found) > MAX_PASTED_SERVERS:
        raise ConfigError(WHERE, "", f"expected at most {MAX_PASTED_SERVERS} servers; it has {len(found)}")
    return found


def read_pasted_api(document: str) -> PastedServer:
    """Return the HTTP API at the URL of its OpenAPI document, or of the API itself. Raises ConfigError."""
    url = document.strip().removeprefix(_OPENAPI)
    if len(url) > MAX_PASTED_CHARACTERS or not url.lower().startswith(("http://", "https://")):
        raise ConfigError(WHERE, "", f"expected the URL of an OpenAPI document or of an API, not {url!r:.100}")
    return _read_address("", _OPENAPI + url)


def find_pasted_address(text: str) -> str:
    """Return the address of the only server of a pasted text, with its variables and headers, as /inspect takes it.

    An address stays as it is. Raises ConfigError for a text with several servers, or with one that cannot be mounted.
    """
    if not text or (len(text.split()) == 1 and not text.startswith(("{", '"'))) or _ADDRESS.match(text):
        return text
    found = read_pasted_servers(text)
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise ConfigError(WHERE, "", f"expected one server to inspect; it has {names}")
    if found[0].problem:
        raise ConfigError(WHERE, "", found[0].problem)
    fields = found[0].fields
    if fields["kind"] == OPENAPI:
        return str(fields["document"])
    pairs = [(f"env.{key}", value) for key, value in fields.get("environment", {}).items()]
    pairs += [(f"header.{key}", value) for key, value in fields.get("headers", {}).items()]
    if not pairs:
        return str(fields["address"])
    address = str(fields["address"])
    address = address if address.startswith("mcp+") else f"mcp+{address}"
    return f"{address}{'&' if '?' in address else '?'}" + "&".join(
        f"{key}={quote(value, safe='/:@,${}')}" for key, value in pairs
    )


def describe_run(fields: Mapping[str, Any]) -> str:
    """Return what a definition would run or reach, as one line without secrets. Raises ConfigError."""
    if fields["kind"] == OPENAPI:
        return str(fields.get("base") or fields["document"])
    reach = mount_of("", fields, WHERE).direct_reach
    return reach.label if reach is not None else str(fields["address"])


def describe_rights(fields: Mapping[str, Any], name: str, programs: ProgramPlaces) -> str:
    """Return what a definition could do on this machine once it is mounted as `name`, as a sentence.

    `programs` are the places of the hub. Raises ConfigError.
    """
    kind = find_kind(fields["kind"])
    if kind is not None and kind.name == OPENAPI:
        return kind.confine(fields, "process", 0, None).sentence
    mount = mount_of(name, fields, WHERE)
    confinement = ProgramConfinement(name, programs, mount.permissions, whole_environment(), mount.program)
    return mount_confinement(mount.direct_reach, confinement).sentence


def _read(text: str) -> Iterator[PastedServer]:
    if text.startswith(("{", '"', "//", "/*")):
        yield from _read_value(_parse_json(text))
    elif text.startswith("["):
        try:
            yield from _read_value(TomlText().parse(text))
        except ValueError as problem:
            raise ConfigError(WHERE, "", f"expected TOML with [mcp_servers.NAME], but {problem}") from problem
    elif len(text.split()) == 1 and (get_scheme(text) or text.startswith("@")):
        yield _read_address("", text)
    else:
        for line in text.replace("\\\n", " ").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield from _read_command(read_command_line(line))


def _parse_json(text: str) -> Any:
    """Parse JSON with comments; also the inside of an object, as documentation prints it."""
    try:
        whole = text if text.startswith(("{", "/")) else f"{{{text}}}"
        return JsonText().parse(whole)
    except ValueError as problem:
        raise ConfigError(WHERE, "", f"expected JSON, but {problem}") from problem


def _read_value(value: Any, name: str = "") -> Iterator[PastedServer]:
    section = read_section(value)
    if section is not None and section[1]:
        for key, entry in section[1].items():
            yield _read_entry(str(key), entry)
    elif configured_kind(value) is not None and isinstance(value, Mapping) and "kind" in value:
        yield _checked(name, dict(value))
    elif is_client_entry(value) and section is None:
        own = value.get("name")
        yield _read_entry(name or (own if isinstance(own, str) else ""), value)
    elif isinstance(value, Mapping) and value and all(is_client_entry(one) for one in value.values()):
        for key, entry in value.items():
            yield _read_entry(str(key), entry)
    else:
        expected = 'expected a server with "command" or "url", or servers in "mcpServers" or "servers"'
        raise ConfigError(WHERE, "", expected)


def _read_command(line: CommandLine) -> Iterator[PastedServer]:
    if line.json:
        yield from _read_value(_parse_json(line.json), line.name)
    elif line.entry:
        yield _read_entry(line.name, line.entry)
    else:
        yield _read_address(line.name, line.address)


def _read_entry(name: str, entry: Any) -> PastedServer:
    own = name or _name_of(entry)
    variables = Variables()
    try:
        fields = translate(entry, WHERE, own, variables)
    except ConfigError as problem:
        return PastedServer(_as_name(own), problem=_sentence(problem))
    unused = fields.pop(UNUSED, {})
    if fields.get("title") == name:
        del fields["title"]
    return _checked(own, fields, unused, tuple(sorted(variables.values)))


def _read_address(name: str, address: str) -> PastedServer:
    try:
        profile = find_api_profile(address, find_homes(Path.cwd(), whole_environment()))
        if profile is not None:
            return _checked(name or profile.name, make_api_fields(address, profile, Path.cwd()))
    except ConfigError as problem:
        return PastedServer(_as_name(name or address), problem=problem.message)
    if get_scheme(address) in SCHEMES or is_document(address):
        return _checked(
            name or _name_of({"url": address.removeprefix(_OPENAPI)}), {"kind": "openapi", "document": address}
        )
    try:
        target = parse_address(address).target
    except AddressError as problem:
        return PastedServer(_as_name(name), problem=problem.message)
    if isinstance(target, Local):
        return PastedServer(_as_name(name), problem=f"expected another server; {target.label} is one of this hub")
    if isinstance(target, Http) and address.lower().startswith(("http://", "https://")):
        return _read_entry(name, {"url": address})
    words = [target.command, *target.args] if isinstance(target, Stdio) else []
    entry = {"command": words[0], "args": words[1:]} if words else {"url": getattr(target, "url", address)}
    return _checked(name or _name_of(entry), {"kind": "upstream", "address": address})


def _checked(
    name: str, fields: dict[str, Any], unused: Mapping[str, str] | None = None, dropped: tuple[str, ...] = ()
) -> PastedServer:
    """Return a server whose definition the hub would accept, or one with the reason why not."""
    try:
        check_mount(_as_name(name), fields, WHERE)
        describe_run(fields)
    except (ConfigError, AddressError) as problem:
        return PastedServer(_as_name(name), problem=_sentence(problem), unused=unused or {})
    texts = list(_texts(fields))
    names = sorted({found for text in texts for found in _REFERENCE.findall(text)})
    return PastedServer(_as_name(name), fields, "", unused or {}, tuple(names), dropped)


def _sentence(problem: ConfigError | AddressError) -> str:
    if not isinstance(problem, ConfigError):
        return problem.message
    return f"at {problem.path}: {problem.expected}" if problem.path else problem.expected


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _as_name(text: str) -> str:
    """Return a text as a name that a server can have: without other characters, and not one of the hub's own."""
    name = _FORBIDDEN_IN_NAME.sub("-", text).strip("-.")[:100] or "server"
    return name if name_problem(name) is None else f"{name}-server"


def _name_of(entry: Any) -> str:
    """Return a name for an entry without one: after its package, its program, or the host of its URL."""
    if not isinstance(entry, Mapping):
        return ""
    url = next((entry[key] for key in ("url", "serverUrl", "httpUrl") if isinstance(entry.get(key), str)), "")
    if url:
        try:
            labels = (urlsplit(url).hostname or "").split(".")
        except ValueError:
            return ""
        named = [one for one in labels[:-1] if one not in ("api", "mcp", "www", "server", "app")]
        return named[-1] if named else labels[0]
    command = entry.get("command")
    words = [*(command if isinstance(command, list) else [command]), *(entry.get("args") or [])]
    plain = [word for word in words if isinstance(word, str) and word]
    first = plain[0].rpartition("/")[2] if plain else ""
    # A word after an option may be its value, also a secret one: no name is made of it.
    after = [word for before, word in pairwise(plain) if not before.startswith("-") or before in _FLAGS]
    rest = [word for word in after if not word.startswith("-") and word not in ("run", "exec", "dlx", "start")]
    if first in ("docker", "podman"):
        rest = [word for word in plain[1:] if re.fullmatch(r"\w[^/=]*/[^=]+", word)][-1:]
    chosen = rest[0] if first in LAUNCHERS and rest else first
    chosen = re.split(r"[@:]", chosen.rstrip("/").rpartition("/")[2])[0] or chosen
    return _COMMON_WORDS.sub("", re.sub(r"\.(py|m?js|ts|sh)$", "", chosen)) or chosen
