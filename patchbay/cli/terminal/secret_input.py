"""Reads a secret value for a command: from a prompt without echo, from standard input, or from a file.

It is never an argument, which other users of the machine see and the shell remembers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from patchbay import exit_codes
from patchbay.access.secrets.names import MAX_VALUE_BYTES
from patchbay.cli.terminal.messages import fail
from patchbay.terminal import is_terminal

STANDARD_INPUT = "-"


def read_secret(label: str, file: str, command: str, is_hidden: bool = True) -> str:
    """Return a value, without its last line break. `file` is STANDARD_INPUT, a path, or "" for a prompt with `label`.

    `command` is what the user typed, for the message. Without `is_hidden` the prompt shows what is typed. Ends the
    process without a terminal to ask, for a file that cannot be read, and for a text that is not UTF-8.
    """
    if not file and is_terminal(sys.stdin):
        return str(click.prompt(label, hide_input=is_hidden, err=True))
    if not file:
        fail(f"there is no terminal to ask for the value: expected `{command} FILE`, or -", exit_codes.USAGE)
    try:
        if file == STANDARD_INPUT:
            data = sys.stdin.buffer.read(MAX_VALUE_BYTES + 3)
        else:
            with Path(file).expanduser().open("rb") as opened:
                data = opened.read(MAX_VALUE_BYTES + 3)
    except OSError as problem:
        # What was typed may be the secret itself: it is not shown.
        fail(
            f"the file that should hold the value cannot be read ({problem.strerror}); the value itself is never an"
            " argument",
            exit_codes.USAGE,
        )
    text = data.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return text.decode()
    except UnicodeDecodeError:
        fail("the value of a secret: expected text in UTF-8", exit_codes.USAGE)
