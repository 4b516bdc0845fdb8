"""The entries that a room offers to the MCP clients of the hub, in the store; the room's server is built from them."""

from __future__ import annotations

from patchbay.boot import canonical_json
from patchbay.catalogue.rows import ServerRow
from patchbay.kind import CONFIGURATION_KIND
from patchbay.kinds.room.offers import METHODS, SERVER_PREFIX, Offer, OfferedEntry, keep_offer
from patchbay.rooms.core import RoomCore
from patchbay.rooms.servers.announcements import advertised
from patchbay.store import Store
from patchbay.topics import NAMES_CHANGED, SERVERS


def keep_room_offer(room: RoomCore) -> None:
    """Store the entries that a room offers now, and announce a change to every process of the hub.

    A room whose policy closes it to MCP clients (`gateway`) offers nothing.
    """
    seq, state = room.seq, room.state_now
    found = advertised(room) if state["policy"].get("gateway", False) else []
    lists = {
        f"{kind}s": tuple(
            OfferedEntry(one.server_id, one.descriptor.wire, one.digest) for one in found if one.descriptor.kind == kind
        )
        for kind in METHODS
    }
    if keep_offer(room.store, SERVER_PREFIX + room.name, Offer(room.id, seq, **lists), room.bounds.changes):
        room.store.bus.publish(NAMES_CHANGED)


def row_names(store: Store, name: str, id: str) -> dict[str, str]:
    """Store the row of a room's server; returns its name in the store and its CID."""
    definition = store.blobs.put(canonical_json({"kind": "room", "room": id, "title": f"Room {name}"}))
    row = ServerRow(SERVER_PREFIX + name, CONFIGURATION_KIND, definition)
    return {SERVERS + row.name: store.blobs.put(row.to_json())}
