"""The commands `patchbay audit export`, `audit verify` and `audit prune`: the audit chain of a hub."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import click

from patchbay import exit_codes
from patchbay.access.audit.chain import AuditChain, first_row, read_lines, texts_of
from patchbay.access.audit.verification import load_public_key, split_lines, verify
from patchbay.access.hub_key import has_key, load_key
from patchbay.cli.commands.client import CONTEXT
from patchbay.cli.data_store import check_has_data, errors_as_sentence, opened_store
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.records.ndjson import escape_control
from patchbay.cli.terminal.messages import fail, write_note
from patchbay.errors import PatchbayError
from patchbay.rooms.record.canonical import Signer
from patchbay.store import Store
from patchbay.terminal import is_terminal

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.group(
    "audit",
    context_settings=CONTEXT,
    epilog=exit_codes.with_examples(
        "patchbay audit export > chain.ndjson",
        "patchbay audit export --since 7d > week.ndjson",
        "patchbay audit verify",
        "patchbay audit verify chain.ndjson",
        "patchbay audit prune --before 365d",
    ),
)
def audit_command() -> None:
    """Export, verify and prune the audit chain. It has a row for each call, linked by hashes and signed."""


@audit_command.command(
    "export",
    epilog=exit_codes.with_examples("patchbay audit export > chain.ndjson", "patchbay audit export --since 7d"),
)
@click.option("--since", metavar="WHEN", help="Begin at the last signed head before this time: 7d, 12h, or 2027-01-31.")
@with_settings_in_help("data")
@click.pass_context
def export_command(context: click.Context, /, since: str | None, **_: Any) -> None:
    """Write the audit chain to standard output, one row a line. Its first row and its last one are signed heads."""
    with _open_chain(context) as (store, chain):
        begin = _parse_time("--since", since) if since else 0.0
        chain.sign()
        first = last = None
        is_shown = is_terminal(sys.stdout)
        for line in texts_of(read_lines(store.journal, begin)):
            # Names in a row are texts of callers; a file has the bytes that the hub signed.
            sys.stdout.buffer.write(escape_control(line.decode()).encode() if is_shown else line)
            first, last = first or line, line
        sys.stdout.buffer.flush()
        if first is not None and last is not None:
            begins, ends = json.loads(first), json.loads(last)
            at = datetime.fromtimestamp(begins["at"] / 1000, UTC).isoformat(timespec="seconds")
            write_note(f"rows {begins['seq']} to {ends['seq']}; the first one is a signed head of {at}")


@audit_command.command(
    "verify",
    epilog=exit_codes.with_examples(
        "patchbay audit verify", "patchbay audit export > chain.ndjson", "patchbay audit verify chain.ndjson"
    ),
)
@click.argument("file", type=click.File("rb"), required=False)
@click.option(
    "--key",
    metavar="KEY",
    help="The expected public key of the hub, base64 or a PEM file. The check fails for another key.",
)
@click.option(
    "--tip", metavar="CID", help="The expected CID of the last row. The check fails when rows at the end are missing."
)
@with_settings_in_help("data")
@click.pass_context
def verify_command(
    context: click.Context, /, file: BinaryIO | None, key: str | None, tip: str | None, **_: Any
) -> None:
    """Verify FILE, written by `patchbay audit export`: every byte, every link, every signature. Needs no hub.

    Without FILE, verify the chain of the hub on the data folder, also while it runs. The key is that of this hub then.

    Exit code 1 if a row is changed, missing or not in its place; the error names the row by its seq.
    """
    try:
        wanted = None if key is None else load_public_key(key)
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)
    if file is not None:
        name, found = Path(file.name).name, verify(split_lines(file.read()), wanted, tip)
    else:
        with _open_chain(context) as (store, _chain):
            settings = load_settings(context)
            name = f"the chain in {settings.data}"
            own = Signer(load_key(settings.data)).public
            found = verify(texts_of(read_lines(store.journal, 0.0)), wanted or own, tip, is_running=True)
    if not found.ok:
        fail(f"{name}: {found.sentence()}", exit_codes.FAILED)
    click.echo(found.sentence())
    click.echo(f"key {found.key}")
    click.echo(f"tip {found.tip}")


@audit_command.command("prune", epilog=exit_codes.with_examples("patchbay audit prune --before 365d"))
@click.option("--before", required=True, metavar="WHEN", help="Delete rows older than this: 365d, or 2027-01-31.")
@with_settings_in_help("data")
@click.pass_context
def prune_command(context: click.Context, /, before: str, **_: Any) -> None:
    """Delete old rows, up to the last signed head before WHEN, which becomes the first row. A row records it."""
    with _open_chain(context) as (store, chain):
        count = chain.prune(_parse_time("--before", before))
        chain.sign()
        first = first_row(store.journal)
        begins = f"; the chain begins at row {first['seq']}" if first is not None else ""
        click.echo(f"{count} rows are deleted{begins}")


@contextmanager
def _open_chain(context: click.Context) -> Iterator[tuple[Store, AuditChain]]:
    """Open the audit chain in the data folder; print an error as one sentence and end the process."""
    with errors_as_sentence():
        settings = load_settings(context)
        check_has_data(settings, has_key(settings.data))
        with opened_store(settings) as store:
            if first_row(store.journal) is None:
                fail("the audit chain is empty: a hub writes it in shared mode, or with --audit on", exit_codes.USAGE)
            yield store, AuditChain(store.journal, Signer(load_key(settings.data)))


def _parse_time(option: str, text: str) -> float:
    """Return Unix time from an age such as 7d, or from a date or time in ISO 8601 (UTC without an offset)."""
    number, unit = text[:-1], text[-1]
    if unit in UNIT_SECONDS and number.isascii() and number.isdigit() and len(number) < 10:
        return max(0.0, time.time() - int(number) * UNIT_SECONDS[unit])
    try:
        found = datetime.fromisoformat(text)
        return max(0.0, (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        expected = "expected an age such as 7d or 12h, or a date such as 2027-01-31"
        fail(f"{option} is {text!r:.60}; {expected}", exit_codes.USAGE)
