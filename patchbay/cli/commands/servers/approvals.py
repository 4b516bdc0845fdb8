"""`patchbay approvals`: the calls that wait for an approval at a running hub, and how to decide about one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click
import orjson

from patchbay import exit_codes
from patchbay.cli.completion.values import complete_approval
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import RunningHub, find_running_hub, load_hub_settings
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.local_times import format_local_clock
from patchbay.cli.terminal.messages import format_rows, make_printable
from patchbay.client.errors import Unreachable

LISTED = "`patchbay approvals list` for the ID"

PAGE = "/approvals"

STATES = {
    "waiting": "waits",
    "approved": "approved, not run yet",
    "refused": "refused",
    "used": "approved, ran once",
    "expired": "too late",
    "replaced": "rehearsed again",
    "withdrawn": "script cancelled",
}
"""What a person reads for each state."""

MAX_ARGUMENT_CHARACTERS = 60
"""Characters of the arguments in the list; `--json` has all of them."""


@click.group(
    "approvals",
    epilog=exit_codes.with_examples(
        "patchbay approvals list", "patchbay approvals approve ID", "patchbay approvals refuse ID", after=LISTED
    ),
)
def approvals_group() -> None:
    """List the calls that wait for an approval; decide about one."""


@approvals_group.command(
    "list", epilog=exit_codes.with_examples("patchbay approvals list", "patchbay approvals list --all --json")
)
@click.option("--all", "shows_all", is_flag=True, help="List the decisions of the last day too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each call.")
@with_hub
@click.pass_context
def list_command(context: click.Context, /, shows_all: bool, as_json: bool, **_: Any) -> None:
    """List the calls that wait: who asked, which tool, with which arguments."""
    with exit_on_error():
        found = _find_hub(context).get(f"{PAGE}.json")["approvals"]
    shown = [each for each in found if shows_all or each["waits"]]
    if as_json:
        for each in shown:
            click.echo(orjson.dumps(each))
    elif not shown:
        click.echo("No call waits for an approval.")
    else:
        rows: list[tuple[str, ...]] = [("ID", "ASKED BY", "TOOL", "ARGUMENTS", "ASKED", "STATE")]
        click.echo(format_rows(rows + [_make_row(each) for each in shown]))


@approvals_group.command("approve", epilog=exit_codes.with_examples("patchbay approvals approve ID", after=LISTED))
@click.argument("id", shell_complete=complete_approval)
@with_hub
@click.pass_context
def approve_command(context: click.Context, /, id: str, **_: Any) -> None:
    """Approve the call ID: its caller may send exactly this call once, within ten minutes.

    ID may also be that of a question about several calls of a script: all that still wait are approved, and it goes on.
    Calls of a rehearsal run when the same script runs.
    """
    _decide(context, id, "approve")


@approvals_group.command("refuse", epilog=exit_codes.with_examples("patchbay approvals refuse ID", after=LISTED))
@click.argument("id", shell_complete=complete_approval)
@with_hub
@click.pass_context
def refuse_command(context: click.Context, /, id: str, **_: Any) -> None:
    """Refuse the call ID: it does not run.

    ID may also be that of a question about several calls of a script: all that still wait are refused.
    """
    _decide(context, id, "refuse")


def _decide(context: click.Context, id: str, do: str) -> None:
    done = "approved" if do == "approve" else "refused"
    with exit_on_error():
        hub = _find_hub(context)
        made = hub.post(PAGE, {"id": id, "do": do})
        if id == made["question"] != made["id"]:
            states = Counter(one["state"] for one in hub.get(f"{PAGE}.json")["approvals"] if one["question"] == id)
            words = ", ".join(f"{count} {STATES[state]}" for state, count in states.items())
            click.echo(f"The calls of the {_kind(made)} {made['run']} are {done}: {words}.")
            return
    click.echo(f"The call of {made['server']}.{made['tool']} by {_asker(made)} is {done}.")


def _find_hub(context: click.Context) -> RunningHub:
    hub = find_running_hub(load_hub_settings(context))
    if hub is None:
        raise Unreachable("no hub runs on this data folder, and only a running hub has waiting calls: `patchbay serve`")
    return hub


def _make_row(each: dict[str, Any]) -> tuple[str, ...]:
    arguments = each["arguments"] if each["arguments"] is not None else ("too long" if each["waits"] else "")
    if len(arguments) > MAX_ARGUMENT_CHARACTERS:
        arguments = arguments[:MAX_ARGUMENT_CHARACTERS] + "…"
    tool = f"{each['server']}.{each['tool']}"
    asked = format_local_clock(each["made"])
    state = STATES[each["state"]] + (", from a rehearsal" if each["rehearsal"] else "")
    return each["id"], _asker(each), make_printable(tool), make_printable(arguments), asked, state


def _kind(each: dict[str, Any]) -> str:
    return "rehearsal" if each["rehearsal"] else "run"


def _asker(each: dict[str, Any]) -> str:
    return "this machine" if each["principal"] == "local" else make_printable(each["principal"])
