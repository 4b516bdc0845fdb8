"""The commands `patchbay token` and `patchbay login`: the operator's token and login links."""

from __future__ import annotations

from typing import Any

import click

from patchbay import exit_codes
from patchbay.access.hub_key import load_key
from patchbay.access.operator_token import TOKEN_FILE, OperatorToken
from patchbay.cli.data_store import errors_as_sentence
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.running_hub import find_hub_address
from patchbay.cli.terminal.messages import fail
from patchbay.settings import Settings
from patchbay.web.operator.login_links import LoginLinks

NO_TOKEN_IN_MEMORY = "a hub in memory stores no token: each start prints a new one in the terminal"


@click.command(
    "token",
    epilog=exit_codes.with_examples("patchbay token --show", "patchbay token", "patchbay token --data /srv/patchbay"),
)
@click.option("--show", is_flag=True, help="Print the current token; make no new one.")
@with_settings_in_help("data")
@click.pass_context
def token_command(context: click.Context, /, show: bool, **_: Any) -> None:
    """Make a new token for the operator of the hub, and print it. The old token and its sessions end.

    The data folder keeps the token in a file that only its owner can read; --show prints it. A running hub uses the new
    token without a restart.
    """
    with errors_as_sentence():
        token = _operator_token(load_settings(context))
        text = token.read_stored() if show else token.renew()
        if text is None:
            fail(_why_not_shown(token), exit_codes.USAGE)
        click.echo(text)


@click.command("login", epilog=exit_codes.with_examples("patchbay login", "patchbay login --port 9000"))
@with_settings_in_help("data", "host", "port", "public_url")
@click.pass_context
def login_command(context: click.Context, /, **_: Any) -> None:
    """Print a link that logs a browser in as the operator. The link works once, within an hour.

    The link begins with the public URL of the hub, if it has one; `patchbay open` opens the hub on this machine.
    """
    with errors_as_sentence():
        settings = load_settings(context)
        token = _operator_token(settings)
        token.ensure()
        click.echo(find_hub_address(context, settings).public + LoginLinks(load_key(settings.data), token).make())


def _why_not_shown(token: OperatorToken) -> str:
    if token.hash() is None:
        return "the data folder has no token yet: `patchbay token` makes one"
    return (
        f"the present token works, but it cannot be shown: the data folder has its hash, and no file {TOKEN_FILE} that"
        " can be read and fits; `patchbay token` makes a new one, which ends the present one"
    )


def _operator_token(settings: Settings) -> OperatorToken:
    if settings.store == "memory":
        fail(NO_TOKEN_IN_MEMORY, exit_codes.USAGE)
    return OperatorToken(settings.data)
