"""`patchbay nodes`: the living processes of all hubs on one PostgreSQL."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
import orjson

from patchbay import exit_codes
from patchbay.cli.data_store import errors_as_sentence, opened_store
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.terminal.messages import fail
from patchbay.coordination.nodes import living_nodes


@click.command("nodes", epilog=exit_codes.with_examples("patchbay nodes", "patchbay nodes --json"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one process a line.")
@with_settings_in_help("store", "data", "key_file")
@click.pass_context
def nodes_command(context: click.Context, /, as_json: bool, **_: Any) -> None:
    """List the living processes of all hubs on one PostgreSQL.

    For each: its machine, its process id, its version, the seconds since its last sign of life, its running calls, its
    listening streams, the milliseconds that messages of other processes take to it, and the regular work that it does
    for all.
    """
    settings = load_settings(context)
    with errors_as_sentence(), opened_store(settings) as store:
        if not store.is_shared:
            fail("this hub is on one machine: the command is for --store postgresql://...", exit_codes.USAGE)
        nodes = living_nodes(store)
    for node in nodes:
        if as_json:
            click.echo(orjson.dumps(asdict(node)))
        else:
            work = f", does: {', '.join(node.work)}" if node.work else ""
            lag = f", lag {node.lag_ms} ms" if node.lag_ms is not None else ""
            click.echo(
                f"{node.host} {node.process}: version {node.version}, seen {node.age:.1f} s ago, {node.calls} calls,"
                f" {node.listeners} listeners{lag}{work}"
            )
    if not nodes and not as_json:
        click.echo("no hub runs on this database")
