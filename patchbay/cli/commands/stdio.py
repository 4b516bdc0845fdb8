"""The command `patchbay stdio`."""

from __future__ import annotations

from typing import Any

import click

from patchbay import exit_codes
from patchbay.cli.completion.values import complete_server
from patchbay.cli.options import find_source, load_settings, with_settings
from patchbay.cli.running_hub import RunningHub, find_running_hub
from patchbay.cli.stdio.relay import relay_stdio
from patchbay.cli.terminal.failures import describe_failure
from patchbay.cli.terminal.messages import fail
from patchbay.errors import PatchbayError
from patchbay.settings import Settings


@click.command("stdio", epilog=exit_codes.with_examples("patchbay stdio echo", "patchbay stdio"))
@click.argument("server", default="", shell_complete=complete_server)
@click.option("--native", is_flag=True, help="Speak the native interface of the whole hub instead of MCP.")
@with_settings
@click.pass_context
def stdio_command(context: click.Context, /, server: str, native: bool, **_: Any) -> None:
    """Serve one SERVER, or all, over standard input and output. A client starts this command.

    While a hub runs on the same data folder, the messages go to that hub, with its settings. Otherwise this process
    serves SERVER alone: mounted programs of other servers start when a tool calls them.
    """
    if native and server:
        fail("--native serves the whole hub: leave SERVER out", exit_codes.USAGE)
    try:
        settings = load_settings(context)
        hub = None if native else _find_hub(context, settings)
        if hub is not None:
            relay_stdio(settings, hub, server)
        else:
            from patchbay.cli.stdio.server import serve_stdio

            serve_stdio(settings, server, native)
    except PatchbayError as problem:
        fail(describe_failure(problem), exit_codes.USAGE)


def _find_hub(context: click.Context, settings: Settings) -> RunningHub | None:
    """Return the running hub on the data folder; None for one whose servers folder is not the one that was named."""
    hub = find_running_hub(settings)
    is_named = find_source(context, "servers") != "default"
    if hub is not None and is_named and hub.folder is not None and hub.folder.resolve() != settings.servers.resolve():
        return None
    return hub
