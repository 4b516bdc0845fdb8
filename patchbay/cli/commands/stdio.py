"""The command `patchbay stdio`."""

from __future__ import annotations

from typing import Any

import click

from patchbay import exit_codes
from patchbay.cli.failures import describe_failure
from patchbay.cli.messages import fail
from patchbay.cli.options import load_settings, with_settings
from patchbay.cli.stdio.server import serve_stdio
from patchbay.errors import PatchbayError


@click.command("stdio", epilog=exit_codes.with_examples("patchbay stdio echo", "patchbay stdio"))
@click.argument("server", default="")
@click.option("--native", is_flag=True, help="Speak the native interface of the whole hub instead of MCP.")
@with_settings
@click.pass_context
def stdio_command(context: click.Context, /, server: str, native: bool, **_: Any) -> None:
    """Serve one SERVER, or all, over standard input and output. A client starts this command."""
    if native and server:
        fail("--native serves the whole hub: leave SERVER out", exit_codes.USAGE)
    try:
        serve_stdio(load_settings(context), server, native)
    except PatchbayError as problem:
        fail(describe_failure(problem), exit_codes.USAGE)
