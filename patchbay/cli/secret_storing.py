"""The secrets of a hub for commands: opened with its key, and stored from the settings of other programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
import orjson

from patchbay.access.secrets.folder import open_secrets_folder
from patchbay.access.secrets.names import SecretRefused, is_secret_like
from patchbay.access.secrets.records import Secrets
from patchbay.access.stored_key_id import open_key
from patchbay.cli.data_store import CHANGED_BY, opened_store
from patchbay.cli.terminal.messages import write_note
from patchbay.client.applications.mounts import Variables, hide_environment, hide_headers
from patchbay.errors import PatchbayError
from patchbay.settings import Settings, whole_environment
from patchbay.terminal import is_terminal

WITHOUT_FOLDER = "store its secrets on its page /secrets"

_REQUIRED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference without a default."""


@contextmanager
def opened_secrets(settings: Settings) -> Iterator[Secrets]:
    """Open the secrets of the hub in the data folder, with its key. Raises PatchbayError."""
    with opened_store(settings, WITHOUT_FOLDER) as store:
        yield Secrets(store, open_key(store, settings.data))


def store_secrets(
    settings: Settings, values: Mapping[str, str], servers: Mapping[str, Iterable[str]]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Store each value under its name, for its servers alone; return the stored names, and the others with the reason.

    A secret that exists with another value stays as it is: other servers may use it.
    """
    stored: list[str] = []
    left: list[tuple[str, str]] = []
    with opened_secrets(settings) as secrets:
        known = {one.entry.name: one.entry.servers for one in secrets.all()}
        for name in sorted(values):
            try:
                if name in known and _find(secrets, name, known[name]) != values[name]:
                    left.append((name, f"it has another value in the hub: `patchbay secret rotate {name}` replaces it"))
                    continue
                wanted = () if name in known and not known[name] else (*known.get(name, ()), *servers.get(name, ()))
                secrets.put(name, values[name], CHANGED_BY, wanted)
            except PatchbayError as problem:
                left.append((name, problem.message))
                continue
            stored.append(name)
    return stored, left


def hide_literals(name: str, fields: Mapping[str, Any]) -> tuple[dict[str, Any], Variables]:
    """Ask on a terminal whether the literal secrets of a mount become secrets of the hub.

    Return the fields with references in their place, and the values to store. Without a terminal, without such a value,
    or after the answer no, return the fields as they are, which a check refuses, and nothing to store.
    """
    variables, hidden = Variables(), dict(fields)
    for key, hide in (("headers", hide_headers), ("environment", hide_environment)):
        if isinstance(fields.get(key), Mapping):
            hidden[key] = hide(fields[key], name, variables)
    names = ", ".join(sorted(variables.values))
    if names and is_terminal(sys.stdin) and click.confirm(f"Store {names} in the hub, for {name} alone?", default=True):
        return hidden, variables
    return dict(fields), Variables()


def ask_for_missing(settings: Settings, name: str, fields: Mapping[str, Any]) -> None:
    """Ask on a terminal for each secret that a mount names and that has no value, and store it for this mount alone.

    A file of `secrets_dir` and a variable of the environment are values too. An empty answer leaves it for later.
    """
    if not is_terminal(sys.stdin) or settings.store == "memory":
        return
    text = orjson.dumps(fields).decode()
    folder = open_secrets_folder(settings.secrets_dir)
    named = {found for found in _REQUIRED.findall(text) if is_secret_like(found)} - whole_environment().keys()
    wanted = [one for one in sorted(named) if folder is None or not folder.has(one)]
    if not wanted:
        return
    with opened_secrets(settings) as secrets:
        known = {one.entry.name for one in secrets.all()}
        for variable in (one for one in wanted if one not in known):
            value = click.prompt(
                f"Value of {variable}, to store it in the hub (Enter leaves it for later)",
                default="",
                show_default=False,
                hide_input=True,
                err=True,
            )
            if value:
                secrets.put(variable, value, CHANGED_BY, [name])


def note_unstored(left: Iterable[tuple[str, str]]) -> None:
    """Say which secrets were not stored, and why."""
    for name, reason in left:
        write_note(f"{name} is not stored: {reason}")


def _find(secrets: Secrets, name: str, servers: tuple[str, ...]) -> str | None:
    """Return the present value of a secret; None for one that this hub cannot read."""
    try:
        return secrets.find(name, servers[0] if servers else "")
    except SecretRefused:
        return None
