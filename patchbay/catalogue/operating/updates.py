"""Starts a mounted server once, beside the hub, and reads what it lists: the rehearsal of an update."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import orjson

from patchbay import __version__
from patchbay.client.connection.environment import make_launch_environment
from patchbay.config import parse_config
from patchbay.kinds.mount.configuration import START_SECONDS, mount_of
from patchbay.kinds.mount.liveness import Patience
from patchbay.kinds.mount.snapshots import listed_entries, read_snapshot
from patchbay.kinds.mount.unread_lists import UnreadLists
from patchbay.pins.documents import ItemKey, Wire
from patchbay.settings import whole_environment


def list_offered(name: str, fields: Mapping[str, Any]) -> dict[ItemKey, Wire]:
    """Return what a mount with these fields lists, as it is pinned. Ends its process.

    Raises ConfigError, Unreachable and other errors of the client.
    """
    checked = parse_config(orjson.dumps(fields), name)
    mount = mount_of(name, checked, name)
    environ = whole_environment()
    # The official SDK takes half a second to load.
    connections = import_module("patchbay.client.connection.connection")
    with connections.Connection.open(
        mount.reach(environ),
        era=mount.era,
        version=__version__,
        start_timeout=START_SECONDS,
        questions=connections.QUESTIONS,
        environ=make_launch_environment(environ),
    ) as connection:
        snapshot = read_snapshot(connection, mount.digest, UnreadLists(Patience()))
    return listed_entries(snapshot, snapshot.descriptors()[0])
