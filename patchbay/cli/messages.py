"""Messages on standard error, with control characters replaced; groups of commands that are imported when used."""

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


def make_printable(text: str) -> str:
    """Replace the characters that control a terminal or the text direction; tabs and line breaks stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def write_note(text: str) -> None:
    """Write a message to standard error."""
    click.echo(make_printable(text), err=True)


def program_name() -> str:
    """The name of the program: `patchbay` or `jn`."""
    context = click.get_current_context(silent=True)
    name = context.find_root().info_name if context is not None else None
    return name if name in ("patchbay", "jn") else "patchbay"


def fail(sentence: str, code: int) -> NoReturn:
    """Print an error and end the process with this exit code."""
    write_note(f"{program_name()}: {sentence}")
    sys.exit(code)


def typed_command() -> str:
    """The command line of the user, quoted for a shell."""
    context = click.get_current_context(silent=True)
    words = context.find_root().meta.get(_TYPED, []) if context is not None else []
    return " ".join([program_name(), *(quote_word(word) for word in words)])


def quote_word(word: str) -> str:
    """Quote a word for a shell, with double quotes where they are enough."""
    if _PLAIN.fullmatch(word):
        return word
    return f'"{word}"' if not re.search(r'["\\$`!\n]', word) else "'" + word.replace("'", "'\"'\"'") + "'"


class LateCommand(NamedTuple):
    """A command that is imported when it is used: `module:attribute`, and its summary for the list of commands."""

    place: str
    gist: str

    def short(self, limit: int) -> str:
        """The summary, shortened by click."""
        return click.Command(None, help=self.gist).get_short_help_str(limit)


class LateCommandGroup(click.Group):
    """A root group that remembers the typed command line, and imports only the command that is used."""

    def __init__(self, *arguments: Any, late: Mapping[str, LateCommand], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.late = late

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember the arguments, then parse them."""
        ctx.meta[_TYPED] = list(args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names of all commands."""
        return list(self.late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command with this name."""
        if cmd_name not in self.late:
            return None
        module, _, name = self.late[cmd_name].place.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands of the help page."""
        limit = formatter.width - 6 - max(len(name) for name in self.late)
        with formatter.section("Commands"):
            formatter.write_dl([(name, late.short(limit)) for name, late in self.late.items()])
