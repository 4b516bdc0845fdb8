"""Switch a server on or off, and restart it.

Whether a server is on is part of its row in the store, also for a server of the watched folder: its file stays as it
is. A configuration with `enabled: false` switches a server off too; only its author changes that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchbay.boot import change_names, is_readonly
from patchbay.catalogue.servers.rows import ROOM, ServerRow, is_of_room, parse_row
from patchbay.catalogue.servers.server import unknown_server
from patchbay.errors import ConfigError, ReadOnly
from patchbay.store import Store
from patchbay.topics import MCPS, RERUN, RESTART, SERVERS


def switch_server(store: Store, name: str, origin: str, config: Mapping[str, Any], is_on: bool, who: str) -> bool:
    """Switch a server on or off; return whether this changed anything. A running hub follows within a second.

    `origin` and `config` are those of the server as it is built. Raises ReadOnly, UnknownServer for a server that was
    removed meanwhile, and ConfigError for one that only its configuration, a variable or its room can switch.
    """
    cid, row = find_row(store, name, origin, 'change its field "enabled" there')
    wanted = replace(row, enabled=is_on)
    if is_on and not wanted.is_enabled(config):
        raise ConfigError(origin, "enabled", f"expected true; change it there, because it switches {name} off")
    if row.enabled == is_on:
        return False
    fresh = store.blobs.put(wanted.to_json())
    change_names(
        store, {SERVERS + name: fresh}, who, f"{name} is switched {'on' if is_on else 'off'}", {SERVERS + name: cid}
    )
    return True


def find_row(store: Store, name: str, origin: str, elsewhere: str) -> tuple[str, ServerRow]:
    """Return the row of a server that can be changed here, with its CID.

    `elsewhere` is what to do where only the variable `mcps` has the server. Raises ReadOnly, UnknownServer, and
    ConfigError for a server of that variable or of a room.
    """
    check_changeable(store)
    cid = store.names.get(SERVERS + name)
    if cid is None and origin == MCPS:
        raise ConfigError(MCPS, name, f"only this variable has the server: {elsewhere}")
    if cid is None:
        raise unknown_server(name, ())
    row = parse_row(name, store.blobs.get(cid), origin)
    check_not_of_room(row)
    return cid, row


def request_restart(store: Store, name: str) -> None:
    """Tell every process of the hub to end the processes of a server, and to build the server again.

    Running calls of a Python server finish first; a call to a mounted server may fail.
    """
    store.bus.publish(f"{RERUN}{name}", RESTART.encode())


def check_changeable(store: Store) -> None:
    """Raise ReadOnly for a hub that was booted read-only."""
    if is_readonly(store):
        raise ReadOnly("this hub was booted read-only: you cannot change anything")


def check_not_of_room(row: ServerRow) -> None:
    """Raise ConfigError for the server of a room: the room decides about it."""
    if is_of_room(row):
        raise ConfigError(row.name, "", f"expected a server of its own; this is of a {ROOM}: change it in the room")
