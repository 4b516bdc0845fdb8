"""The entries that a room offers to the MCP clients of the hub, in the store; the room's server is built from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.boot import canonical_json
from patchbay.catalogue.servers.rows import ServerRow
from patchbay.kind import CONFIGURATION_KIND
from patchbay.pins.offers import METHODS, SERVER_PREFIX, Offer, OfferedEntry, keep_offer
from patchbay.rooms.core import RoomCore
from patchbay.rooms.folding.acl import is_limited, rules_of
from patchbay.rooms.record.canonical import cid_of_value
from patchbay.rooms.servers.announcements import advertised
from patchbay.store import Store
from patchbay.topics import NAMES_CHANGED, SERVERS


def keep_room_offer(room: RoomCore) -> bool:
    """Store the entries that a room offers now, and announce a change to every process of the hub.

    Returns whether the room hides something from some MCP client. A room whose policy closes it to MCP clients
    (`gateway`) offers nothing.
    """
    seq, state = room.seq, room.state_now
    found = advertised(room) if state["policy"].get("gateway", False) else []
    lists = {
        f"{kind}s": tuple(
            OfferedEntry(one.server_id, one.descriptor.wire, one.digest) for one in found if one.descriptor.kind == kind
        )
        for kind in METHODS
    }
    offer = Offer(room.id, seq, **lists, limits=digest_limits(state))
    if keep_offer(room.store, SERVER_PREFIX + room.name, offer, room.bounds.changes):
        room.store.bus.publish(NAMES_CHANGED)
    return bool(offer.limits)


def digest_limits(state: Mapping[str, Any]) -> str:
    """Return a digest of what hides entries of a room from some MCP clients; empty when each sees all."""
    policy, members = state["policy"], state["members"]
    is_closed = policy["join"] != "public"
    banned = sorted(name for name, record in members.items() if record["membership"] == "banned")
    if not (is_limited(state) or is_closed or banned):
        return ""
    roles = {name: record["role"] for name, record in members.items() if record["role"] is not None}
    here = sorted(name for name, one in members.items() if one["membership"] in ("joined", "invited"))
    return cid_of_value([policy["acl"], rules_of(state), banned, roles, here if is_closed else []])


def row_names(store: Store, name: str, id: str) -> dict[str, str]:
    """Store the row of a room's server; returns its name in the store and its CID."""
    definition = store.blobs.put(canonical_json({"kind": "room", "room": id, "title": f"Room {name}"}))
    row = ServerRow(SERVER_PREFIX + name, CONFIGURATION_KIND, definition)
    return {SERVERS + row.name: store.blobs.put(row.to_json())}
