"""One server as an application has configured it, in one form for all applications, and how each family writes it.

`read_*` functions turn the value of an entry into an `Entry`; `write_*` functions make the value of an entry for this
hub. References to variables become `${NAME}`, the form of the hub (`references.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from patchbay.client.addresses.targets import Http, Stdio, Transport
from patchbay.client.applications.references import Inexpressible, References


@dataclass(frozen=True, slots=True)
class Entry:
    """A configured server. `target` is None when `problem` says why the hub cannot mount it.

    `seconds` limits one call; `include` and `exclude` are names of tools; `place` says where the application has it.
    """

    name: str
    target: Stdio | Http | None
    enabled: bool = True
    problem: str = ""
    seconds: float | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """The bearer token of an entry for this hub: the token itself, or a variable of the application's environment."""

    text: str = ""
    variable: str = ""

    def header(self, reference: str) -> str:
        """Return the value of `Authorization`; `reference` is how the application writes a variable, with `{}`."""
        return f"Bearer {reference.format(self.variable) if self.variable else self.text}"


@dataclass(frozen=True, slots=True)
class Family:
    """How a family of applications writes an entry.

    `url_keys` are the names of the URL, the first one is written; `kind` is the value of `type` that is written for a
    URL. `seconds` is the key of the time limit and its unit in seconds. `beyond` names keys that the hub cannot follow,
    with what the reader should know.
    """

    url_keys: tuple[str, ...] = ("url",)
    kind: str = ""
    stdio_kind: str = ""
    seconds: tuple[str, float] = ("", 1.0)
    include: str = ""
    exclude: str = ""
    beyond: Mapping[str, str] = field(default_factory=dict)

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry of a JSON object with `command` or a URL."""
        self.check_keys(value)
        kind = value.get("type", value.get("transport", ""))
        url = next((value[key] for key in self.url_keys if value.get(key)), None)
        if url is not None:
            if kind not in ("", "http", "streamable-http", "streamableHttp", "streamable_http", "sse", "remote"):
                raise Inexpressible(f"its transport {kind!r} is not one of MCP's: expected http or sse")
            target: Stdio | Http = make_http(url, value.get("headers"), "sse" if kind == "sse" else "auto", references)
        else:
            target = make_stdio(value.get("command"), value.get("args"), value.get("env"), value.get("cwd"), references)
        enabled = value.get("disabled") is not True and value.get("enabled") is not False
        return self.finish(Entry(name, target, enabled), value)

    def check_keys(self, value: Mapping[str, Any]) -> None:
        """Raise Inexpressible for an entry with a key that the hub cannot follow."""
        for key, sentence in self.beyond.items():
            if value.get(key):
                raise Inexpressible(sentence)

    def finish(self, entry: Entry, value: Mapping[str, Any]) -> Entry:
        """Add the time limit and the choice of tools."""
        key, unit = self.seconds
        given = value.get(key) if key else None
        limit = given * unit if isinstance(given, int | float) and not isinstance(given, bool) else 0
        return replace(
            entry,
            seconds=float(limit) if 0 < limit <= MAX_SECONDS else None,
            include=_names(value.get(self.include)) if self.include else (),
            exclude=_names(value.get(self.exclude)) if self.exclude else (),
        )

    def write_url(self, name: str, url: str, token: Token | None, reference: str) -> dict[str, Any]:
        """Make the entry of a URL."""
        entry: dict[str, Any] = {"type": self.kind} if self.kind else {}
        entry[self.url_keys[0]] = url
        return entry | ({"headers": {"Authorization": token.header(reference)}} if token else {})

    def write_program(self, name: str, words: list[str]) -> dict[str, Any]:
        """Make the entry of a program."""
        entry: dict[str, Any] = {"type": self.stdio_kind} if self.stdio_kind else {}
        return entry | {"command": words[0], "args": words[1:]}


MAX_SECONDS = 86400
"""Seconds of the longest time limit that a server of the hub can have."""


class ZedFamily(Family):
    """Zed: an older form has an object as `command`; entries of extensions have settings only."""

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry."""
        command = value.get("command")
        if isinstance(command, Mapping):
            value = {**value, **command, "command": command.get("path")}
        if not value.get("url") and not value.get("command"):
            raise Inexpressible("it is an extension of Zed, which only Zed can start")
        return Family.read(self, name, value, references)


class CodexFamily(Family):
    """Codex: variables are named, not written into values."""

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry."""
        self.check_keys(value)
        if value.get("url"):
            named = texts(value.get("env_http_headers"), "env_http_headers")
            headers = dict(make_http(value["url"], value.get("http_headers"), "auto", references).headers)
            headers |= {header: references.variable(variable) for header, variable in named.items()}
            bearer = value.get("bearer_token_env_var")
            headers |= {"Authorization": f"Bearer {references.variable(bearer)}"} if isinstance(bearer, str) else {}
            target: Stdio | Http = Http(references.url(value["url"]), headers)
        else:
            forwarded = [one["name"] if isinstance(one, Mapping) else one for one in value.get("env_vars") or []]
            target = make_stdio(value.get("command"), value.get("args"), value.get("env"), value.get("cwd"), references)
            target = replace(target, env={**target.env, **{one: references.variable(one) for one in forwarded}})
        return self.finish(Entry(name, target, value.get("enabled") is not False), value)

    def write_url(self, name: str, url: str, token: Token | None, reference: str) -> dict[str, Any]:
        """Make the entry of a URL."""
        if token and token.variable:
            return {"url": url, "bearer_token_env_var": token.variable}
        return {"url": url} | ({"http_headers": {"Authorization": token.header("")}} if token else {})


class GooseFamily(Family):
    """Goose: entries are extensions; secrets of its key ring are named in `env_keys`."""

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry."""
        kind = value.get("type")
        kept = {one: references.variable(one) for one in value.get("env_keys") or []}
        if kind == "stdio":
            words = make_stdio(value.get("cmd"), value.get("args"), value.get("envs"), None, references)
            target: Stdio | Http = replace(words, env={**words.env, **kept})
        elif kind in ("streamable_http", "sse"):
            target = make_http(value.get("uri"), value.get("headers"), "sse" if kind == "sse" else "auto", references)
        else:
            raise Inexpressible(f"it is a part of Goose (type {kind}), which only Goose can start")
        return self.finish(Entry(name, target, value.get("enabled") is not False), value)

    def write_url(self, name: str, url: str, token: Token | None, reference: str) -> dict[str, Any]:
        """Make the entry of a URL."""
        entry = {"name": name, "type": "streamable_http", "uri": url, "enabled": True, "timeout": 300}
        if token is None:
            return entry
        keys = {"env_keys": [token.variable]} if token.variable else {}
        return entry | keys | {"headers": {"Authorization": token.header(reference)}}

    def write_program(self, name: str, words: list[str]) -> dict[str, Any]:
        """Make the entry of a program."""
        return {"name": name, "type": "stdio", "cmd": words[0], "args": words[1:], "enabled": True, "timeout": 300}


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


def _names(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
