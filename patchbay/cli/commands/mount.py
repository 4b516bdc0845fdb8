"""`patchbay mount` and `patchbay unmount`: other MCP servers as servers of this hub.

A mount is a file in the watched folder, `servers/NAME.json`: a hub that runs serves it within a second, one that is
started later serves it then, and the file says all there is to it. Nothing is reached by these commands.
Sources: issue 5 part 7; JN-13, JN-15; DESIGN sections 5 and 11.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import click

from patchbay import exit_codes
from patchbay.catalogue.rows import name_problem
from patchbay.catalogue.watching.mount_files import is_mount, write_mount
from patchbay.cli.options import settings_of, with_settings
from patchbay.errors import ConfigError


@click.command(
    "mount", epilog=exit_codes.with_examples('patchbay mount time "mcp+uvx://mcp-server-time/mcp-server-time"')
)
@click.argument("name")
@click.argument("address")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME:VALUE", help="Send this HTTP header; secrets as ${NAME}."
)
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Set this variable for a program.")
@click.option(
    "--era", type=click.Choice(["auto", "modern", "legacy"]), default="auto", help="Revisions to speak. [auto]"
)
@click.option("--title", default="", help="The server's name for people.")
@click.option("--call-timeout", type=click.FloatRange(min=0.1), help="Seconds that a call may take.")
@click.option("--replace", is_flag=True, help="Replace a mount of this name.")
@with_settings
@click.pass_context
def mount_command(
    context: click.Context,
    /,
    name: str,
    address: str,
    headers: tuple[str, ...],
    variables: tuple[str, ...],
    era: str,
    title: str,
    call_timeout: float | None,
    replace: bool,
    **_: Any,
) -> None:
    """Serve the MCP server at ADDRESS as /mcp/NAME, in every revision.

    \b
    patchbay mount everything "mcp+npx://@modelcontextprotocol/server-everything"
    patchbay mount time "mcp+uvx://mcp-server-time/mcp-server-time"
    patchbay mount far https://mcp.example/mcp --header 'Authorization: Bearer ${FAR_TOKEN}'
    patchbay mount work @work
    """
    fields: dict[str, Any] = {"kind": "upstream", "address": address}
    try:
        settings = settings_of(context)
        fields |= {"headers": _pairs(headers, ":", "--header")} if headers else {}
        fields |= {"environment": _pairs(variables, "=", "--env")} if variables else {}
        fields |= {"era": era} if era != "auto" else {}
        fields |= {"title": title} if title else {}
        fields |= {"timeout": call_timeout} if call_timeout is not None else {}
        file = write_mount(settings.servers, name, fields, replace)
    except ConfigError as problem:
        _fail(problem.message)
    click.echo(f"{file} mounts {address.partition('?')[0]}; a hub that watches {file.parent} serves it at /mcp/{name}")


@click.command("unmount", epilog=exit_codes.with_examples("patchbay unmount time"))
@click.argument("name")
@with_settings
@click.pass_context
def unmount_command(context: click.Context, /, name: str, **_: Any) -> None:
    """Take the mounted server NAME away, and end what was started for it."""
    try:
        file = settings_of(context).servers / f"{name}.json"
        if name_problem(name) or not file.is_file():
            raise ConfigError(str(file), "", "expected the file of a mount, and there is none")
        if not is_mount(file):
            raise ConfigError(str(file), "kind", "expected a mount; this file is a server of its own")
        file.unlink()
    except ConfigError as problem:
        _fail(problem.message)
    click.echo(f"{file} is gone, and /mcp/{name} with it")


def _pairs(given: tuple[str, ...], sign: str, option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, there, value = text.partition(sign)
        if not there or not name.strip():
            raise ConfigError(option, "", f"expected NAME{sign}VALUE")
        found[name.strip()] = value.strip()
    return found


def _fail(sentence: str) -> NoReturn:
    click.echo(f"patchbay: {sentence}", err=True)
    sys.exit(exit_codes.USAGE)
