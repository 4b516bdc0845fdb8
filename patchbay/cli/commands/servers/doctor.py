"""The command `patchbay doctor`: check everything that a hub needs, and name the command that fixes each problem."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from patchbay import exit_codes
from patchbay.cli.doctor.hub import check_hub
from patchbay.cli.doctor.machine import check_machine
from patchbay.cli.doctor.servers import check_servers
from patchbay.cli.doctor.verdicts import CheckResult
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import find_running_hub, load_hub_settings
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import make_printable, write_note
from patchbay.cli.terminal.progress_display import Display
from patchbay.settings import Settings, whole_environment

MARKS = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}


@click.command(
    "doctor",
    epilog=exit_codes.with_examples("patchbay doctor", "patchbay doctor --json", "patchbay doctor --port 9000"),
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of all verdicts.")
@with_hub
@click.pass_context
def doctor_command(context: click.Context, /, as_json: bool, **_: Any) -> None:
    """Check the hub, and name the command that fixes each problem. Nothing is changed.

    Give it the options of `patchbay serve`. The exit code is 1 when there is a problem. With a warning the hub works,
    but something is limited.
    """
    with exit_on_error():
        settings = load_hub_settings(context)
        with Display().waiting("checking"):
            found = list(check_all(settings))
        if as_json:
            click.echo(json.dumps([asdict(verdict) for verdict in found], indent=2, ensure_ascii=False))
        else:
            for verdict in found:
                click.echo(make_printable(format_verdict(verdict)))
            problems = sum(verdict.grade == "problem" for verdict in found)
            write_note(f"{problems} problems" if problems else "No problem was found.")
        sys.exit(exit_codes.FAILED if any(verdict.grade == "problem" for verdict in found) else exit_codes.OK)


def check_all(settings: Settings) -> Iterator[CheckResult]:
    """Yield all verdicts."""
    hub = find_running_hub(settings)
    environ = whole_environment()
    yield from check_machine(settings, environ)
    yield from check_hub(settings, hub, environ)
    yield from check_servers(settings, hub, environ)


def format_verdict(verdict: CheckResult) -> str:
    """Format one verdict; the command that fixes it is on a line of its own."""
    line = f"{MARKS[verdict.grade]}  {verdict.check}: {verdict.sentence}"
    return f"{line}\n         fix it: {verdict.mend}" if verdict.mend else line
