"""The update of a mounted package: a rehearsal of the new version, compared with the pins, before it is mounted.

The rehearsal starts the new version once, beside the hub, and reads what it lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import orjson

from patchbay import __version__
from patchbay.client.connection.programs.environment import make_launch_environment
from patchbay.config import parse_config
from patchbay.pins.documents import ItemKey, Wire
from patchbay.pins.explanation import describe_change
from patchbay.pins.records import load_pins
from patchbay.processes.confinement.programs import ProgramConfinement, ProgramPlaces
from patchbay.settings import whole_environment
from patchbay.store import Store
from patchbay.upstreams.configuration import START_SECONDS, mount_of
from patchbay.upstreams.lists.snapshots import listed_entries, read_snapshot
from patchbay.upstreams.lists.unread_lists import UnreadLists
from patchbay.upstreams.liveness import Patience


def list_offered(name: str, fields: Mapping[str, Any], programs: ProgramPlaces) -> dict[ItemKey, Wire]:
    """Return what a mount with these fields lists, as it is pinned. Ends its process.

    `programs` are the places of the hub: a program is confined as the mount will be. Raises ConfigError, Unreachable
    and other errors of the client.
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
        confinement=ProgramConfinement(name, programs, mount.permissions, environ, mount.program),
    ) as connection:
        snapshot = read_snapshot(connection, mount.digest, UnreadLists(Patience()))
    return listed_entries(snapshot, snapshot.descriptors()[0])


def find_changes(store: Store, name: str, listed: Mapping[ItemKey, Wire]) -> Iterator[str]:
    """Yield how lists differ from the approved pins of a server, one sentence for each entry."""
    document = load_pins(store, name).document
    if document is None:
        return
    for key, item in document.items.items():
        if item.approved is None:
            continue
        old = orjson.loads(store.blobs.get(item.approved.cid))
        new = listed.get(key)
        if new is None:
            yield f"{':'.join(key)} is gone"
        elif dict(new) != old:
            meanings = "; ".join(each.sentence for each in describe_change(key, old, new))
            yield f"{':'.join(key)} changes: {meanings}"
    for key in listed:
        if key not in document.items:
            yield f"{':'.join(key)} is new"
