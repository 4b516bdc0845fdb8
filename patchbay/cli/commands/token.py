"""`patchbay token` and `patchbay login`: how the user who runs a hub proves to be its operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from patchbay import exit_codes
from patchbay.access.hub_key import load_key
from patchbay.access.operator_token import OperatorToken
from patchbay.cli.messages import fail
from patchbay.cli.options import settings_of, with_settings
from patchbay.errors import PatchbayError
from patchbay.serving.hub_url import hub_url
from patchbay.settings import Settings
from patchbay.web.operator.login_links import LoginLinks

IN_MEMORY = "a hub in memory keeps no token: it shows a new one in the terminal each time it starts"


@click.command(
    "token",
    epilog=exit_codes.with_examples("patchbay token --show", "patchbay token", "patchbay token --data /srv/patchbay"),
)
@click.option("--show", is_flag=True, help="Print the present token, and make no new one.")
@with_settings
@click.pass_context
def token_command(context: click.Context, /, show: bool, **_: Any) -> None:
    """Make a new token for the operator of the hub, and print it. The old one counts no more, nor do its sessions.

    The token is kept in the data folder, where only its owner can read it; --show prints it. A hub that is running
    need not be started again.
    """
    with _refusals():
        token = _operator_token(settings_of(context))
        text = token.kept() if show else token.renew()
        if text is None:
            fail("the data folder holds no token that counts: `patchbay token` makes a new one", exit_codes.USAGE)
        click.echo(text)


@click.command("login", epilog=exit_codes.with_examples("patchbay login", "patchbay login --port 9000"))
@with_settings
@click.pass_context
def login_command(context: click.Context, /, **_: Any) -> None:
    """Print a link that logs a browser in as the operator of the hub. It works once, for an hour."""
    with _refusals():
        settings = settings_of(context)
        token = _operator_token(settings)
        token.ensure()
        click.echo(hub_url(settings) + LoginLinks(load_key(settings.data), token).make())


def _operator_token(settings: Settings) -> OperatorToken:
    if settings.store == "memory":
        fail(IN_MEMORY, exit_codes.USAGE)
    return OperatorToken(settings.data)


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn errors into a sentence and an exit code."""
    try:
        yield
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)
    except OSError as problem:
        fail(f"the data folder cannot be used: {problem}", exit_codes.USAGE)
