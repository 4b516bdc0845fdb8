"""The command `patchbay new`: a small server in the servers folder that works at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from patchbay.catalogue.operating.named_sources import check_sources
from patchbay.catalogue.operating.new_servers import (
    PYTHON_SAMPLE,
    SHELL_SAMPLE,
    check_new,
    write_configuration,
    write_definition,
)
from patchbay.catalogue.watching.mount_files import check_mount, write_mount
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import find_running_hub, load_hub_settings
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import quote_word
from patchbay.cli.terminal.progress_display import Display
from patchbay.client.profiles.lookup import find_homes
from patchbay.client.source import get_scheme
from patchbay.errors import ConfigError
from patchbay.exit_codes import with_examples
from patchbay.settings import Settings, whole_environment


@click.command(
    "new",
    epilog=with_examples(
        "patchbay new greeter",
        "patchbay new count --shell",
        "patchbay new notes --folder ~/Documents",
        "patchbay new far --remote https://mcp.example/mcp",
        "patchbay new shop --api https://shop.example/openapi.json",
    ),
)
@click.argument("name")
@click.option("--python", "is_python", is_flag=True, help="A Python file; each public function is a tool [default].")
@click.option("--shell", "is_shell", is_flag=True, help="A shell script; it is one tool.")
@click.option("--folder", metavar="PATH", help="A folder of Markdown documents that models search and read.")
@click.option("--remote", metavar="ADDRESS", help="Another MCP server: a URL, or an address such as mcp+uvx://...")
@click.option("--api", metavar="URL", help="An HTTP API, by the URL or the path of its OpenAPI document.")
@with_hub
@click.pass_context
def new_command(
    context: click.Context,
    /,
    name: str,
    is_python: bool,
    is_shell: bool,
    folder: str | None,
    remote: str | None,
    api: str | None,
    **_: Any,
) -> None:
    """Make the server NAME, and print how to call it. No file is overwritten."""
    with exit_on_error():
        settings = load_hub_settings(context)
        given = [option for option in (is_python, is_shell, folder, remote, api) if option]
        if len(given) > 1:
            raise ConfigError("patchbay new", "", "expected one of --python, --shell, --folder, --remote, --api")
        if is_shell:
            file, call = (
                write_definition(settings.servers, name, ".sh", SHELL_SAMPLE),
                f"{name} input='one two' args=-w",
            )
        elif folder:
            file, call = _write_folder(settings, name, folder), "search query=..."
        elif remote:
            file, call = _write_mount(settings, name, {"kind": "upstream", "address": remote}), ""
        elif api:
            file, call = _write_api(settings, name, api), ""
        else:
            file, call = write_definition(settings.servers, name, ".py", PYTHON_SAMPLE), "greet name=Ann"
        _say_next(settings, name, file, call)


def _write_folder(settings: Settings, name: str, folder: str) -> Path:
    root = Path(folder).expanduser().absolute()
    if root.is_file():
        raise ConfigError("--folder", "", f"expected a folder; {root} is a file: write the folder that has it")
    if not root.is_dir():
        raise ConfigError(
            "--folder", "", f"expected a folder; there is no folder at {root}: make it first (mkdir -p {root})"
        )
    return write_configuration(settings.servers, name, {"kind": "documents", "root": str(root)})


def _write_api(settings: Settings, name: str, document: str) -> Path:
    place = document if get_scheme(document) else str(Path(document).expanduser().absolute())
    return _write_mount(settings, name, {"kind": "openapi", "document": place})


def _write_mount(settings: Settings, name: str, fields: Mapping[str, Any]) -> Path:
    """Write the file of a mount and return its path. Raises ConfigError, also when it names what does not exist."""
    check_new(settings.servers, name)
    check_mount(name, fields, name)
    check_sources(fields, Path.cwd(), find_homes(Path.cwd(), whole_environment()), name)
    return write_mount(settings.servers, name, fields, False)


def _say_next(settings: Settings, name: str, file: Path, call: str) -> None:
    """Print the file, the address, and the command that calls the server."""
    click.echo(f"Made {file}")
    hub = find_running_hub(settings)
    shown = quote_word(name)
    if hub is None:
        click.echo(f"Address: /mcp/{name}, when a hub runs: patchbay serve")
    else:
        with Display().waiting(f"the hub reads {file.name}"):
            is_served = hub.wait_for(name, lambda one: one is not None)
        click.echo(f"Address: {hub.url}/mcp/{name}" + ("" if is_served else " (the hub has not read the file yet)"))
    click.echo(f"Call it: patchbay call /mcp/{name} {call}" if call else f"See its tools: patchbay show {shown}")
