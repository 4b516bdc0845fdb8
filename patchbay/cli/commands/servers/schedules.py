"""`patchbay schedule`: the tools that a running hub calls by a schedule, and how to run one now."""

from __future__ import annotations

import time
from typing import Any

import click
import orjson

from patchbay import exit_codes
from patchbay.cli.completion.values import complete_server, complete_tool
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import RunningHub, find_running_hub, load_hub_settings
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.local_times import format_local_time
from patchbay.cli.terminal.messages import fail, format_rows, make_printable
from patchbay.client.errors import Unreachable

PAGE = "/schedules"
POLL_SECONDS = 0.2
"""Seconds between two questions whether a run has ended."""


SCHEDULED = f'{exit_codes.GREETER}, with "schedule" in its configuration (docs/schedules.md)'


@click.group(
    "schedule",
    epilog=exit_codes.with_examples("patchbay schedule list", "patchbay schedule run greeter greet", after=SCHEDULED),
)
def schedule_group() -> None:
    """List the schedules of tools, or run one now."""


@schedule_group.command(
    "list", epilog=exit_codes.with_examples("patchbay schedule list", "patchbay schedule list --json")
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each schedule, with its last runs.")
@with_hub
@click.pass_context
def list_command(context: click.Context, /, as_json: bool, **_: Any) -> None:
    """List the tools with a schedule: times, next run, last run and its outcome."""
    with exit_on_error():
        found = _find_hub(context).get(f"{PAGE}.json")["schedules"]
        if as_json:
            for each in found:
                click.echo(orjson.dumps(each))
        elif not found:
            click.echo('No tool has a schedule. In the configuration of its server: "schedule": "0 7 * * *".')
        else:
            rows: list[tuple[str, ...]] = [("SERVER", "TOOL", "SCHEDULE", "ZONE", "NEXT", "LAST", "OUTCOME")]
            click.echo(format_rows(rows + [_make_row(each) for each in found]))


@schedule_group.command("run", epilog=exit_codes.with_examples("patchbay schedule run greeter greet", after=SCHEDULED))
@click.argument("server", shell_complete=complete_server)
@click.argument("tool", shell_complete=complete_tool)
@click.option("--no-wait", is_flag=True, help="Begin the run, and do not wait for its end.")
@with_hub
@click.pass_context
def run_command(context: click.Context, /, server: str, tool: str, no_wait: bool, **_: Any) -> None:
    """Run the TOOL of the SERVER now, with the arguments of its schedule; print its result.

    The times of the schedule stay as they are.
    """
    with exit_on_error():
        hub = _find_hub(context)
        run = hub.post(PAGE, {"server": server, "tool": tool})["run"]
        if no_wait:
            click.echo(f"{server}.{tool} runs: `patchbay schedule list` shows its outcome")
            return
        run = _wait(hub, server, tool, run)
    click.echo(make_printable(run["message"]))
    if run["outcome"] != "ok":
        fail(f"{server}.{tool} ended with the outcome {run['outcome']}", exit_codes.FAILED)


def _find_hub(context: click.Context) -> RunningHub:
    hub = find_running_hub(load_hub_settings(context))
    if hub is None:
        raise Unreachable(
            "no hub runs on this data folder, and only a running hub has schedules: start `patchbay serve`"
        )
    return hub


def _wait(hub: RunningHub, server: str, tool: str, run: dict[str, Any]) -> dict[str, Any]:
    """Wait for the end of a run and return it; a run that begins again on another process is the same one."""
    while True:
        for each in hub.get(f"{PAGE}.json")["schedules"]:
            for one in each["runs"] if (each["server"], each["tool"]) == (server, tool) else ():
                if (one["due"], one["by"]) == (run["due"], run["by"]) and one["ended"] is not None:
                    return dict(one)
        time.sleep(POLL_SECONDS)


def _make_row(each: dict[str, Any]) -> tuple[str, ...]:
    last = each["runs"][0] if each["runs"] else None
    ran = (format_local_time(last["due"]), last["outcome"]) if last is not None else ("never", "")
    return each["server"], each["tool"], each["schedule"], each["timezone"], format_local_time(each["next"]), *ran
