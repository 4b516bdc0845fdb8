"""The choices of a user of these commands: clients, servers, and the places of files on this machine."""

from __future__ import annotations

import sys
from dataclasses import replace

import click
import orjson
from click.shell_completion import CompletionItem

from patchbay.boot.sources import load_image
from patchbay.catalogue.rows import BOOT, name_problem
from patchbay.cli.data_store import opened_store
from patchbay.client.applications.applications import APPLICATIONS, Machine, find_machine
from patchbay.client.suggestions import describe_unknown_name
from patchbay.errors import ConfigError
from patchbay.settings import Settings, whole_environment
from patchbay.store import store_exists
from patchbay.topics import SERVERS


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
    """Raise ConfigError when the hub has no server of this name, with similar names.

    The servers are those of the store, or of the boot image before the first start, and the files of the folder.
    """
    name = server.partition("@")[0]
    problem = name_problem(name, BOOT)
    if problem:
        raise ConfigError("SERVER", "", problem)
    files = [one.name.partition(".")[0] for one in settings.servers.glob("*")] if settings.servers.is_dir() else []
    if name in files:
        return
    is_new = not store_exists(settings.store, settings.data)
    with opened_store(replace(settings, store="memory") if is_new else settings) as store:
        if is_new:
            image = orjson.loads(load_image(settings.boot, store)[0])
            known = [row["name"] for row in image["servers"]]
        else:
            known = [one.removeprefix(SERVERS) for one in store.names.all(SERVERS)]
    if name not in known:
        raise ConfigError("SERVER", "", describe_unknown_name(name, sorted({*known, *files}), "server"))
