"""The rooms of a hub for their MCP servers: the entries that a room offers, and calls of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.activation import Events
from patchbay.errors import PatchbayError, ToolFailed
from patchbay.pins.documents import ItemKey, Wire
from patchbay.pins.enforcement import PinState, check_pins
from patchbay.pins.offers import METHODS, Offer, load_offer, served_names
from patchbay.pins.records import load_pins
from patchbay.rooms.folding.acl import rules_of
from patchbay.rooms.message_source import MessageSource
from patchbay.rooms.rooms import Rooms
from patchbay.rooms.visibility import shows_wire

MAX_CALLERS = 4096
"""Callers of one room whose view is remembered."""


class RoomAudience:
    """Who sees what of an offer: the present state of the room decides (`patchbay.kind.Audience`)."""

    def __init__(self, rooms: Rooms, offer: Offer) -> None:
        self._rooms = rooms
        self._offer = offer
        self._known: dict[str, tuple[object, frozenset[str]]] = {}
        self.digest = offer.limits

    @property
    def is_needed(self) -> bool:
        """Whether a room of the hub hides something from some MCP client."""
        return bool(self._rooms.limited)

    def messages(self, principal: str | None, place: str) -> MessageSource:
        """Return the entries of the room as the source of an event type; None is the operator."""
        return MessageSource(self._rooms, self._offer.room, principal, place)

    def hidden_from(self, principal: str) -> frozenset[str]:
        """Return the names and URIs of the entries that the room hides from an MCP client."""
        if self._offer.room not in self._rooms.limited:
            return frozenset()
        try:
            room = self._rooms.open(self._offer.room)
        except PatchbayError:
            return served_names(self._offer, lambda server, kind, wire: True)
        state, who = room.client_now(principal)
        # A call changes the state of a room, and nothing of what is compared here.
        seen = (who, rules_of(state), state["policy"]["acl"])
        known = self._known.get(principal)
        if known is None or known[0] != seen:
            if len(self._known) >= MAX_CALLERS:
                self._known = {}
            hidden = served_names(
                self._offer,
                lambda server, kind, wire: who is None or not shows_wire(state, server, METHODS[kind], wire, who),
            )
            known = self._known[principal] = seen, hidden
        return known[1]


class RoomServers:
    """Implements `patchbay.upstreams.room_caller.RoomCaller` with the rooms of this process."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def offer(self, server: str) -> Offer | None:
        """Return the offer of the room behind a server, or None."""
        return load_offer(self._rooms.store, server)

    def audience(self, offer: Offer) -> RoomAudience:
        """Return who sees what of an offer."""
        if offer.limits:
            self._rooms.limited.add(offer.room)  # this process may not have opened the room yet
        return RoomAudience(self._rooms, offer)

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
