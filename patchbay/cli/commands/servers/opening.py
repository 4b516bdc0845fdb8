"""The command `patchbay open`: a page of the running hub in the browser, logged in as the operator."""

from __future__ import annotations

import sys
import webbrowser
from typing import Any
from urllib.parse import quote, urlsplit

import click

from patchbay.access.hub_key import load_key
from patchbay.access.operator_token import OperatorToken
from patchbay.cli.completion.values import complete_server
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import find_running_hub, load_hub_settings
from patchbay.cli.server_directory import check_known
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import write_note
from patchbay.client.errors import Unreachable
from patchbay.exit_codes import with_examples
from patchbay.settings import whole_environment
from patchbay.web.operator.login_links import LoginLinks

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
"""Variables that say that a graphical browser can open a window on Linux."""


@click.command("open", epilog=with_examples("patchbay open", "patchbay open echo", "patchbay open --print"))
@click.argument("name", required=False, shell_complete=complete_server)
@click.option("--print", "is_printed", is_flag=True, help="Print the address; open no browser.")
@with_hub
@click.pass_context
def open_command(context: click.Context, /, name: str | None, is_printed: bool, **_: Any) -> None:
    """Open a page of the hub in the browser, as the operator. With NAME, it is the page of this server.

    Without a browser on this machine, print the address. It logs in once, within an hour: treat it like a password.
    """
    with exit_on_error():
        settings = load_hub_settings(context)
        hub = find_running_hub(settings)
        if hub is None:
            raise Unreachable(f"no hub runs on the data folder {settings.data}: `patchbay serve` starts one")
        path = check_known(hub, name)["meta"] if name else f"{urlsplit(hub.url).path}/"
        token = OperatorToken(settings.data)
        token.ensure()
        address = f"{hub.url}{LoginLinks(load_key(settings.data), token).make()}&next={quote(path, safe='')}"
        if not is_printed and has_browser() and webbrowser.open(address):
            click.echo(f"Opened {hub.address_of(path)}")
            return
        click.echo(address)
        write_note("Open this address in a browser; it logs in as the operator, once, within an hour.")


def has_browser() -> bool:
    """Whether a browser can show a window for this user."""
    return sys.platform == "darwin" or any(whole_environment().get(name) for name in DISPLAYS)
