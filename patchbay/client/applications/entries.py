"""One server as an application has configured it, in one form for all applications, and how each family writes it.

`Family.read` turns the value of an entry into an `Entry`; `write_url` and `write_program` make the value of an entry
for this hub. References to variables become `${NAME}`, the form of the hub (`references.py`). Families with another
form are in `families.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from patchbay.client.addresses.targets import Http, Stdio, Transport
from patchbay.client.applications.members import (
    EXCLUDED,
    INCLUDED,
    PROGRAM_TYPES,
    TRANSPORTS,
    TYPES,
    URLS,
    find_refusal,
    list_unused,
)
from patchbay.client.applications.references import Inexpressible, References
from patchbay.client.applications.sign_ins import MEMBERS as SIGN_IN_MEMBERS
from patchbay.client.applications.sign_ins import SignIn, read_sign_in


@dataclass(frozen=True, slots=True)
class Entry:
    """A configured server. `target` is None when `problem` says why the hub cannot mount it.

    `seconds` limits one call; `include` and `exclude` are names of tools; `place` says where the application has it.
    `sign_in` is the OAuth client of the application. `notes` are the members that the hub does not use, with reasons.
    """

    name: str
    target: Stdio | Http | None
    enabled: bool = True
    problem: str = ""
    seconds: float | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    place: str = ""
    title: str = ""
    description: str = ""
    sign_in: SignIn | None = None
    notes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Token:
    """The bearer token of an entry for this hub: the token itself, or a variable of the application's environment."""

    text: str = ""
    variable: str = ""

    def header(self, reference: str) -> str:
        """Return the value of `Authorization`; `reference` is how the application writes a variable, with `{}`."""
        return f"Bearer {reference.format(self.variable) if self.variable else self.text}"


MAX_SECONDS = 86400
"""Seconds of the longest time limit that a server of the hub can have."""

_COMMON = ("disabled", "enabled", "name", "title", "display_name", "description", *TYPES)
_OF_A_PROGRAM = ("command", "args", "env", "cwd")
_OTHER_KIND = {
    **dict.fromkeys(("headers", *SIGN_IN_MEMBERS), "a program gets no HTTP requests"),
    **dict.fromkeys(("args", "env", "environment", "cwd"), "the hub starts no program for a URL"),
}


@dataclass(frozen=True, slots=True)
class Family:
    """How a family of applications writes an entry.

    `url_keys` are the names of the URL, the first one is written; `kind` is the value of `type` that is written for a
    URL. `seconds` is the key of the time limit and its unit in seconds. `include` and `exclude` are more names for the
    choice of tools. `extra` is written into each entry.
    """

    url_keys: tuple[str, ...] = ("url",)
    kind: str = ""
    stdio_kind: str = ""
    seconds: tuple[str, float] = ("", 1.0)
    include: str = ""
    exclude: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry of a JSON object with `command` or a URL. Raises Inexpressible with the reason."""
        refuse(value)
        kind = next((value[key] for key in TYPES if value.get(key)), "")
        url_key = next((key for key in (*self.url_keys, *URLS) if value.get(key)), "")
        if url_key and value.get("command"):
            raise Inexpressible(f"it has command and {url_key}: expected one of the two")
        if url_key:
            if kind not in ("", *TRANSPORTS):
                raise Inexpressible(f"its transport {kind!r} is not one of MCP's: expected http or sse")
            transport: Transport = "sse" if kind == "sse" else "auto"
            target: Stdio | Http = make_http(value[url_key], value.get("headers"), transport, references)
            taken: Collection[str] = (url_key, "headers")
        else:
            if kind not in ("", *PROGRAM_TYPES):
                raise Inexpressible(f"its transport {kind!r} needs a URL, and it has none")
            target = make_stdio(value.get("command"), value.get("args"), value.get("env"), value.get("cwd"), references)
            taken = _OF_A_PROGRAM
        return self.finish(Entry(name, target), value, taken, references)

    def finish(self, entry: Entry, value: Mapping[str, Any], taken: Collection[str], references: References) -> Entry:
        """Add to an entry what all kinds have; note what of it is not used. `taken` are the members already read."""
        key = self.seconds[0]
        seconds, why = self._limit(value.get(key)) if key else (None, "")
        include_key = next((one for one in (self.include, *INCLUDED) if one and value.get(one) is not None), "")
        exclude_key = next((one for one in (self.exclude, *EXCLUDED) if one and value.get(one)), "")
        sign_in = read_sign_in(value, references) if isinstance(entry.target, Http) else None
        used = {*_COMMON, *taken, key, include_key, exclude_key}
        if isinstance(entry.target, Http):
            used |= {*SIGN_IN_MEMBERS}
        if sign_in is not None and isinstance(entry.target, Http):
            entry = replace(entry, target=replace(entry.target, issuer=sign_in.issuer))
        title = next((value[one] for one in ("title", "display_name", "name") if isinstance(value.get(one), str)), "")
        description = value.get("description")
        return replace(
            entry,
            enabled=is_enabled(value),
            seconds=seconds,
            include=self._included(value.get(include_key), include_key) if include_key else (),
            exclude=_names(value[exclude_key], exclude_key) if exclude_key else (),
            title=title if title != entry.name else "",
            description=description if isinstance(description, str) else "",
            sign_in=sign_in,
            notes=(
                *(((key, why),) if why else ()),
                *list_unused(value, used, _OTHER_KIND | {"timeout": "its unit is not known"}),
                *(sign_in.notes if sign_in is not None else ()),
            ),
        )

    def _limit(self, given: Any) -> tuple[float | None, str]:
        """Return the time limit of one call in seconds, and why it is another one than the entry's."""
        if given is None:
            return None, ""
        if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
            return None, f"it is not a positive number ({given!r:.40}): the limit of the hub counts"
        seconds = given * self.seconds[1]
        if seconds > MAX_SECONDS:
            return float(MAX_SECONDS), f"the hub limits a call to {MAX_SECONDS} seconds"
        return float(seconds), ""

    def _included(self, given: Any, key: str) -> tuple[str, ...]:
        names = _names(given, key)
        if not names and not self.allows_all(key):
            raise Inexpressible(f"{key} is empty, which allows no tool")
        return () if "*" in names else names

    def allows_all(self, key: str) -> bool:
        """Whether an empty list of allowed tools allows all tools."""
        return False

    def write_url(self, name: str, url: str, token: Token | None, reference: str) -> dict[str, Any]:
        """Make the entry of a URL."""
        entry: dict[str, Any] = {"type": self.kind} if self.kind else {}
        entry[self.url_keys[0]] = url
        return entry | ({"headers": {"Authorization": token.header(reference)}} if token else {}) | dict(self.extra)

    def write_program(self, name: str, words: list[str]) -> dict[str, Any]:
        """Make the entry of a program."""
        entry: dict[str, Any] = {"type": self.stdio_kind} if self.stdio_kind else {}
        return entry | {"command": words[0], "args": words[1:]} | dict(self.extra)


