"""`patchbay revoke`: end a content or a server of the hub, with a reason."""

from __future__ import annotations

from typing import Any

import click

from patchbay import boot, exit_codes
from patchbay.catalogue.contents.revocations import Revocations
from patchbay.cli.messages import fail
from patchbay.cli.options import settings_of, with_settings
from patchbay.errors import PatchbayError, ReadOnly
from patchbay.settings import Settings
from patchbay.stores import open_store

WHO = "command line"
"""Who the history names for a revocation that was made here."""


@click.command(
    "revoke",
    epilog=exit_codes.with_examples(
        'patchbay revoke bafkrei... --why "it leaks its arguments"', "patchbay revoke notes --lift"
    ),
)
@click.argument("target")
@click.option("--why", default="", metavar="TEXT", help="The reason, which callers and the history see.")
@click.option("--lift", is_flag=True, help="Take the revocation of TARGET back.")
@with_settings
@click.pass_context
def revoke_command(context: click.Context, /, target: str, why: str, lift: bool, **_: Any) -> None:
    """Revoke TARGET, the CID of a content or the name of a server: nothing that is made of it is served any more.

    A hub that is running need not be started again.
    """
    try:
        settings = settings_of(context)
        if settings.store == "memory":
            fail("a hub in memory has no data folder: revoke on its page /history/revoke", exit_codes.USAGE)
        click.echo(_changed(settings, target, " ".join(why.split()), lift))
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)


def _changed(settings: Settings, target: str, why: str, lift: bool) -> str:
    store = open_store(settings.store, settings.data)
    try:
        if boot.is_readonly(store):
            raise ReadOnly("this hub was booted read-only: nothing can be changed here")
        revocations = Revocations(store)
        if lift:
            return f"{revocations.lift(target, WHO, why)} may be served again"
        return revocations.revoke(target, WHO, why).sentence
    finally:
        store.close()
