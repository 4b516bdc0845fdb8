"""What a registry says about a server: how it is started or reached, and what it wants to know.

Only forms that the hub can start or reach are offers: packages of npm and PyPI over standard input and output, and
URLs. Everything that a registry says is text of a stranger: it is shown before anything runs.
Source: modelcontextprotocol/registry, docs/reference/api/openapi.yaml (2025-12-01), server.json (2025-12-11).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlencode

from patchbay.errors import ConfigError

Kind = Literal["npm", "pypi", "remote"]

NPM_NAME = re.compile(r"(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*", re.IGNORECASE)
PYPI_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
VERSION = re.compile(r"[0-9][A-Za-z0-9.!+_-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
MAX_TEXT = 200
OFFICIAL = "io.modelcontextprotocol.registry/official"
"""The key of what the registry itself says about a server, in `_meta` of an entry."""

OWN_BASES = {"npm": ("https://registry.npmjs.org",), "pypi": ("https://pypi.org",)}
"""The base URLs that a package may name: those whose packages npx and uvx get."""

QUIET_ARGUMENTS = ("-y", "--yes")
"""Arguments of the launcher that change nothing, because the hub gives them itself."""

SECRET_WORDS = re.compile(r"(?i)key|token|secret|password|credential")


@dataclass(frozen=True, slots=True)
class RegistryInput:
    """A value that a server wants: an environment variable, or a header of a URL."""

    name: str
    description: str = ""
    is_required: bool = False
    is_secret: bool = False
    default: str | None = None
    fixed: str | None = None
    """The value that the registry says; a user chooses no other one."""

    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to run or reach a server. `arguments` are words behind the package; `wanted` what it wants to know."""

    kind: Kind
    name: str
    version: str
    arguments: tuple[str, ...] = ()
    wanted: tuple[RegistryInput, ...] = ()
    url: str = ""

    @property
    def address(self) -> str:
        """The address of a mount, with the exact version."""
        if self.kind == "remote":
            return self.url
        scheme = "npx" if self.kind == "npm" else "uvx"
        query = urlencode([("launch.arg", word) for word in self.arguments], quote_via=quote)
        return f"mcp+{scheme}://{self.name}@{self.version}" + (f"?{query}" if query else "")


@dataclass(frozen=True, slots=True)
class RegisteredServer:
    """A server of a registry, with the ways to run or reach it that the hub has."""

    name: str
    title: str
    description: str
    version: str
    offers: tuple[Offer, ...]
    others: tuple[str, ...] = ()
    """The ways that the hub does not have, in words."""

    warning: str = ""
    """Why the registry advises against the server, for a deprecated one."""

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition("/")[2]


def read_server(entry: Any) -> RegisteredServer | None:
    """Return the server of an entry of the registry; None for an entry without a name, and for a deleted one."""
    server = entry.get("server", entry) if isinstance(entry, Mapping) else None
    if not isinstance(server, Mapping) or not isinstance(server.get("name"), str):
        return None
    status, message = _status(entry)
    if status == "deleted":
        return None
    offers: list[Offer] = []
    others: list[str] = []
    for package in _objects(server.get("packages")):
        made = _package(package, _text(server.get("version")))
        offers += [made] if isinstance(made, Offer) else []
        others += [made] if isinstance(made, str) else []
    for remote in _objects(server.get("remotes")):
        made = _remote(remote, _text(server.get("version")))
        offers += [made] if isinstance(made, Offer) else []
        others += [made] if isinstance(made, str) else []
    return RegisteredServer(
        _text(server["name"]),
        _text(server.get("title")),
        _text(server.get("description")),
        _text(server.get("version")),
        tuple(offers),
        tuple(others),
        f"deprecated{f': {message}' if message else ''}" if status == "deprecated" else "",
    )