def refuse(value: Mapping[str, Any]) -> None:
    """Raise Inexpressible for an entry with a member that the hub cannot follow."""
    found = find_refusal(value)
    if found is not None:
        raise Inexpressible(f"{found[0]}: {found[1]}")


def is_enabled(value: Mapping[str, Any]) -> bool:
    """Whether an entry is switched on. Raises Inexpressible for a switch that is neither true nor false."""
    for key in ("disabled", "enabled"):
        if not isinstance(value.get(key), bool | None):
            raise Inexpressible(f"{key}: expected true or false")
    return value.get("disabled") is not True and value.get("enabled") is not False


def make_stdio(command: Any, args: Any, env: Any, cwd: Any, references: References) -> Stdio:
    """Make the target of a program. Raises Inexpressible naming the field that cannot be used."""
    if not isinstance(command, str) or not command:
        raise Inexpressible("expected command (a program) or a URL")
    if not isinstance(args, list | None) or not all(isinstance(word, str) for word in args or []):
        raise Inexpressible("args: expected a list of strings")
    if not isinstance(cwd, str | None):
        raise Inexpressible("cwd: expected the path of a folder")
    values = {key: references.translate(text, f"env.{key}") for key, text in texts(env, "env").items()}
    words = tuple(references.translate(word, "args") for word in args or [])
    folder = references.folder(references.translate(cwd, "cwd") if cwd else None)
    return Stdio(references.translate(command, "command"), words, values, folder)


def make_http(url: Any, headers: Any, transport: Transport, references: References) -> Http:
    """Make the target of a URL. Raises Inexpressible."""
    values = {key: references.translate(text, f"headers.{key}") for key, text in texts(headers, "headers").items()}
    return Http(references.url(url), values, transport)


def texts(value: Any, key: str) -> dict[str, str]:
    """Return an object of texts; numbers and booleans become texts, as environment variables do."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(one, str | int | float) for one in value.values()):
        raise Inexpressible(f"{key}: expected an object of strings")
    return {name: one if isinstance(one, str) else str(one).lower() for name, one in value.items()}


def _names(value: Any, key: str) -> tuple[str, ...]:
    """Return the names of a list of tools. Raises Inexpressible for another value: a choice is never dropped."""
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise Inexpressible(f"{key}: expected a list with names of tools")
    return tuple(value)
