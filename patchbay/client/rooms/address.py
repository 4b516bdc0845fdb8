"""The address of a room: `http://127.0.0.1:8000/rooms/demo`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from patchbay.client.addresses.targets import AddressError

_PATH = re.compile(r"/rooms/([A-Za-z0-9][A-Za-z0-9_-]{0,127})/?")


@dataclass(frozen=True, slots=True)
class RoomAddress:
    """A room of a hub: the hub's address without a path, and the room's name."""

    hub: str
    name: str

    @property
    def url(self) -> str:
        """The address of the room itself."""
        return f"{self.hub}/rooms/{self.name}"

    @property
    def socket_url(self) -> str:
        """The address of its WebSocket."""
        return f"{self.url.replace('http', 'ws', 1)}/ws"


def parse_room_address(text: str) -> RoomAddress:
    """Parse the address of a room. Raises AddressError, which says what was expected."""
    parts = urlsplit(text)
    found = _PATH.fullmatch(parts.path)
    if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc or found is None:
        raise AddressError(f"{text[:200]}: expected the address of a room, such as http://127.0.0.1:8000/rooms/demo")
    return RoomAddress(f"{parts.scheme}://{parts.netloc}", found[1])
