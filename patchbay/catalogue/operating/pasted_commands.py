"""Command lines that documentation prints: one that starts a server, or one of an MCP client that adds a server.

    npx -y PACKAGE [WORD...]                                 also uvx, docker run -i, node, python, any program
    NAME=VALUE ... COMMAND, env NAME=VALUE ... COMMAND       with variables
    claude|codex|gemini mcp add [OPTION...] NAME [--] COMMAND [WORD...], or URL
    claude mcp add-json NAME JSON, code --add-mcp JSON
    patchbay mount NAME ADDRESS

A line is split as a shell splits it. No shell runs: a line that needs one is refused.
Sources: code.claude.com/docs/en/mcp; developers.openai.com/codex/mcp; the documentation of Gemini CLI and VS Code.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from patchbay.errors import ConfigError

WHERE = "the pasted text"

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PROMPT = re.compile(r"^\s*[$>%]\s+")
_OF_A_SHELL = re.compile(r"^(&&?|\|\|?|[0-9]?>>?(&[0-9])?|<<?<?)$|^;|\w;$")
_PROGRAM = re.compile(r"[\w@.~/\\:+-]*\w[\w@.~/\\:+-]*")
_ADDING = {"claude": "claude", "codex": "codex", "gemini": "gemini", "qwen": "qwen"}
_KINDS = {"--transport": "type", "-t": "type", "--type": "type"}
_VARIABLES = ("--env", "-e")
_HEADERS = ("--header", "-H")
_SKIPPED = ("--scope", "-s", "--timeout", "--description")
_EDITORS = ("code", "code-insiders", "codium")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What a line says: the entry of a client, the JSON of one, or an address of the hub; `name` may be empty."""

    name: str = ""
    entry: dict[str, Any] = field(default_factory=dict)
    json: str = ""
    address: str = ""


def read_command_line(line: str) -> CommandLine:
    """Read one line. Raises ConfigError for one that no program can be started with."""
    try:
        words = shlex.split(_PROMPT.sub("", line.strip()))
    except ValueError as problem:
        raise ConfigError(
            WHERE, "", f"expected a command line, but a quotation mark has no end ({problem})"
        ) from problem
    shell = next((word for word in words if _OF_A_SHELL.search(word) or "$(" in word or "`" in word), None)
    if shell is not None:
        expected = f"expected one program with its words; {shell:.40} needs a shell, and the hub starts none"
        raise ConfigError(WHERE, "", expected)
    words, variables = _split_variables(words)
    if not words:
        raise ConfigError(WHERE, "", "expected a program after the variables")
    if words[1:3] == ["mcp", "add"] and words[0] in _ADDING:
        return _read_adding(words[0], words[3:])
    if words[1:3] == ["mcp", "add-json"] and words[0] in _ADDING:
        given = [word for word in words[3:] if not word.startswith("-")]
        if len(given) != 2:
            raise ConfigError(WHERE, "", f"expected a name and JSON after {words[0]} mcp add-json")
        return CommandLine(given[0], json=given[1])
    if words[0] in _EDITORS and "--add-mcp" in words[:-1]:
        return CommandLine(json=words[words.index("--add-mcp") + 1])
    if words[:2] == ["patchbay", "mount"] and len(words) == 4:
        return CommandLine(words[2], address=words[3])
    if "://" in words[0] or not _PROGRAM.fullmatch(words[0]):
        expected = "paste a configuration, a command line or one address"
        raise ConfigError(WHERE, "", f"{words[0]:.60} is not a program: {expected}")
    return CommandLine(entry=_program(words, variables))


def _split_variables(words: list[str]) -> tuple[list[str], dict[str, str]]:
    words = words[1:] if words[:1] == ["env"] else words
    variables: dict[str, str] = {}
    while words and (found := _ASSIGNMENT.fullmatch(words[0])):
        variables[found[1]] = found[2]
        words = words[1:]
    return words, variables


def _program(words: list[str], variables: dict[str, str]) -> dict[str, Any]:
    return {"command": words[0], "args": words[1:]} | ({"env": variables} if variables else {})


def _read_adding(client: str, words: list[str]) -> CommandLine:
    """Read what follows `CLIENT mcp add`."""
    entry: dict[str, Any] = {}
    variables: dict[str, str] = {}
    headers: dict[str, str] = {}
    plain: list[str] = []
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if word == "--" or (plain[1:] and entry.get("type") not in ("http", "sse")):
            plain += [*([] if word == "--" else [word]), *left]
        elif option in _VARIABLES:
            variables |= _pair(value if equals else _next(left, word), "=", word)
        elif option in _HEADERS:
            headers |= _pair(value if equals else _next(left, word), ":", word)
        elif option == "--url":
            plain.append(value if equals else _next(left, word))
        elif option in _KINDS:
            entry["type"] = value if equals else _next(left, word)
        elif option in _SKIPPED:
            _ = value if equals else _next(left, word)
        elif word.startswith("-"):
            raise ConfigError(WHERE, "", f"expected no option {option} in {client} mcp add: the hub does not know it")
        else:
            plain.append(word)
    if len(plain) < 2:
        raise ConfigError(WHERE, "", f"expected a name, and a command or a URL, after {client} mcp add")
    name, *rest = plain
    if len(rest) == 1 and rest[0].lower().startswith(("http://", "https://")):
        entry |= {"url": rest[0]} | ({"headers": headers} if headers else {})
        return CommandLine(name, entry | ({"type": "http"} if entry.get("type") == "stdio" else {}))
    return CommandLine(name, _program(rest, variables))


def _next(left: Iterator[str], option: str) -> str:
    found = next(left, None)
    if found is None:
        raise ConfigError(WHERE, "", f"expected a value after {option}")
    return found


def _pair(text: str, sign: str, option: str) -> dict[str, str]:
    name, there, value = text.partition(sign)
    if not there:
        raise ConfigError(WHERE, "", f"expected NAME{sign}VALUE after {option}")
    return {name.strip(): value.strip()}
