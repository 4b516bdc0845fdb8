"""Allow the tools of a server to change a folder: the field `writes` of its configuration."""

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
from patchbay.errors import ConfigError, InvalidParams
from patchbay.store import Store
from patchbay.topics import SERVERS


def allow_folder(
    store: Store,
    servers: Path,
    name: str,
    origin: str,
    config: Mapping[str, Any],
    folder: str,
    who: str,
    hub: Iterable[Path] = (),
) -> None:
    """Add a folder (`/...` or `~/...`) to `writes` of a server, in its file where it has one.

    `servers` is the watched folder; `origin` and `config` are those of the server as it is built; `hub` are the places
    of the hub itself. Raises ReadOnly, UnknownServer, StaleUpdate, Refused, InvalidParams for a folder that does not
    exist or is one of the hub, and ConfigError for a server whose configuration is elsewhere.
    """
    cid, row = find_row(store, name, origin, f'add {json.dumps(folder)} to its field "writes" there')
    _check_folder(folder, hub)
    writes = list(config.get("writes", ()))
    if folder in writes:
        return
    if row.is_configuration:
        fields = _read_program_mount(store, row.definition_cid, origin, name)
        write_mount(servers, name, {**fields, "writes": [*writes, folder]}, replace=True)
        return
    wanted = json.dumps({**config, "writes": [*writes, folder]}, indent=2, ensure_ascii=False) + "\n"
    changed = replace(row, config_cid=store.blobs.put(wanted.encode()))
    why = f"tools of {name} may change {folder}"
    ServerEditor(store, servers).names(
        {SERVERS + name: store.blobs.put(changed.to_json())}, who, why, {SERVERS + name: cid}
    )


def _read_program_mount(store: Store, definition: str, origin: str, name: str) -> dict[str, Any]:
    """Return the configuration of a mounted program. Raises ConfigError for another server without code."""
    fields = json.loads(store.blobs.get(definition))
    if not isinstance(fields, dict) or not str(fields.get("address", "")).startswith("mcp+"):
        raise ConfigError(origin, "writes", f"expected a server with code of its own, or a mounted program: not {name}")
    return fields


def _check_folder(folder: str, hub: Iterable[Path]) -> None:
    if not folder.startswith(("/", "~/")):
        raise InvalidParams(f"folder must be the path of a folder, /... or ~/...; it is {folder!r:.200}")
    try:
        place = Path(os.path.realpath(Path(folder).expanduser()))
        exists = place.is_dir()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: there is no home folder
        exists = False
    if not exists:
        raise InvalidParams(f"there is no folder {folder!r:.200} on the machine of the hub: make it first")
    if any(place.is_relative_to(one.resolve()) for one in hub):
        raise InvalidParams(
            f"{folder!r:.200} is a folder of the hub itself, which no tool may change: name another one"
        )
