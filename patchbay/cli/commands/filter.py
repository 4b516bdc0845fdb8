"""The command `filter`: apply a jq program to records."""

from __future__ import annotations

import click
import jq

from patchbay.cli.records.ndjson import read_standard_input
from patchbay.cli.records.output import FailureCounter, emit
from patchbay.cli.terminal.broken_pipe import watch_output
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import write_note
from patchbay.errors import ConfigError
from patchbay.exit_codes import GREETER, with_examples


@click.command(
    "filter",
    epilog=with_examples(
        'patchbay cat "/mcp/greeter/greet?name=Ann" | patchbay filter \'select(.text | contains("Ann"))\'',
        "patchbay cat \"/mcp/greeter?list=tools\" | patchbay filter '.name'",
        "patchbay cat \"/mcp/greeter/greet?name=Ann\" | patchbay filter -r '.text'",
        after=GREETER,
    ),
)
@click.argument("expression")
@click.option("-r", "--raw-output", "--text", "raw", is_flag=True, help="Write strings as they are, without quotes.")
def filter_(expression: str, raw: bool) -> None:
    """Apply a jq EXPRESSION to each JSON value of a pipe. Write each result on a line.

    Input is read like jq reads it: one value per line, several on a line, or one over many lines. When the expression
    fails for a value, the error is written to standard error, and the next value follows.
    """
    failures = FailureCounter()
    with exit_on_error(), watch_output():
        try:
            program = jq.compile(expression)
        except ValueError as problem:
            raise ConfigError(
                "the expression", "", f"expected jq (`patchbay filter --help` has examples); {problem}"
            ) from problem
        for record in read_standard_input(failures.report, objects=False):
            try:
                for value in program.input_value(record):
                    emit(value, "text" if raw else None)
            except ValueError as problem:
                failures.count += 1
                write_note(f"filter: {problem}")
        failures.finish()
