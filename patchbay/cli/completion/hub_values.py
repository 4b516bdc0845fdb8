"""What a hub offers to shell completion: names of servers, tools, keys, people and rooms, arguments and their values.

A running hub is asked; without one, the data folder and the servers folder are read. An error gives nothing: a shell
shows no message while a person types.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from typing import Any, TypeVar

import click

from patchbay.access.keys import PersonalKeys
from patchbay.access.people.people import People
from patchbay.access.providers.invited import InvitedPeople
from patchbay.catalogue.operating.past_versions import list_versions
from patchbay.catalogue.operating.removal import list_removed
from patchbay.cli.data_store import opened_store
from patchbay.cli.local_files import read_only_settings
from patchbay.cli.running_hub import find_running_hub, load_hub_settings
from patchbay.cli.server_directory import list_names, read_server
from patchbay.errors import PatchbayError
from patchbay.settings import Settings
from patchbay.store import Store

Json = Mapping[str, Any]
Found = TypeVar("Found")

MAX_SCHEMAS = 200
"""Schemas that are read for the values of one argument."""

MAX_VALUES = 500
"""Values that one argument offers."""


def find_server_names(context: click.Context) -> list[str]:
    """Return the names of all servers."""
    return _quietly(context, lambda settings: list_names(settings, find_running_hub(settings)))


def find_removed_names(context: click.Context) -> list[str]:
    """Return the names of removed servers."""
    return _read_store(context, lambda store, settings: list_removed(store, settings.servers))


def find_version_numbers(context: click.Context, server: str) -> list[str]:
    """Return the numbers of the versions of a server, the newest first."""
    return _read_store(
        context,
        lambda store, settings: [str(one.number) for one in list_versions(store, server) if one.row is not None],
    )


def find_key_names(context: click.Context) -> list[str]:
    """Return the names of the personal keys that are not revoked."""
    return _read_store(context, lambda store, settings: [key.name for key in PersonalKeys(store).all()])


def find_people(context: click.Context) -> list[str]:
    """Return the names of the accounts."""
    return _read_store(context, lambda store, settings: [person.name for person in People(store.journal).list()])


def find_invited(context: click.Context) -> list[str]:
    """Return who is invited to a sign-in with an identity provider, each once."""
    return _read_store(
        context, lambda store, settings: list(dict.fromkeys(row.who for row in InvitedPeople(store.journal).list()))
    )


def find_waiting_approvals(context: click.Context) -> list[str]:
    """Return the ids of the calls that wait for an approval at the running hub."""

    def find(settings: Settings) -> list[str]:
        hub = find_running_hub(settings)
        found = hub.get("/approvals.json") if hub is not None else None
        return [each["id"] for each in found["approvals"] if each["waits"]] if found is not None else []

    return _quietly(context, find)


def find_room_names(context: click.Context) -> list[str]:
    """Return the names of the rooms of the running hub, at most those of its first page."""

    def find(settings: Settings) -> list[str]:
        hub = find_running_hub(settings)
        found = hub.get("/rooms.json") if hub is not None else None
        return [each["name"] for each in found["rooms"]] if found is not None else []

    return _quietly(context, find)


def find_entries(context: click.Context, server: str, kind: str) -> list[str]:
    """Return the names of the tools or prompts of a server, or the URIs of its resources, by `kind`."""
    return [str(row.get("uri") or row["name"]) for row in _read_entries(context, server, kind)]


def find_arguments(context: click.Context, server: str, kind: str, entry: str) -> dict[str, list[str]]:
    """Return the arguments of a tool or prompt, each with its possible values; an empty list stands for any text."""
    for row in _read_entries(context, server, kind):
        if row["name"] == entry:
            if kind == "prompts":
                return {one["name"]: [] for one in row["wire"].get("arguments") or ()}
            return list_arguments(row["input"])
    return {}


def list_arguments(schema: Any) -> dict[str, list[str]]:
    """Return the arguments of an input schema, each with its possible values; an empty list stands for any text.

    The schema is of a stranger: parts with a wrong type count as absent.
    """
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: _list_values(schema, one) for name, one in properties.items()}


def _read_entries(context: click.Context, server: str, kind: str) -> list[Json]:
    def find(settings: Settings) -> list[Json]:
        return list(read_server(settings, find_running_hub(settings), server)[kind])

    return _quietly(context, find)


def _list_values(schema: Json, one: Any) -> list[str]:
    """Return the values that a property may have: those of an enumeration, or true and false.

    A property may refer to itself and branch: at most MAX_SCHEMAS schemas are read, and MAX_VALUES values returned.
    """
    waiting, found, count = [one], list[str](), 0
    while waiting and count < MAX_SCHEMAS and len(found) < MAX_VALUES:
        part, count = _resolve(schema, waiting.pop(0)), count + 1
        values = part.get("enum")
        values = list(values) if isinstance(values, list) else [part["const"]] if "const" in part else []
        if not values and part.get("type") == "boolean":
            values = [True, False]
        found += [str(value).lower() if isinstance(value, bool) else str(value) for value in values if _is_plain(value)]
        for key in ("anyOf", "oneOf"):
            branches = part.get(key)
            waiting += branches if isinstance(branches, list) else []
    return list(dict.fromkeys(found))[:MAX_VALUES]


def _resolve(schema: Json, one: Any) -> Json:
    """Return a part of a schema; for a reference to a definition, the definition. Another type is an empty schema."""
    reference = one.get("$ref") if isinstance(one, dict) else None
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        definitions = schema.get("$defs")
        one = definitions.get(reference.removeprefix("#/$defs/")) if isinstance(definitions, dict) else None
    return one if isinstance(one, dict) else {}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _read_store(context: click.Context, find: Callable[[Store, Settings], list[Found]]) -> list[Found]:
    """Return what a function finds in the store of the hub; an empty list without one, which is not made."""

    def read(settings: Settings) -> list[Found]:
        with opened_store(read_only_settings(settings)) as store:
            return find(store, settings)

    return _quietly(context, read)


def _quietly(context: click.Context, find: Callable[[Settings], list[Found]]) -> list[Found]:
    """Return what a function finds with the settings of a command; an empty list when it raises."""
    try:
        with redirect_stderr(io.StringIO()):
            return find(load_hub_settings(context))
    except (PatchbayError, OSError, SystemExit):
        return []
