"""The command `patchbay replay`: repeat recorded calls and compare their results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from patchbay import exit_codes
from patchbay.access.audit.chain import first_row
from patchbay.activity.script_runs import is_run
from patchbay.assembly import assemble
from patchbay.catalogue.needed_servers import NeededServers
from patchbay.cli.data_store import opened_store
from patchbay.cli.local_hub import close_hub
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.terminal.messages import fail, make_printable
from patchbay.errors import PatchbayError
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.replaying import Replayed, find_record
from patchbay.protocol.replaying import replay as replay_call
from patchbay.protocol.script_replays import replay_run
from patchbay.settings import Settings


@click.command(
    "replay",
    epilog=exit_codes.with_examples("patchbay replay ID", after="the page /activity for the ID"),
)
@click.argument("records", metavar="RECORD...", nargs=-1, required=True)
@with_settings_in_help("data")
@click.pass_context
def replay_command(context: click.Context, /, records: tuple[str, ...], **_: Any) -> None:
    """Repeat the call of each RECORD, and compare the results.

    RECORD is the id of a record (/activity shows it, such as 120-3) or the number of a row of the audit chain. The call
    runs in this process, with the recorded version of the server and the recorded arguments, as the operator. The
    results are compared by their CIDs. The hub must have stored the contents (--activity-contents keep). Exit code 6 if
    a result differs.

    RECORD may also be the id of a run of a script. Its script runs again against the recorded results of its calls, and
    each difference is a line; no call is made.
    """
    try:
        settings = _audited(load_settings(context))
        hub = assemble(settings, lambda: float("inf"), needed=NeededServers(()))
        try:
            results = [_replay_run(hub, id) if is_run(id) else _replay(hub, id).is_equal for id in records]
        finally:
            close_hub(hub)
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)
    different = results.count(False)
    click.echo(f"{len(results) - different} of {len(results)} results are equal")
    if different:
        raise SystemExit(exit_codes.CHANGED)


def _audited(settings: Settings) -> Settings:
    """Return the settings with the audit chain on if the hub has one, so that these calls get rows too."""
    with opened_store(settings, needs_data=True) as store:
        return replace(settings, audit="on") if first_row(store.journal) is not None else settings


def _replay_run(hub: Dispatcher, id: str) -> bool:
    """Repeat a run of a script against its records, and print each difference; return whether there is none."""
    found = replay_run(hub.services, id)
    assert found.run.script is not None, "a run without the record of its script is not repeated"
    name = f"{found.run.script.server} {found.run.script.name}"
    click.echo(f"{id}  {name}  {'different' if found.differences else 'equal'}")
    for one in found.differences:
        click.echo(make_printable(f"  {one}"))
    return not found.differences


def _replay(hub: Dispatcher, id: str) -> Replayed:
    """Repeat one call and print the outcome."""
    found = replay_call(hub, find_record(hub, id))
    name = f"{found.record.server} {found.record.name}"
    if found.is_equal:
        click.echo(f"{id}  {name}  equal  {found.now}")
    else:
        click.echo(f"{id}  {name}  different  recorded {found.was}, now {found.now}")
    return found
