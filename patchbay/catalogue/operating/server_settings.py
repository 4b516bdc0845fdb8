"""Reads and saves the configuration of one server as a text: its settings.

A server with code has its configuration beside its definition; a server without code is its configuration. A change
goes to the file of the server where it has one, else to the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from patchbay.boot import read_variable
from patchbay.catalogue.operating.allowed_folders import LISTS_FUNCTIONS, check_place
from patchbay.catalogue.operating.switching import find_row
from patchbay.catalogue.provenance import reaches_outside
from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.servers.rows import ServerRow
from patchbay.catalogue.servers.server import Server
from patchbay.catalogue.watching.drop_ins import drop_ins
from patchbay.catalogue.watching.folder import with_auto_discover
from patchbay.config import find_errors, parse_config
from patchbay.errors import ConfigError, InvalidParams, StaleUpdate
from patchbay.kind import configured_kind
from patchbay.processes.confinement.denials import READS, WRITES
from patchbay.store import Store
from patchbay.topics import MCPS, SERVERS
from patchbay.upstreams.configuration import UPSTREAM, mount_of

MAX_SETTINGS_BYTES = 256 * 1024
"""Bytes of the text of a configuration, at most."""


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """The configuration of a server: its text, and its CID, which is empty for a server without one.

    `is_of_variable` says that the variable `mcps` names it; else the row of the server does.
    """

    text: str
    cid: str
    row: ServerRow
    row_cid: str
    is_of_variable: bool = False


def read_settings(store: Store, server: Server) -> StoredSettings:
    """Return the configuration of a server as it is stored.

    A server without one has the text that stands for it, which lists its functions. Raises ReadOnly, UnknownServer for
    a server that was removed meanwhile, and ConfigError for one that only a variable has, or a room.
    """
    row_cid, row = find_row(store, server.name, server.origin, "change it there")
    if row.is_configuration:
        return StoredSettings(store.blobs.get(row.definition_cid).decode(), row.definition_cid, row, row_cid)
    if server.config_cid is not None and server.config_cid != row.config_cid:
        text = store.blobs.get(server.config_cid).decode()
        return StoredSettings(text, server.config_cid, row, row_cid, is_of_variable=True)
    if row.config_cid is None:
        return StoredSettings(
            orjson.dumps(LISTS_FUNCTIONS, option=orjson.OPT_INDENT_2).decode() + "\n", "", row, row_cid
        )
    return StoredSettings(store.blobs.get(row.config_cid).decode(), row.config_cid, row, row_cid)


def find_settings_errors(text: str, server: Server, before: str = "", hub: Iterable[Path] = ()) -> list[ConfigError]:
    """Return the errors of a text that becomes the configuration of a server.

    `before` is the text that it replaces: only places that are new in it have to exist, outside the places `hub` of the
    hub itself.
    """
    where = "the settings"
    if len(text.encode()) > MAX_SETTINGS_BYTES:
        return [ConfigError(where, "", f"expected at most {MAX_SETTINGS_BYTES // 1024} KiB of text")]
    errors = find_errors(text.encode(), where)
    if errors:
        return errors
    fields = parse_config(text.encode(), where)
    if fields.get("kind") == UPSTREAM:
        try:
            mount_of(server.name, fields, where)
        except ConfigError as problem:
            return [problem]
    replaced = _read_fields(before)
    kept = configured_kind(replaced)
    if kept != configured_kind(fields):
        return [
            ConfigError(where, "kind", "expected the kind that the server has: make another server for another kind")
        ]
    return list(_find_wrong_places(fields, replaced, tuple(hub), where))


def _find_wrong_places(
    fields: dict[str, Any], before: dict[str, Any], hub: tuple[Path, ...], where: str
) -> Iterable[ConfigError]:
    # A mounted program may also be allowed to change a file.
    is_mount = fields.get("kind") == UPSTREAM
    for field in (WRITES, READS):
        for number, place in enumerate(fields.get(field, ())):
            if place in before.get(field, ()) or place == "/":
                continue
            try:
                check_place(READS if is_mount else field, place, hub)
            except InvalidParams as problem:
                yield ConfigError(where, f"{field}.{number}", problem.message)


def _read_fields(text: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def save_settings(store: Store, servers: Path, now: StoredSettings, base: str, text: str, who: str, why: str) -> None:
    """Save a text as the configuration of a server, in its file where it has one.

    `now` is what is stored, `base` the CID of the configuration that the author started from, empty for none. The text
    has no errors (`find_settings_errors`). Raises StaleUpdate, Refused, InvalidParams.
    """
    name, row = now.row.name, now.row
    if now.cid != base:
        raise StaleUpdate(f"{name} was not saved: another configuration was saved meanwhile. Your text is still here")
    editor = ServerEditor(store, servers)
    if row.is_configuration and (reaches_outside(text.encode()) or name in drop_ins(store)):
        editor.configuration_file(name, text.encode(), base, who, why)
        return
    if row.is_configuration:
        editor.definition(name, row.kind, text.encode(), base, who, why)
        return
    if now.is_of_variable:
        _save_in_variable(store, editor, now, text, who, why)
        return
    data = with_auto_discover(text.encode()) if name in drop_ins(store) else text.encode()
    changed = replace(row, config_cid=store.blobs.put(data))
    wanted = {SERVERS + name: store.blobs.put(changed.to_json())}
    editor.names(wanted, who, why, {SERVERS + name: now.row_cid})


def _save_in_variable(store: Store, editor: ServerEditor, now: StoredSettings, text: str, who: str, why: str) -> None:
    """Name another configuration of a server in the variable `mcps`; its other entries stay as they are."""
    seen = store.names.get(MCPS)
    entries = orjson.loads(read_variable(store, MCPS.removeprefix("variables/")) or b"{}")
    if entries.get(now.row.name, {}).get("config_cid") != now.cid:
        raise StaleUpdate(f"{now.row.name} was not saved: the variable mcps has changed meanwhile")
    entries[now.row.name] |= {"config_cid": store.blobs.put(text.encode())}
    changed = orjson.dumps(entries, option=orjson.OPT_INDENT_2) + b"\n"
    editor.names({MCPS: store.blobs.put(changed)}, who, why, {MCPS: seen})
