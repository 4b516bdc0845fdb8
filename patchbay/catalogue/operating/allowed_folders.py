"""Allow the tools of a server to change a folder, or a mounted program to read a place that it does not see.

These are the fields `writes` and `reads` of its configuration.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchbay.catalogue.operating.switching import find_row
from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.watching.mount_files import write_mount
from patchbay.client.applications.client_entries import is_client_entry, read_section
from patchbay.errors import ConfigError, InvalidParams, Refused
from patchbay.processes.confinement.denials import WRITES
from patchbay.store import Store
from patchbay.topics import SERVERS

LISTS_FUNCTIONS = {"auto_discover": True}
"""The configuration that means the same as none: it lists the functions of the definition."""


def allow_place(
    store: Store,
    servers: Path,
    name: str,
    origin: str,
    config: Mapping[str, Any],
    line: tuple[str, str],
    who: str,
    hub: Iterable[Path] = (),
) -> None:
    """Add a line to the configuration of a server, in its file where it has one.

    `servers` is the watched folder; `origin` and `config` are those of the server as it is built; `line` has the field,
    WRITES or READS, and the place (`/...` or `~/...`); `hub` are the places of the hub itself. Raises ReadOnly,
    UnknownServer, StaleUpdate, Refused, InvalidParams for a place that does not exist or is one of the hub, and
    ConfigError for a server whose configuration is elsewhere, or that has no such field.
    """
    field, place = line
    cid, row = find_row(store, name, origin, f'add {json.dumps(place)} to its field "{field}" there')
    check_place(field, place, hub)
    known = list(config.get(field, ()))
    if place in known:
        return
    if row.is_configuration:
        fields = _read_program_mount(store, row.definition_cid, origin, name, line)
        write_mount(servers, name, {**fields, field: [*known, place]}, replace=True)
        return
    if field != WRITES:
        raise ConfigError(origin, field, f"expected a mounted program: not {name}, whose code reads these places")
    wanted = json.dumps({**(config or LISTS_FUNCTIONS), WRITES: [*known, place]}, indent=2, ensure_ascii=False) + "\n"
    changed = replace(row, config_cid=store.blobs.put(wanted.encode()))
    why = f"tools of {name} may change {place}"
    ServerEditor(store, servers).names(
        {SERVERS + name: store.blobs.put(changed.to_json())}, who, why, {SERVERS + name: cid}
    )


def _read_program_mount(store: Store, definition: str, origin: str, name: str, line: tuple[str, str]) -> dict[str, Any]:
    """Return the configuration of a mounted program.

    Raises ConfigError for another server without code, and Refused for one of a file with several servers.
    """
    field = line[0]
    fields: Any = json.loads(store.blobs.get(definition))
    if read_section(fields) is not None:
        text = f'"{field}": {json.dumps([line[1]])}'
        raise Refused(
            f"{name} is described in {origin}, which this page does not change: add {text} to its entry there"
        )
    is_program = isinstance(fields, dict) and str(fields.get("address", "")).startswith("mcp+")
    if not is_program and not (is_client_entry(fields) and "command" in fields):
        raise ConfigError(origin, field, f"expected a server with code of its own, or a mounted program: not {name}")
    return dict(fields)


def check_place(field: str, text: str, hub: Iterable[Path]) -> None:
    """Check a place for the field WRITES or READS: it exists, and is not one of the places `hub` of the hub itself.

    Raises InvalidParams.
    """
    what = "folder" if field == WRITES else "folder or file"
    if not text.startswith(("/", "~/")):
        raise InvalidParams(f"folder must be the path of a {what}, /... or ~/...; it is {text!r:.200}")
    try:
        place = Path(os.path.realpath(Path(text).expanduser()))
        exists = place.is_dir() if field == WRITES else place.exists()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: there is no home folder
        exists = False
    if not exists:
        raise InvalidParams(f"there is no {what} {text!r:.200} on the machine of the hub: make it first")
    if any(place.is_relative_to(one.resolve()) for one in hub):
        raise InvalidParams(f"{text!r:.200} is a {what} of the hub itself, which no tool may use: name another one")
