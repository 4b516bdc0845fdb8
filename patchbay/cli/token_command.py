"""`patchbay token`: a new token for the operator, shown once."""

from __future__ import annotations

from typing import Any

import click

from patchbay.cli import exits
from patchbay.cli.options import settings_of, with_settings
from patchbay.cli.telling import fail
from patchbay.errors import PatchbayError
from patchbay.transports.operator_token import OperatorToken


@click.command("token", epilog=exits.with_examples("patchbay token", "patchbay token --data /srv/patchbay"))
@with_settings
@click.pass_context
def token_command(context: click.Context, /, **_: Any) -> None:
    """Make a new token for the operator of the hub, and print it. The old one counts no more, nor do its sessions.

    From then on the hub asks for it on its own machine too. A hub that is running need not be started again.
    """
    try:
        settings = settings_of(context)
        if settings.store == "memory":
            fail("a hub in memory keeps no token: it makes a new one each time it starts", exits.USAGE)
        click.echo(OperatorToken(settings.data).renew())
    except PatchbayError as problem:
        fail(problem.message, exits.USAGE)
