"""The choices of a user of these commands: clients, servers, and the places of files on this machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from urllib.parse import urlsplit

import click
from click.shell_completion import CompletionItem

from patchbay.cli.running_hub import find_hub_address, load_hub_settings
from patchbay.cli.server_directory import check_name
from patchbay.client.applications.applications import APPLICATIONS, Machine, find_machine
from patchbay.settings import Settings, whole_environment


def machine() -> Machine:
    """Return the places of the current user's files."""
    return find_machine(sys.platform, whole_environment())


def load_reached_settings(context: click.Context) -> Settings:
    """Load the settings of a command with the host, port and path prefix of the hub that runs on the data folder.

    The options --host and --port come first; without a running hub the settings count. Raises ConfigError.
    """
    settings = load_hub_settings(context)
    parts = urlsplit(find_hub_address(context, settings).local)
    host, port = parts.hostname or settings.host, parts.port or settings.port
    return replace(settings, host=host, port=port, path_prefix=parts.path)


def complete_client(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a client."""
    return [CompletionItem(name, help=row.title) for name, row in APPLICATIONS.items() if name.startswith(incomplete)]


def complete_source(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a client, or else of a file."""
    return complete_client(context, parameter, incomplete) or [CompletionItem(incomplete, type="file")]


def check_server(settings: Settings, server: str) -> None:
    """Raise UnknownServer, with similar names, when the hub has no server of this name (`name` or `name@cid`)."""
    check_name(settings, server.partition("@")[0])
