"""Records on standard output: lines of JSON in a pipe, and what a person reads on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Literal

import click

from patchbay import exit_codes
from patchbay.cli.records.for_people import describe_record, format_json, indent_json
from patchbay.cli.records.ndjson import Record, format_line
from patchbay.cli.terminal.messages import make_printable, remove_progress, write_note
from patchbay.terminal import is_terminal

Style = Literal["text", "json"] | None
"""How records are written: their text, lines of JSON, or, without a choice, as the reader needs them."""

WRONG_CALLS = ("the arguments do not fit", "there is no tool")
"""How the result of a call begins when the caller can correct the call."""


def emit(record: Any, style: Style = None) -> None:
    """Write a record to standard output and flush it. A record without text is JSON in the style `text` too."""
    remove_progress()
    text = record if isinstance(record, str) else record.get("text") if isinstance(record, Mapping) else None
    if style == "text" and isinstance(text, str):
        shown = make_printable(text) if is_terminal(sys.stdout) else text
        click.echo(shown, nl=not text.endswith("\n"), color=False)
    elif style != "json" and is_terminal(sys.stdout):
        for line in describe_record(record):
            click.echo(line)
    else:
        click.echo(format_line(record), color=False)


def emit_failure(record: Record, style: Style = None) -> None:
    """Write the record of an error that the command reports as a sentence too; a person needs the sentence only."""
    if style == "json" or not (is_terminal(sys.stdout) and is_terminal(sys.stderr)):
        emit(record, style)


def print_json(value: Any) -> None:
    """Print a JSON value, indented, with colours on a terminal."""
    remove_progress()
    click.echo((format_json if is_terminal(sys.stdout) else indent_json)(value))


class FailureCounter:
    """Writes records and counts those of errors; the exit code depends on the count."""

    def __init__(self, style: Style = None) -> None:
        self.count = 0
        self.style: Style = style
        self._has_wrong_call = False

    def count_record(self, record: Any) -> Any:
        """Count the record if it is an error; return it."""
        is_error = isinstance(record, Mapping) and bool(record.get("_error") or record.get("isError"))
        self.count += is_error
        self._has_wrong_call |= is_error and str(record.get("text", "")).startswith(WRONG_CALLS)
        return record

    def emit(self, record: Any) -> None:
        """Count a record if it is an error, and write it."""
        emit(self.count_record(record), self.style)

    def report(self, record: Record) -> None:
        """Count and write an error record, as JSON in a pipe whatever the style."""
        emit(self.count_record(record), "json" if self.style == "json" else None)

    def finish(self) -> None:
        """End the process with an exit code if there were error records."""
        if self._has_wrong_call:
            write_note("Next: `patchbay inspect ADDRESS` shows the tools and their arguments")
        if self.count:
            sys.exit(exit_codes.FAILED)
