"""Shell definitions: exactly one tool, named like the server; recognize shell scripts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from patchbay.descriptors import Descriptor, Discovery, encodable
from patchbay.errors import ConfigError

ONE_LINER = "@bash_command"
"""The first word of a definition that is one command: `@bash_command jq`."""

SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish"))
NOT_WORDS = re.compile(r"#\s*(?:shellcheck\s|-\*-|vim?:|!)")
"""Comments that are directives for programs."""

INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "args": {"type": "string", "description": "Command line arguments.", "x-alias": "command_args"},
        "input": {"type": "string", "description": "Text for the standard input."},
    },
    "additionalProperties": False,
}


def discover_tool(name: str, text: str) -> Discovery:
    """Return the one tool of a shell definition. Raises ConfigError when it names no command."""
    lines = text.splitlines() or [""]
    command = name
    if lines[0].startswith(ONE_LINER):
        command = lines[0].removeprefix(ONE_LINER).strip()
        if not command:
            raise ConfigError(name, "line 1", f"expected the name of a command after {ONE_LINER}")
    description = opening_comment(lines) or f"Run {command}"
    wire = {"name": name, "description": description, "inputSchema": INPUT_SCHEMA}
    return Discovery((Descriptor("tool", name, wire, {}, "discovered"),), (), description)


def opening_comment(lines: Sequence[str]) -> str:
    """Return the first paragraph of the opening comment of a script, on one line; empty without one."""
    opening = lines[1:] if lines and lines[0].startswith((ONE_LINER, "#!")) else lines
    words: list[str] = []
    for line in opening:
        text = line.strip()
        if text.startswith("#") and not NOT_WORDS.match(text):
            content = text.strip("# \t")
            if not content and words:
                break
            words.extend(content.split())
        elif words or (text and not text.startswith("#")):
            break
    return encodable(" ".join(words))


def is_shell(source: bytes) -> bool:
    """Whether a definition begins with a shell's shebang or `@bash_command`."""
    first = source[:1024].removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].decode("utf-8", "replace")
    marked = first.split(maxsplit=1)[:1] == [ONE_LINER]
    return marked or interpreter(first) in SHELLS


def interpreter(first: str) -> str:
    """Return the program of a first line such as `#!/usr/bin/env -S bash -e`, without its folder; empty without one."""
    if not first.startswith("#!"):
        return ""
    names = (word.rpartition("/")[2] for word in first[2:].split() if not word.startswith("-") and "=" not in word)
    return next((name for name in names if name != "env"), "")
