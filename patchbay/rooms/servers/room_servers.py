"""The rooms of a hub for their MCP servers: the entries that a room offers, and calls of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.activation import Events
from patchbay.errors import PatchbayError, ToolFailed
from patchbay.kinds.room.offers import Offer, load_offer
from patchbay.pins.documents import ItemKey, Wire
from patchbay.pins.enforcement import PinState, check_pins
from patchbay.pins.records import load_pins
from patchbay.rooms.rooms import Rooms


class RoomServers:
    """Implements `patchbay.kinds.room.kind.RoomCaller` with the rooms of this process."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def offer(self, server: str) -> Offer | None:
        """Return the offer of the room behind a server, or None."""
        return load_offer(self._rooms.store, server)

    def check_pins(self, server: str, listed: Mapping[ItemKey, Wire]) -> PinState:
        """Return which of these entries the pins of a room's server hold or report."""
        return check_pins(load_pins(self._rooms.store, server), self._rooms.bounds.changes, listed)

    def call(
        self,
        room: str,
        server_id: str,
        name: str,
        arguments: Mapping[str, Any],
        principal: str,
        ttl: float,
        method: str,
    ) -> Events:
        """Use a tool, resource or prompt of a room (its id): the events of one activation and its ending."""
        try:
            found = self._rooms.open(room)
        except PatchbayError as problem:
            raise ToolFailed(problem.message) from problem
        yield from found.call(server_id, name, dict(arguments), principal, ttl, method)
