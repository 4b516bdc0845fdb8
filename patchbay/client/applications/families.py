"""The families of applications whose entries have a form of their own: how each reads and writes an entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchbay.client.addresses.targets import Http, Stdio
from patchbay.client.applications.entries import Entry, Family, Token, make_http, make_stdio, refuse, texts
from patchbay.client.applications.references import Inexpressible, References


class ZedFamily(Family):
    """Zed: an older form has an object as `command`; entries of extensions have settings only."""

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry."""
        command = value.get("command")
        if isinstance(command, Mapping):
            rest = {key: one for key, one in command.items() if key != "path"}
            value = {**value, **rest, "command": command.get("path")}
        if not value.get("url") and not value.get("command"):
            raise Inexpressible("it is an extension of Zed, which only Zed can start")
        own = {key: one for key, one in value.items() if (key, one) != ("source", "custom")}
        return Family.read(self, name, own, references)


class CodexFamily(Family):
    """Codex: variables are named, not written into values."""

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry."""
        refuse(value)
        if value.get("url"):
            if value.get("command"):
                raise Inexpressible("it has command and url: expected one of the two")
            named = texts(value.get("env_http_headers"), "env_http_headers")
            headers = dict(make_http(value["url"], value.get("http_headers"), "auto", references).headers)
            headers |= {header: references.variable(variable) for header, variable in named.items()}
            bearer = value.get("bearer_token_env_var")
            headers |= {"Authorization": f"Bearer {references.variable(bearer)}"} if bearer else {}
            target: Stdio | Http = Http(references.url(value["url"]), headers)
            taken: tuple[str, ...] = ("url", "http_headers", "env_http_headers", "bearer_token_env_var")
        else:
            given = value.get("env_vars") or []
            forwarded = [str(one.get("name")) if isinstance(one, Mapping) else one for one in given]
            target = make_stdio(value.get("command"), value.get("args"), value.get("env"), value.get("cwd"), references)
            target = replace(target, env={**target.env, **{one: references.variable(one) for one in forwarded}})
            taken = ("command", "args", "env", "cwd", "env_vars")
        return self.finish(Entry(name, target), value, taken, references)

    def write_url(self, name: str, url: str, token: Token | None, reference: str) -> dict[str, Any]:
        """Make the entry of a URL."""
        if token and token.variable:
            return {"url": url, "bearer_token_env_var": token.variable}
        return {"url": url} | ({"http_headers": {"Authorization": token.header("")}} if token else {})


class GooseFamily(Family):
    """Goose: entries are extensions; secrets of its key ring are named in `env_keys`."""

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry."""
        refuse(value)
        kind = value.get("type")
        kept = {one: references.variable(one) for one in value.get("env_keys") or []}
        if kind == "stdio":
            words = make_stdio(value.get("cmd"), value.get("args"), value.get("envs"), value.get("cwd"), references)
            target: Stdio | Http = replace(words, env={**words.env, **kept})
            taken: tuple[str, ...] = ("cmd", "args", "envs", "cwd", "env_keys")
        elif kind in ("streamable_http", "sse"):
            target = make_http(value.get("uri"), value.get("headers"), "sse" if kind == "sse" else "auto", references)
            taken = ("uri", "headers", "env_keys", "envs")
        else:
            raise Inexpressible(f"it is a part of Goose (type {kind}), which only Goose can start")
        return self.finish(Entry(name, target), value, taken, references)

    def allows_all(self, key: str) -> bool:
        """Whether an empty list of allowed tools allows all tools: in Goose it does."""
        return key == self.include

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


class ClineFamily(Family):
    """Cline: the transport may be an object of its own."""

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry."""
        inner = value.get("transport")
        if isinstance(inner, Mapping):
            value = {**{key: one for key, one in value.items() if key != "transport"}, **inner}
        return Family.read(self, name, value, references)


class OpencodeFamily(Family):
    """opencode: the command is a list with the arguments; version 2 has a time limit for each step."""

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry."""
        words, timeout = value.get("command"), value.get("timeout")
        if not words and not value.get("url"):
            raise Inexpressible("it switches a server that another file describes: import that file")
        if isinstance(words, list):
            given = {key: one for key, one in value.items() if key != "environment"}
            value = {**given, "command": words[0], "args": words[1:], "env": value.get("environment")}
        if isinstance(timeout, Mapping):
            value = {**value, "timeout": timeout.get("request")}
        return Family.read(self, name, value, references)

    def write_program(self, name: str, words: list[str]) -> dict[str, Any]:
        """Make the entry of a program."""
        return {"type": self.stdio_kind, "command": words}


class ContinueFamily(Family):
    """Continue: headers are inside `requestOptions` in YAML; a JSON file has the form of Claude Code."""

    def read(self, name: str, value: Mapping[str, Any], references: References) -> Entry:
        """Read an entry."""
        options = value.get("requestOptions")
        if isinstance(options, Mapping):
            given = {key: one for key, one in value.items() if key != "requestOptions"}
            others = {f"requestOptions.{key}": one for key, one in options.items() if key != "headers"}
            value = {**given, **others, **({"headers": options["headers"]} if options.get("headers") else {})}
        return Family.read(self, name, value, references)
