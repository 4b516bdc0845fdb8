"""`patchbay store copy` moves a hub to another store; `patchbay store migrate` brings the schema up to date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from patchbay import exit_codes
from patchbay.access.audit.chain import read_lines, texts_of
from patchbay.access.audit.verification import verify
from patchbay.cli.commands.client import CONTEXT
from patchbay.cli.data_store import errors_as_sentence
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.terminal.messages import fail
from patchbay.cli.terminal.progress_bar import ProgressBar
from patchbay.cli.terminal.progress_display import can_show_progress
from patchbay.store import Store, is_database_address, store_exists
from patchbay.stores import migrate_store, open_store
from patchbay.stores.copying import copy_store
from patchbay.stores.folder_lock import claim_folder
from patchbay.topics import ROOT

SQLITE = "sqlite"


@click.group(
    "store",
    context_settings=CONTEXT,
    epilog=exit_codes.with_examples(
        "patchbay store copy ~/.patchbay/data postgresql://hub@db.example/hub",
        "patchbay store migrate --store postgresql://hub@db.example/hub",
    ),
)
def store_command() -> None:
    """Move a hub to another store, or bring its schema up to date."""


@store_command.command(
    "copy",
    epilog=exit_codes.with_examples(
        "patchbay store copy ~/.patchbay/data postgresql://hub@db.example/hub",
        "patchbay store copy postgresql://hub@db.example/hub ./data",
    ),
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@with_settings_in_help("blobs")
@click.pass_context
def copy_command(context: click.Context, /, source: str, target: str, **_: Any) -> None:
    """Copy the whole store FROM to TO: each is a data folder, or the address of a PostgreSQL.

    Stop the hubs of both first. TO has to be empty, or to hold an earlier copy that was interrupted: then the command
    goes on there. At the end it compares both, row by row, reads back and hashes each content, and verifies the audit
    chain. The bucket --blobs holds the large contents of the PostgreSQL. The key of the hub is not part of its store:
    copy the file `key` of the data folder too.
    """
    with errors_as_sentence(), ExitStack() as stack:
        if not is_database_address(source) and not store_exists(SQLITE, Path(source)):
            fail(f"there is no data of a hub in {source}; name its data folder or a database", exit_codes.USAGE)
        blobs = load_settings(context).blobs
        reading = stack.enter_context(_opened(source, blobs))
        writing = stack.enter_context(_opened(target, blobs))
        bar = ProgressBar() if can_show_progress() else None
        if bar is not None:
            stack.callback(bar.stop)
        done = copy_store(reading, writing, lambda what, count: bar.show(what, count, None) if bar else None)
        if bar is not None:
            bar.stop()
        click.echo(
            f"{done.blobs} contents with {done.size} bytes, {done.entries} entries of the journal and {done.moves}"
            " changes of names are copied, and equal in both stores"
        )
        click.echo(f"root {writing.names.get(ROOT) or 'none'}")
        click.echo(_verify_chain(writing))


@store_command.command(
    "migrate", epilog=exit_codes.with_examples("patchbay store migrate --store postgresql://hub@db.example/hub")
)
@with_settings_in_help("store")
@click.pass_context
def migrate_command(context: click.Context, /, **_: Any) -> None:
    """Bring the schema of the database up to date. Hubs of the version before go on working meanwhile."""
    with errors_as_sentence():
        before, after = migrate_store(load_settings(context).store)
        click.echo(f"the schema is {after}" + ("" if before == after else f"; it was {before}"))


@contextmanager
def _opened(place: str, blobs: str) -> Iterator[Store]:
    """Open the store of a data folder, which no hub may use meanwhile, or of a database."""
    with ExitStack() as stack:
        if not is_database_address(place):
            stack.callback(claim_folder(Path(place)).close)
        store = open_store(place if is_database_address(place) else SQLITE, Path(place), blobs=blobs)
        stack.callback(store.close)
        yield store


def _verify_chain(store: Store) -> str:
    """Verify the audit chain of a store; return the outcome. Ends the process when a row is wrong."""
    found = verify(texts_of(read_lines(store.journal, 0.0)), is_running=True)
    if found.rows == 0:
        return "the audit chain is empty"
    if not found.ok:
        fail(f"the audit chain of the copy: {found.sentence()}", exit_codes.FAILED)
    return f"audit chain: {found.sentence()}"
