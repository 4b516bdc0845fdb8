"""The command `patchbay usage`: who used what, by person, key, toolset, server or tool."""

from __future__ import annotations

import json
import time
from math import inf
from typing import Any

import click

from patchbay.activity.records import Filter
from patchbay.activity.usage import GROUPS, UsageRow, UsageTable, count_usage, format_csv
from patchbay.cli.completion.values import complete_server
from patchbay.cli.data_store import opened_store
from patchbay.cli.options import with_settings_in_help
from patchbay.cli.running_hub import load_hub_settings
from patchbay.cli.terminal.broken_pipe import watch_output
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import format_rows, make_printable, write_note
from patchbay.errors import ConfigError
from patchbay.exit_codes import with_examples
from patchbay.store import store_exists
from patchbay.web.activity.activity import parse_time
from patchbay.web.rendering.plots import format_duration

WHEN = "WHEN"

FORMATS = ("table", "csv", "json")


@click.command(
    "usage",
    epilog=with_examples(
        "patchbay usage",
        "patchbay usage --by tool --since 7d",
        "patchbay usage --by key --since 2027-01-01 --until 2027-02-01 --format csv",
    ),
)
@click.option("--by", type=click.Choice(GROUPS), default="caller", show_default=True, help="What a row is about.")
@click.option("--since", metavar=WHEN, default="", help="Count calls since this time: 15m, 2h, 7d, or 2027-01-31.")
@click.option("--until", metavar=WHEN, default="", help="Count calls before this time.")
@click.option("--caller", default="", help="Count calls of this person or key (key:NAME) only.")
@click.option("--server", default="", shell_complete=complete_server, help="Count calls of this server only.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@with_settings_in_help("data")
@click.pass_context
def usage_command(
    context: click.Context, /, by: str, since: str, until: str, caller: str, server: str, form: str, **_: Any
) -> None:
    """Show who used what: calls, failures, bytes and time.

    The sums are of the recorded calls of all nodes on the store, which the hub keeps for `--activity-days`. Bytes are
    those of the arguments and of the results.
    """
    with exit_on_error():
        settings = load_hub_settings(context)
        if settings.store == "memory" or not store_exists(settings.store, settings.data):
            raise ConfigError("--data", "", f"expected the data folder of a hub; no hub has used {settings.data}")
        now = time.time()
        wanted = Filter(
            server=server,
            since=parse_time("--since", since, now),
            until=parse_time("--until", until, now) if until else inf,
            caller=caller,
        )
        with opened_store(settings) as store, watch_output():
            found = count_usage(store.journal, wanted, by)
            click.echo(_format(found, form), nl=False)
        if not found.is_whole:
            write_note("older calls, or rows with few calls, are not counted here: choose a shorter time")


def _format(found: UsageTable, form: str) -> str:
    if form == "csv":
        return format_csv(found.rows)
    if form == "json":
        return "".join(json.dumps(row.to_json()) + "\n" for row in found.rows)
    rows = [_describe(row) for row in found.rows]
    heads = ("WHAT", "CALLS", "FAILED", "BYTES IN", "BYTES OUT", "TIME")
    return format_rows([heads, *rows, _describe(found.total)]) + "\n"


def _describe(row: UsageRow) -> tuple[str, ...]:
    """Return the cells of a row for people."""
    what = row.caller or " ".join(filter(None, (row.server, row.tool))) or "all"
    numbers = (row.calls, row.failed, row.bytes_in, row.bytes_out)
    return make_printable(what), *(f"{number:,}" for number in numbers), format_duration(row.seconds * 1000)
