"""What the rooms of a hub do for the servers of their members: their offers, their pins, and the calls to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from patchbay.activation import Events
from patchbay.kind import Audience
from patchbay.pins.documents import ItemKey, Wire
from patchbay.pins.enforcement import PinState
from patchbay.pins.offers import Offer


class RoomCaller(Protocol):
    """The rooms of a hub, as their servers see them."""

    def offer(self, server: str) -> Offer | None:
        """Return what the room behind a server offers, or None."""
        ...

    def audience(self, offer: Offer) -> Audience:
        """Return who sees what of an offer."""
        ...

    def check_pins(self, server: str, listed: Mapping[ItemKey, Wire]) -> PinState:
        """Return which of these entries the pins of a room's server hold or report."""
        ...

    def call(
        self,
        room: str,
        server_id: str,
        name: str,
        arguments: Mapping[str, object],
        principal: str,
        ttl: float,
        method: str,
    ) -> Events:
        """Call a tool of a room (its id): the events of one activation and its ending. `ttl` in seconds.

        With another `method`, read the resource whose URI is `name`, or get the prompt of this name.
        """
        ...