def _status(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the status of an entry, such as `deprecated`, and the message that explains it."""
    meta = entry.get("_meta")
    official = meta.get(OFFICIAL) if isinstance(meta, Mapping) else None
    if not isinstance(official, Mapping):
        return "", ""
    return _text(official.get("status")), _text(official.get("statusMessage"))


def make_fields(offer: Offer, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a mount of an offer; `given` has values by the name of a variable or header.

    A secret without a value becomes a reference, `${NAME}`, to the environment of the hub. Raises ConfigError for a
    required value that is missing, a name that the offer does not have, a value that is not one of its choices or that
    the registry fixes, and a secret that is written out.
    """
    known = {one.name: one for one in offer.wanted}
    values: dict[str, str] = {}
    for name, value in given.items():
        if offer.kind == "remote" and name not in known:
            raise ConfigError("the server", name, f"expected one of {', '.join(known) or 'no values'}")
        if name in known and known[name].is_secret and "${" not in value:
            raise ConfigError("the server", name, f"this is a secret; expected {name}=${{{variable_of(name)}}}")
        if name in known:
            _check_value(known[name], value)
        values[name] = value
    missing = []
    for one in offer.wanted:
        if one.name in values:
            continue
        if one.fixed is not None and not one.is_secret:
            values[one.name] = one.fixed
        elif one.is_secret and one.is_required:
            values[one.name] = f"${{{variable_of(one.name)}}}"
        elif one.is_required and one.default is not None:
            values[one.name] = one.default
        elif one.is_required:
            missing.append(one.name)
    if missing:
        raise ConfigError("the server", missing[0], f"expected values of {', '.join(missing)}: --env NAME=VALUE")
    fields: dict[str, Any] = {"kind": "upstream", "address": offer.address}
    return fields | ({("headers" if offer.kind == "remote" else "environment"): values} if values else {})


def _check_value(one: RegistryInput, value: str) -> None:
    """Raise ConfigError for a value that the registry does not allow; a reference is checked by the server itself."""
    if one.fixed is not None and value != one.fixed and not one.is_secret:
        raise ConfigError("the server", one.name, f"expected {one.fixed!r:.200}: the registry allows no other value")
    if one.choices and value not in one.choices and "${" not in value:
        raise ConfigError("the server", one.name, f"expected one of {', '.join(one.choices)}")


def variable_of(name: str) -> str:
    """Return the name of the environment variable that a secret of this name refers to."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()


def _package(package: Mapping[str, Any], version: str) -> Offer | str:
    kind, name = package.get("registryType"), package.get("identifier")
    transport = package.get("transport")
    way = transport.get("type", "stdio") if isinstance(transport, Mapping) else "stdio"
    exact = package.get("version") or version
    label = f"{_text(kind)} {_text(name)}"
    if kind not in ("npm", "pypi") or way != "stdio":
        return f"{label}: the hub starts packages of npm and PyPI over standard input and output"
    pattern = NPM_NAME if kind == "npm" else PYPI_NAME
    if not isinstance(name, str) or not pattern.fullmatch(name):
        return f"{label}: its name is not a name of a package"
    if not isinstance(exact, str) or not VERSION.fullmatch(exact):
        return f"{label}: its version is not one exact version"
    obstacle = _obstacle(kind, package)
    if obstacle:
        return f"{label}: {obstacle}"
    arguments = _arguments(package.get("packageArguments"))
    if arguments is None:
        return f"{label}: it needs arguments that only its user knows; mount it with launch.arg="
    wanted = tuple(_wanted(package.get("environmentVariables"), VARIABLE))
    return Offer("npm" if kind == "npm" else "pypi", name, exact, arguments, wanted)


def _obstacle(kind: str, package: Mapping[str, Any]) -> str:
    """Return why the launcher would not run what the registry describes; an empty text if it would."""
    base = package.get("registryBaseUrl")
    if base and (not isinstance(base, str) or base.rstrip("/") not in OWN_BASES[kind]):
        # A package of the same name at the public registry may be another one.
        return f"it is in the registry {_text(base)}, which the hub does not use"
    if package.get("fileSha256"):
        return "it names a hash of its file, which the launcher does not check"
    words = [one.get("value", one.get("name")) for one in _objects(package.get("runtimeArguments"))]
    if any(word not in QUIET_ARGUMENTS for word in words):
        return "it needs arguments of the launcher; mount it with mcp+stdio:COMMAND"
    return ""


def _arguments(given: Any) -> tuple[str, ...] | None:
    """Return the words of arguments that have a value; None if a required one has none."""
    words: list[str] = []
    for one in _objects(given):
        value = one.get("value", one.get("default"))
        if not isinstance(value, str) or "{" in value:
            if one.get("isRequired"):
                return None
            continue
        if one.get("type") == "named" and isinstance(one.get("name"), str):
            words.append(one["name"])
        words.append(value)
    return tuple(words)


def _remote(remote: Mapping[str, Any], version: str) -> Offer | str:
    url, way = remote.get("url"), remote.get("type")
    if not isinstance(url, str) or way not in ("streamable-http", "sse"):
        return f"{_text(url)}: the hub reaches URLs with Streamable HTTP and SSE"
    if "{" in url or "$" in url or not url.startswith("https://") or not url.isprintable() or " " in url:
        return f"{_text(url)}: expected an https URL without placeholders"
    return Offer("remote", url, version, wanted=tuple(_wanted(remote.get("headers"), HEADER)), url=url)


def _wanted(given: Any, pattern: re.Pattern[str]) -> Iterator[RegistryInput]:
    for one in _objects(given):
        name = one.get("name")
        if not isinstance(name, str) or not pattern.fullmatch(name):
            continue
        choices = one.get("choices")
        yield RegistryInput(
            name,
            _text(one.get("description")),
            one.get("isRequired") is True,
            one.get("isSecret") is True or bool(SECRET_WORDS.search(name)),
            _literal(one.get("value", one.get("default"))),
            _literal(one.get("value")),
            tuple(_text(each) for each in choices if _text(each)) if isinstance(choices, list) else (),
        )


def _literal(value: Any) -> str | None:
    """Return a value that has no placeholder and no reference; None for any other."""
    return value if isinstance(value, str) and "{" not in value and "$" not in value else None


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Return a text on one line, at most MAX_TEXT characters."""
    return " ".join(value.split())[:MAX_TEXT] if isinstance(value, str) else ""
