"""Text for the terminal: messages on standard error, tables, quoted words; commands that are imported when used."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Any, NamedTuple, NoReturn

import click

from patchbay.serving.garbage import without_collections
from patchbay.settings import whole_environment
from patchbay.suggestions import describe_unknown_name
from patchbay.terminal import choose_color

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_TYPED = "patchbay.typed"
COMPLETION = "patchbay.cli.completion.values"
"""The module that a shell's question for completion needs."""

WORDS_OF_OTHERS = {
    "serve": ("dev", "gateway", "hub", "launch", "server", "start", "up"),
    "list": ("ls", "ps", "servers", "status"),
    "show": ("describe", "get", "info", "tools"),
    "call": ("call-tool", "exec", "execute", "invoke", "tool", "use"),
    "inspect": ("discover", "explore", "inspector"),
    "mount": ("connect", "proxy", "remote"),
    "new": ("create", "init"),
    "remove": ("delete", "rm"),
    "settings": ("config", "configure", "options"),
    "pins": ("pin", "lock"),
    "logs": ("log",),
    "open": ("dashboard", "ui", "web"),
    "key": ("apikey", "keys"),
    "secret": ("env", "secrets"),
}
"""Words for the commands of this program that users know from other programs."""

EXAMPLES = "\b\nExamples"
"""How the examples of a help page begin."""


def make_printable(text: str) -> str:
    """Replace the characters that control a terminal or the text direction; tabs and line breaks stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def indent_lines(text: str) -> str:
    """Indent each line after the first of a server's text, so that it does not look like a line of this program."""
    return "\n    ".join(re.split(r"\r\n|[\n\r\u2028\u2029]", text))


MOVING: list[Callable[[], None]] = []
"""Functions that remove a progress bar or a spinner from the terminal, one for each that is shown."""


def remove_progress() -> None:
    """Remove progress bars and spinners from the terminal, so that the next output begins on a line of its own."""
    for remove in list(MOVING):
        remove()


def write_note(text: str) -> None:
    """Write a message to standard error."""
    remove_progress()
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


def show_examples_first(command: click.Command) -> None:
    """Move the examples of a command's help page, and of the commands below it, before the options."""
    examples, _, rest = (command.epilog or "").partition("\n\n")
    if examples.startswith(EXAMPLES):
        command.help, command.epilog = f"{cleandoc(command.help or '')}\n\n{examples}", rest
    for one in command.commands.values() if isinstance(command, click.Group) else ():
        show_examples_first(one)


class LateCommandGroup(click.Group):
    """A root group that remembers the typed command line, and imports only the command that is used."""

    def __init__(
        self,
        *arguments: Any,
        late: Mapping[str, LateCommand],
        sections: Mapping[str, Sequence[str]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.late = late
        self._sections = sections or {}

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the program. A shell that asks for completion gets the forms of the hub, which `COMPLETION` registers."""
        if any(name.startswith("_") and name.endswith("_COMPLETE") for name in whole_environment()):
            import_module(COMPLETION)
        return super().main(*args, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember the arguments, and whether to write colours; then parse the arguments.

        Raises UsageError for an option of a command without the command.
        """
        ctx.color = choose_color(whole_environment())
        ctx.meta[_TYPED] = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as problem:
            sentence = (
                f"{problem.format_message()} Options come after a command: `{ctx.command_path} --help` lists them"
            )
            raise click.UsageError(sentence, ctx) from problem

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names of all commands."""
        return list(self.late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command with this name."""
        if cmd_name not in self.late:
            return None
        module, _, name = self.late[cmd_name].place.partition(":")
        with without_collections():
            command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        show_examples_first(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first argument. Raises UsageError with similar names for an unknown one."""
        name = args[0]
        if name not in self.late and not name.startswith("-"):
            raise click.UsageError(
                f"{self._describe_unknown(name)} Run `{ctx.command_path} --help` for all commands.", ctx
            )
        return super().resolve_command(ctx, args)

    def _describe_unknown(self, name: str) -> str:
        """Say that there is no command of this name, with the command that does what other programs call so."""
        if name in ("help", "version"):
            return f"there is no command {name!r}; write --{name}."
        meant = next((one for one, words in WORDS_OF_OTHERS.items() if name in words and one in self.late), None)
        if meant is not None:
            return f"there is no command {name!r}; did you mean {meant!r} ({self.late[meant].gist.rstrip('.')})?"
        unknown = describe_unknown_name(name, list(self.late), "command").removesuffix(".")
        return unknown if unknown.endswith("?") else f"{unknown}."

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands of the help page, by section."""
        width = max(len(name) for name in self.late)
        limit = formatter.width - 6 - width
        for title, names in self.sections().items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), self.late[name].short(limit)) for name in names])

    def sections(self) -> dict[str, list[str]]:
        """The sections of the help page with their commands; commands without a section come last."""
        found = {title: [name for name in names if name in self.late] for title, names in self._sections.items()}
        placed = {name for names in found.values() for name in names}
        rest = [name for name in self.late if name not in placed]
        return found | ({"More commands" if found else "Commands": rest} if rest else {})


def format_rows(rows: Sequence[Sequence[str]]) -> str:
    """Format rows, titles included, with two spaces between the columns. All rows have the same number of cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
