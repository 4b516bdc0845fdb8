"""The commands. Each is short: read the settings, hand over, turn problems into a sentence and an exit code."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

import patchbay
from patchbay.cli import exits
from patchbay.cli.mounting import mount_command, unmount_command
from patchbay.cli.options import ORDER, ROWS, flag_of, settings_of, shown, source_of, variable_of, with_settings
from patchbay.cli.piping import pipe
from patchbay.cli.reach_commands import CLIENT, CONTEXT
from patchbay.cli.serving import AddressTaken, serve
from patchbay.cli.telling import Commands, fail
from patchbay.cli.token_command import token_command
from patchbay.errors import ConfigError, PatchbayError
from patchbay.settings import Settings


@click.group(
    cls=Commands,
    elsewhere=CLIENT,
    context_settings=CONTEXT,
    epilog=exits.with_examples("patchbay serve", 'patchbay inspect "mcp+uvx://mcp-server-time/mcp-server-time"'),
)
@click.version_option(patchbay.__version__, message="patchbay %(version)s")
def main() -> None:
    """Patchbay: plug in a file, a command or a folder; it comes out as an MCP endpoint. And a client of any other."""


main.add_command(token_command)
main.add_command(mount_command)
main.add_command(unmount_command)


@main.command("serve", epilog=exits.with_examples("patchbay serve", "patchbay serve --port 9000 --servers ./servers"))
@with_settings
@click.pass_context
def serve_command(context: click.Context, /, **_: Any) -> None:
    """Serve the hub until it is told to end (Ctrl-C, or SIGTERM)."""
    try:
        code = serve(settings_of(context))
    except AddressTaken as problem:
        fail(problem.message, exits.ADDRESS)
    except ConfigError as problem:
        fail(problem.message, exits.USAGE)
    sys.exit(code)


@main.command("stdio", epilog=exits.with_examples("patchbay stdio echo", "patchbay stdio"))
@click.argument("server", default="")
@click.option("--native", is_flag=True, help="Speak the native interface of the whole hub instead of MCP.")
@with_settings
@click.pass_context
def stdio_command(context: click.Context, /, server: str, native: bool, **_: Any) -> None:
    """Serve one SERVER, or all as one, over standard input and output, for a client that starts this command itself."""
    if native and server:
        fail("with --native the methods name their server; leave SERVER out", exits.USAGE)
    try:
        pipe(settings_of(context), server, native)
    except PatchbayError as problem:
        fail(problem.message, exits.USAGE)


@main.command("settings", epilog=exits.with_examples("patchbay settings", "patchbay settings --json"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
@with_settings
@click.pass_context
def settings_command(context: click.Context, /, as_json: bool, **_: Any) -> None:
    """List every setting: its value, where that came from, and its default."""
    try:
        settings = settings_of(context)
    except ConfigError as problem:
        fail(problem.message, exits.USAGE)
    rows = [described(context, settings, name) for name in ORDER]
    click.echo(json.dumps(rows, indent=2) if as_json else table(rows))


def described(context: click.Context, settings: Settings, name: str) -> dict[str, Any]:
    """One setting as a JSON object; its values as they would be written in the environment."""
    row = ROWS[name]
    return {
        "name": name,
        "value": shown(getattr(settings, name)),
        "source": source_of(context, name),
        "default": shown(row.default),
        "flag": flag_of(name),
        "variable": variable_of(name),
        "unit": row.metadata["unit"],
        "help": row.metadata["help"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as aligned columns, under their titles."""
    columns = ("name", "value", "source", "default", "unit")
    lines = [columns, *(tuple(row[column] or "-" for column in columns) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
