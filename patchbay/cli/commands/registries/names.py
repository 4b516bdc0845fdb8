"""What a person may type in place of a name of a registry: a URL, an address, a command line, a file or a folder."""

from __future__ import annotations

from pathlib import Path

from patchbay.catalogue.operating.pasted_servers import LAUNCHERS, read_pasted_servers
from patchbay.cli.terminal.messages import quote_word
from patchbay.client.registry.choices import PACKAGE_KINDS
from patchbay.errors import InvalidParams
from patchbay.kind import code_endings
from patchbay.python_functions.sdk_servers import find_run_command

_PATHS = ("./", "../", "/", "~")


def check_registry_name(name: str, servers: Path) -> None:
    """Raise InvalidParams that names the command for a text that is no name of a registry.

    `servers` is the folder of the servers. Raises ConfigError for a command line or an address that cannot be read.
    """
    place = Path(name).expanduser()
    if (place.suffix and place.is_file()) or name.startswith(_PATHS):
        raise InvalidParams(
            f"add takes a name of a registry, and {name} is a path: {_serve_path(name, place, servers)}"
        )
    if name.startswith(tuple(f"{kind}:" for kind in PACKAGE_KINDS)):
        return
    first, space, _ = name.strip().partition(" ")
    is_command_line = bool(space) and first in LAUNCHERS
    if "://" in name or name.startswith("mcp+") or is_command_line:
        own = read_pasted_servers(name)[0]
        if own.problem:
            raise InvalidParams(f"add takes a name of a registry, not {name}: {own.problem}")
        words = f"-- {name}" if is_command_line else quote_word(name)
        if own.fields.get("kind") == "openapi":
            command = f"patchbay new {own.name} --api {words.removeprefix('openapi+')}"
        else:
            command = f"patchbay mount {own.name} {words}"
        raise InvalidParams(f"add takes a name of a registry, not {name}: run `{command}`")


def _serve_path(name: str, place: Path, servers: Path) -> str:
    """Return what to do with a file or a folder."""
    word = quote_word(name)
    if place.is_dir():
        return f"`patchbay new NAME --folder {word}` serves its documents"
    if not place.exists():
        return "there is no such file"
    own = find_run_command(place.read_text("utf-8", "replace")) if place.suffix == ".py" else ""
    if own:
        return f"it has an MCP server of its own. Run `patchbay mount {quote_word(place.stem)} -- {own} {word}`"
    if place.suffix in code_endings():
        return f"copy it into the servers folder: cp {word} {quote_word(str(servers))}/"
    return (
        f"`patchbay import {word}` reads a file for MCP clients, `patchbay new NAME --api {word}` an OpenAPI document"
    )
