"""Words for people, on standard error; what a server said is made harmless before a terminal sees it.

Sources: JN-46; THREATS (control characters in what a server says).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import click

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_TYPED = "patchbay.typed"


def printable(text: str) -> str:
    """A text without the characters that steer a terminal or turn the direction of writing; tabs and lines stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def note(text: str) -> None:
    """Say something on standard error."""
    click.echo(printable(text), err=True)


def program() -> str:
    """The command's own name: `patchbay` or `jn`."""
    context = click.get_current_context(silent=True)
    name = context.find_root().info_name if context is not None else None
    return name if name in ("patchbay", "jn") else "patchbay"


def fail(sentence: str, code: int) -> NoReturn:
    """Say what is wrong and end with this exit code."""
    note(f"{program()}: {sentence}")
    sys.exit(code)


def typed() -> str:
    """The command as it was typed, quoted as a person would quote it."""
    context = click.get_current_context(silent=True)
    words = context.find_root().meta.get(_TYPED, []) if context is not None else []
    return " ".join([program(), *(quoted(word) for word in words)])


def quoted(word: str) -> str:
    """A word for a shell, in double quotes where these do."""
    if _PLAIN.fullmatch(word):
        return word
    return f'"{word}"' if not re.search(r'["\\$`!\n]', word) else "'" + word.replace("'", "'\"'\"'") + "'"


class LateCommand(NamedTuple):
    """A command that is loaded when it is used: `module:attribute`, and its gist for the list of commands."""

    place: str
    gist: str

    def short(self, limit: int) -> str:
        """The gist as click shortens it."""
        return click.Command(None, help=self.gist).get_short_help_str(limit)


class Commands(click.Group):
    """A group at the root: it remembers what was typed, and loads none of its commands but the one that is used."""

    def __init__(self, *arguments: Any, late: Mapping[str, LateCommand], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.late = late

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words apart, after keeping them."""
        ctx.meta[_TYPED] = list(args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(self.late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in self.late:
            return None
        module, _, name = self.late[cmd_name].place.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for the help page."""
        limit = formatter.width - 6 - max(len(name) for name in self.late)
        with formatter.section("Commands"):
            formatter.write_dl([(name, late.short(limit)) for name, late in self.late.items()])
