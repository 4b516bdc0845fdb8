"""The address of a room: `http://127.0.0.1:8000/rooms/demo`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from patchbay.client.addresses.targets import AddressError

_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
_PATH = re.compile(rf"/rooms/({_NAME})/?")


@dataclass(frozen=True, slots=True)
class RoomAddress:
    """A room of a hub: the hub's address without a path, and the room's name.

    `token` is the operator's token of that hub, for a room that was named without an address; "" for any other.
    """

    hub: str
    name: str
    token: str = field(default="", repr=False, compare=False)

    def add_token(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request to this room; those of the caller come first."""
        names = {name.lower() for name in headers}
        own = {"Authorization": f"Bearer {self.token}"} if self.token and "authorization" not in names else {}
        return {**own, **headers}

    @property
    def path(self) -> str:
        """The path of the room below the address of its hub."""
        return f"/rooms/{self.name}"

    @property
    def url(self) -> str:
        """The address of the room itself."""
        return f"{self.hub}{self.path}"

    @property
    def socket_url(self) -> str:
        """The address of its WebSocket."""
        return f"{self.url.replace('http', 'ws', 1)}/ws"


def is_room_name(text: str) -> bool:
    """Whether a text is the name of a room without an address."""
    return re.fullmatch(_NAME, text) is not None


def parse_room_address(text: str) -> RoomAddress:
    """Parse the address of a room. Raises AddressError, which says what was expected."""
    parts = urlsplit(text)
    found = _PATH.fullmatch(parts.path)
    if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc or found is None:
        expected = "expected the address of a room, such as http://127.0.0.1:8000/rooms/demo"
        raise AddressError(f"{text[:200]}: {expected}, or the name of a room of the running hub")
    return RoomAddress(f"{parts.scheme}://{parts.netloc}", found[1])
