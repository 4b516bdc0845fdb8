"""`filter`: records through jq, one program for all of them.

Sources: JN-38, JN-C16, J-F10.
"""

from __future__ import annotations

import click
import jq

from patchbay.cli.broken_pipe import watched_output
from patchbay.cli.failures import ending
from patchbay.cli.messages import note
from patchbay.cli.ndjson import Failures, emit, emit_text, standard_input
from patchbay.errors import ConfigError
from patchbay.exit_codes import with_examples


@click.command(
    "filter",
    epilog=with_examples(
        'jn cat "@biomcp/search?gene=BRAF" | jn filter \'select(.text | contains("Phase 3"))\'',
        "jn cat \"@biomcp?list=tools\" | jn filter '.name'",
        "jn cat \"@biomcp/search?gene=BRAF\" | jn filter -r '.text'",
    ),
)
@click.argument("expression")
@click.option("-r", "--raw-output", "--text", "raw", is_flag=True, help="Write strings as they are, without quotes.")
def filter_(expression: str, raw: bool) -> None:
    """Put every JSON value of standard input through a jq EXPRESSION; what it gives is written line by line.

    Values stand one per line, or as jq reads them: several on a line, one over many lines. One on which the
    expression fails is told on standard error, and the next one is tried.
    """
    failures = Failures()
    write = emit_text if raw else emit
    with ending(), watched_output():
        try:
            program = jq.compile(expression)
        except ValueError as problem:
            raise ConfigError("the expression", "", f"expected jq; {problem}") from problem
        for record in standard_input(failures.told, objects=False):
            try:
                for value in program.input_value(record):
                    write(value)
            except ValueError as problem:
                failures.count += 1
                note(f"filter: {problem}")
        failures.finish()
