"""`patchbay gc`: delete the contents that nothing refers to, and give their space back."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from patchbay import exit_codes
from patchbay.access.audit.chain import reached_cids
from patchbay.catalogue.contents.collection import Collector
from patchbay.catalogue.operating.environments import EnvironmentCollector
from patchbay.cli.data_store import opened_store
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.terminal.messages import fail
from patchbay.errors import PatchbayError
from patchbay.settings import Settings
from patchbay.stores.reserve import keep_reserve, release_reserve


@click.command("gc", epilog=exit_codes.with_examples("patchbay gc --dry-run", "patchbay gc --blob-hours 1"))
@click.option("--dry-run", is_flag=True, help="Say how much would be deleted, and change nothing.")
@with_settings_in_help("data", "blob_hours")
@click.pass_context
def gc_command(context: click.Context, /, dry_run: bool, **_: Any) -> None:
    """Delete unused contents, and give their space back.

    A content is used when the present or a past configuration, a pin, a room, the audit chain or the present state of a
    tool refers to it. The command keeps contents that are younger than --blob-hours. It also removes the environments
    of packages that no server requires and that were not used within these hours, and the downloads of uv.

    A running hub deletes unused contents each hour. The command works while the hub runs; writers of the hub wait while
    the space is given back. On a full disk it first removes the file `reserve` of the data folder, to have room.
    """
    try:
        click.echo(_collect(load_settings(context), dry_run))
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)


def _collect(settings: Settings, dry_run: bool) -> str:
    if not dry_run:
        release_reserve(settings.data)
    sentence = _collected(settings, dry_run)
    if not dry_run and not keep_reserve(settings.data):
        sentence += f"\nThe disk of {settings.data} is still nearly full: `patchbay doctor` shows how to free more."
    return sentence


def _collected(settings: Settings, dry_run: bool) -> str:
    with opened_store(settings, needs_data=True) as store:
        collector = Collector(store, settings.blob_hours * 3600, partial(reached_cids, store.journal))
        environments = EnvironmentCollector(store, settings.data, settings.blob_hours * 3600)
        if dry_run:
            found, unused = collector.preview(), environments.preview()
            sentence = f"{found.count} contents with {found.size} bytes would be deleted"
            more = f"; {unused.count} environments of packages with {unused.size} bytes would be removed"
            return sentence + (more if unused.count else "")
        done, removed = collector.collect(), environments.collect()
        sentence = (
            f"{done.count} contents with {done.size} bytes are deleted;"
            f" {store.collection.give_back(whole=True)} bytes are given back to the file system"
        )
        more = f"; {removed.count} environments of packages are removed, with downloads {removed.size} bytes"
        return sentence + (more if removed.count or removed.size else "")
