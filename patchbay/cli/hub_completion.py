"""What a hub offers to shell completion: its servers, their tools, prompts and resources, arguments and their values.

A running hub is asked; without one, the data folder and the servers folder are read. An error gives nothing: a shell
shows no message while a person types.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr
from typing import Any, TypeVar

import click

from patchbay.catalogue.operating.past_versions import list_versions
from patchbay.catalogue.operating.removal import list_removed
from patchbay.cli.data_store import opened_store
from patchbay.cli.running_hub import find_running_hub, load_hub_settings
from patchbay.cli.server_directory import list_servers, read_server
from patchbay.errors import PatchbayError
from patchbay.settings import Settings

Json = Mapping[str, Any]
Found = TypeVar("Found")


def find_server_names(context: click.Context) -> list[str]:
    """Return the names of all servers."""
    return _quietly(
        context, lambda settings: [row["name"] for row in list_servers(settings, find_running_hub(settings))]
    )


def find_removed_names(context: click.Context) -> list[str]:
    """Return the names of removed servers."""

    def find(settings: Settings) -> list[str]:
        with opened_store(settings) as store:
            return list_removed(store, settings.servers)

    return _quietly(context, find)


def find_version_numbers(context: click.Context, server: str) -> list[str]:
    """Return the numbers of the versions of a server, the newest first."""

    def find(settings: Settings) -> list[str]:
        with opened_store(settings) as store:
            return [str(one.number) for one in list_versions(store, server) if one.row is not None]

    return _quietly(context, find)


def find_entries(context: click.Context, server: str, kind: str) -> list[str]:
    """Return the names of the tools or prompts of a server, or the URIs of its resources, by `kind`."""
    return [str(row.get("uri") or row["name"]) for row in _read_entries(context, server, kind)]


def find_arguments(context: click.Context, server: str, kind: str, entry: str) -> dict[str, list[str]]:
    """Return the arguments of a tool or prompt, each with its possible values; an empty list stands for any text."""
    for row in _read_entries(context, server, kind):
        if row["name"] == entry:
            if kind == "prompts":
                return {one["name"]: [] for one in row.get("arguments") or ()}
            schema = row["input"]
            return {name: _list_values(schema, one) for name, one in schema.get("properties", {}).items()}
    return {}


def _read_entries(context: click.Context, server: str, kind: str) -> list[Json]:
    def find(settings: Settings) -> list[Json]:
        return list(read_server(settings, find_running_hub(settings), server)[kind])

    return _quietly(context, find)


def _list_values(schema: Json, one: Any) -> list[str]:
    """Return the values that a property may have: those of an enumeration, or true and false."""
    if not isinstance(one, dict):
        return []
    reference = str(one.get("$ref", ""))
    if reference.startswith("#/$defs/"):
        one = schema.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
    values: Iterable[Any] = one.get("enum") or ([one["const"]] if "const" in one else [])
    values = list(values) or ([True, False] if one.get("type") == "boolean" else [])
    for branch in one.get("anyOf", ()):
        values = [*values, *_list_values(schema, branch)]
    return [str(value).lower() if isinstance(value, bool) else str(value) for value in values if value is not None]


def _quietly(context: click.Context, find: Callable[[Settings], list[Found]]) -> list[Found]:
    """Return what a function finds with the settings of a command; an empty list when it raises."""
    try:
        with redirect_stderr(io.StringIO()):
            return find(load_hub_settings(context))
    except (PatchbayError, OSError, SystemExit):
        return []
