"""The command `patchbay logs`: the calls that the hub recorded, with what the tools logged."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import click

from patchbay.activity.records import Filter, Record, recent, records_in
from patchbay.cli.completion.values import complete_server
from patchbay.cli.data_store import opened_store
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import find_running_hub, load_hub_settings
from patchbay.cli.server_directory import list_servers, unknown_name
from patchbay.cli.terminal.broken_pipe import watch_output
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.local_times import format_local_time
from patchbay.cli.terminal.messages import make_printable, write_note
from patchbay.errors import ConfigError
from patchbay.exit_codes import with_examples
from patchbay.raised.forms import format_raised
from patchbay.settings import Settings
from patchbay.store import Store, store_exists
from patchbay.topics import ACTIVITY
from patchbay.web.activity.activity import parse_time

DEFAULT_RECORDS = 50
MAX_ENTRIES = 200
"""Entries of the journal that one round of --follow reads."""

WAIT_SECONDS = 1.0
SHOWN_EVENTS = ("log", "failed")


@click.command(
    "logs",
    epilog=with_examples(
        "patchbay logs", "patchbay logs echo --errors", "patchbay logs --since 1h", "patchbay logs echo --follow"
    ),
)
@click.argument("name", required=False, shell_complete=complete_server)
@click.option("--follow", is_flag=True, help="Show new calls too, until Ctrl-C.")
@click.option(
    "--since", metavar="WHEN", default="", help="Show calls since this time: 15m, 2h, 7d, or 2027-01-31T12:00:00."
)
@click.option("--errors", is_flag=True, help="Show only calls that failed.")
@click.option("--limit", type=click.IntRange(min=1, max=1000), default=DEFAULT_RECORDS, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each call.")
@with_hub
@click.pass_context
def logs_command(
    context: click.Context,
    /,
    name: str | None,
    follow: bool,
    since: str,
    errors: bool,
    limit: int,
    as_json: bool,
    **_: Any,
) -> None:
    """Show the recorded calls, and what their tools logged.

    With NAME, only those of this server; for a mounted server, a note says how its connection is. The newest call is
    last.
    """
    with exit_on_error():
        settings = load_hub_settings(context)
        if settings.store == "memory" or not store_exists(settings.store, settings.data):
            raise ConfigError("--data", "", f"expected the data folder of a hub; no hub has used {settings.data}")
        if name:
            _write_health(settings, name)
        wanted = Filter(server=name or "", since=parse_time("--since", since, time.time()) if since else 0.0)
        with opened_store(settings) as store, watch_output():
            seen = store.journal.last(ACTIVITY)
            found = [
                record for record in recent(store.journal, wanted, limit).records if not errors or is_failed(record)
            ]
            for record in reversed(found):
                click.echo("\n".join(describe_call(record, as_json)))
            if not found and not follow:
                write_note("No call is recorded. `patchbay call /mcp/NAME TOOL` makes one; --activity-days keeps them.")
            for record in follow_calls(store, wanted, seen) if follow else ():
                if not errors or is_failed(record):
                    click.echo("\n".join(describe_call(record, as_json)))


def _write_health(settings: Settings, name: str) -> None:
    """Say how the connection of a mounted server is. Raises UnknownServer for a server without records too."""
    hub = find_running_hub(settings)
    rows = {row["name"]: row for row in list_servers(settings, hub)}
    if name not in rows:
        raise unknown_name(name, list(rows))
    health = rows[name]["upstream"]
    if hub is not None and health is not None:
        write_note(f"{name}: {health['sentence']}")
    elif rows[name]["broken"]:
        write_note(f"{name} is not served: {rows[name]['broken']}")


def is_failed(record: Record) -> bool:
    """Whether a call failed: an error, an error of the tool, or no answer in time."""
    return record.outcome in ("tool_error", "error", "timeout")


def describe_call(record: Record, as_json: bool) -> Iterator[str]:
    """Yield the lines of one call: time, outcome, duration, tool; then what it logged, and why it failed."""
    if as_json:
        yield json.dumps(record.to_json(), ensure_ascii=False)
        return
    at = format_local_time(record.at)
    client = f"  {record.client}" if record.client else ""
    name = f"{record.server} {record.name}".strip()
    yield make_printable(f"{at}  {record.outcome:<10}  {record.ms:>8.1f} ms  {name}{client}")
    for moment in record.moments:
        is_repeated = (
            bool(record.raised) and moment.kind == "failed" and record.raised[0].error.startswith(moment.words)
        )
        if moment.kind in SHOWN_EVENTS and moment.words and not is_repeated:
            yield make_printable(f"    {moment.words}")
    is_explained = bool(record.raised) or any(each.kind == "failed" and each.words for each in record.moments)
    if is_failed(record) and not is_explained:
        yield make_printable(f"    {find_reason(record)}")
    for line in format_raised(record.raised):
        yield make_printable(f"    {line}")


def find_reason(record: Record) -> str:
    """Return why a call failed before its code ran, such as refused arguments: the text of its answer."""
    answer = record.answer if isinstance(record.answer, dict) else {}
    blocks = answer.get("content")
    found = blocks if isinstance(blocks, list) else []
    texts = [str(block["text"]) for block in found if isinstance(block, dict) and "text" in block]
    if isinstance(answer.get("message"), str):  # a JSON-RPC error
        texts = [answer["message"]]
    return " ".join(texts) or "The reason is not recorded (setting activity_contents)."


def follow_calls(store: Store, wanted: Filter, seen: int) -> Iterator[Record]:
    """Yield the calls that are recorded after the entry `seen`; this never ends by itself."""
    with store.bus.subscribe([ACTIVITY]) as mailbox:
        while True:
            mailbox.get(WAIT_SECONDS)
            last = store.journal.last(ACTIVITY)
            fresh = [entry for entry in store.journal.tail(ACTIVITY, MAX_ENTRIES) if seen < entry.seq <= last]
            for entry in reversed(fresh):
                yield from (record for record in records_in(entry) if wanted.fits(record))
            seen = last
