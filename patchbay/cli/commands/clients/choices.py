"""The choices of a user of these commands: clients, servers, and the places of files on this machine."""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem

from patchbay.cli.server_directory import find_server, opened_catalogue
from patchbay.client.applications.applications import APPLICATIONS, Machine, find_machine
from patchbay.settings import Settings, whole_environment


def machine() -> Machine:
    """Return the places of the current user's files."""
    return find_machine(sys.platform, whole_environment())


def complete_client(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a client."""
    return [CompletionItem(name, help=row.title) for name, row in APPLICATIONS.items() if name.startswith(incomplete)]


def complete_source(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a client, or else of a file."""
    return complete_client(context, parameter, incomplete) or [CompletionItem(incomplete, type="file")]


def check_server(settings: Settings, server: str) -> None:
    """Raise UnknownServer, with similar names, when the hub has no server of this name (`name` or `name@cid`)."""
    with opened_catalogue(settings) as catalogue:
        find_server(catalogue, server.partition("@")[0])
