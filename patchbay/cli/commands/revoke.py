"""The command `patchbay revoke`: stop serving a content or a server, with a reason."""

from __future__ import annotations

from typing import Any

import click

from patchbay import exit_codes
from patchbay.catalogue.contents.revocations import Revocations
from patchbay.cli.completion.values import complete_server
from patchbay.cli.data_store import CHANGED_BY, opened_store
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.terminal.messages import fail
from patchbay.errors import PatchbayError
from patchbay.settings import Settings


@click.command(
    "revoke",
    epilog=exit_codes.with_examples(
        'patchbay revoke echo --why "it leaks its arguments"', "patchbay revoke echo --lift"
    ),
)
@click.argument("target", shell_complete=complete_server)
@click.option("--why", default="", metavar="TEXT", help="The reason, shown to callers and in the history.")
@click.option("--lift", is_flag=True, help="Undo the revocation of TARGET.")
@with_settings_in_help("data")
@click.pass_context
def revoke_command(context: click.Context, /, target: str, why: str, lift: bool, **_: Any) -> None:
    """Revoke a content or a server: the hub no longer serves it.

    TARGET is the CID of a content, or the name of a server. A running hub applies the change without a restart.
    """
    try:
        settings = load_settings(context)
        click.echo(_change_revocation(settings, target, " ".join(why.split()), lift))
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)


def _change_revocation(settings: Settings, target: str, why: str, lift: bool) -> str:
    with opened_store(settings, "use its page /history/revoke", is_change=True) as store:
        revocations = Revocations(store)
        if lift:
            return f"{revocations.lift(target, CHANGED_BY, why)} is no longer revoked"
        return revocations.revoke(target, CHANGED_BY, why).sentence
