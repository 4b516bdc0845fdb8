"""The entry of this hub in an application: a URL for applications that speak HTTP, else a program that they start."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchbay.client.applications.applications import Application
from patchbay.client.applications.entries import Token
from patchbay.settings import Settings

AGGREGATE = "patchbay"
"""The name of the endpoint of all servers in an application."""


def stdio_command(settings: Settings, server: str, local: bool) -> list[str]:
    """The command that serves a server (all servers for an empty name) over standard input and output.

    With `local` the command has the paths of the program and of the hub's folders, and the shipped servers that this
    hub switches on. Set `local` only for a reader who may see paths.
    """
    beside = Path(sys.executable).with_name("patchbay")
    program = [str(beside)] if beside.is_file() else [sys.executable, "-m", "patchbay"]
    folders = ["--data", str(settings.data.absolute()), "--servers", str(settings.servers.absolute())]
    enabled = ["--enable", ",".join(settings.enable)] if settings.enable else []
    words = program if local else ["patchbay"]
    return [*words, "stdio", *([server] if server else []), *([*folders, *enabled] if local else [])]


def make_entry(
    application: Application, name: str, url: str, command: Sequence[str] = (), token: Token | None = None
) -> dict[str, Any]:
    """Make the value of the hub's entry. `command` is used by an application without HTTP, and for an empty URL."""
    if not url or not application.speaks_http:
        return application.family.write_program(name, list(command))
    return application.family.write_url(name, url, token, application.reference)
