"""Shell definitions: exactly one tool, called like the server; and what tells a shell script from Python.

Sources: REQUIREMENTS VWR-23, V-C6, V-F10, V-F11, T11.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from patchbay.descriptors import Descriptor, Discovery, encodable
from patchbay.errors import ConfigError

MARK = "@bash_command"
"""The first word of a definition that is one command: `@bash_command jq`."""

SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish"))
NOT_WORDS = re.compile(r"#\s*(?:shellcheck\s|-\*-|vim?:|!)")
"""Comments meant for programs."""

INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "args": {"type": "string", "description": "Command line arguments.", "x-alias": "command_args"},
        "input": {"type": "string", "description": "Text for the standard input."},
    },
    "additionalProperties": False,
}


def shell(name: str, text: str) -> Discovery:
    """The one tool of a shell definition called `name`. Raises ConfigError when it names no command."""
    lines = text.splitlines() or [""]
    command = name
    if lines[0].startswith(MARK):
        command = lines[0].removeprefix(MARK).strip()
        if not command:
            raise ConfigError(name, "line 1", f"expected the name of a command after {MARK}")
    description = comment(lines) or f"Run {command}"
    wire = {"name": name, "description": description, "inputSchema": INPUT_SCHEMA}
    return Discovery((Descriptor("tool", name, wire, {}, "discovered"),), (), description)


def comment(lines: Sequence[str]) -> str:
    """The first paragraph of the comment that opens a script, on one line; empty when there is none."""
    opening = lines[1:] if lines and lines[0].startswith((MARK, "#!")) else lines
    words: list[str] = []
    for line in opening:
        text = line.strip()
        if text.startswith("#") and not NOT_WORDS.match(text):
            said = text.strip("# \t")
            if not said and words:
                break
            words.extend(said.split())
        elif words or (text and not text.startswith("#")):
            break
    return encodable(" ".join(words))


def is_shell(source: bytes) -> bool:
    """Whether a definition begins with a shell's shebang or `@bash_command` (V-F10)."""
    first = source[:1024].removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].decode("utf-8", "replace")
    marked = first.split(maxsplit=1)[:1] == [MARK]
    return marked or interpreter(first) in SHELLS


def interpreter(first: str) -> str:
    """The program that a first line such as `#!/usr/bin/env -S bash -e` names, without its folder; else empty."""
    if not first.startswith("#!"):
        return ""
    names = (word.rpartition("/")[2] for word in first[2:].split() if not word.startswith("-") and "=" not in word)
    return next((name for name in names if name != "env"), "")
