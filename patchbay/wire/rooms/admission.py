"""Who gets into which room: the rights of a sender on the server of a room, asked by every way into rooms.

`read` lets a sender in; `call` lets it speak, call tools and create a room. A room that a sender may not read
answers as one that does not exist. What the room's own policy forbids stays forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchbay.access.control import AccessControl
from patchbay.access.principals import Principal
from patchbay.boot.grants import CALL, READ
from patchbay.kinds.room.offers import SERVER_PREFIX
from patchbay.rooms.errors import RoomRefused, UnknownRoom
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import LOBBY, Rooms


@dataclass(frozen=True, slots=True)
class SenderRights:
    """The rights of a sender in one room, as they are when they are asked (`SessionRights`)."""

    access: AccessControl
    sender: Principal
    server: str

    def permits(self, entry: str) -> bool:
        """Whether the sender may call a tool of the room; for an empty `entry`, whether it may say anything."""
        return self.access.rights(self.sender).allows(CALL, self.server, entry)

    def is_current(self) -> bool:
        """Whether the sender's credentials are valid and it may read the room."""
        return self.access.is_current(self.sender) and self.access.rights(self.sender).allows(READ, self.server)


class RoomAdmission:
    """Opens rooms for senders."""

    def __init__(self, rooms: Rooms, access: AccessControl) -> None:
        self._rooms = rooms
        self._access = access

    def open(self, name: str, sender: Principal) -> Room:
        """Return a room by its name or id. Raises UnknownRoom."""
        room = self._rooms.open(name)
        if not self.may_read(room.name, sender):
            raise UnknownRoom(f"there is no room {name!r:.80}")
        return room

    def open_to_join(self, name: str, sender: Principal) -> Room:
        """Return a room for a sender that joins it; the lobby is made when it is not there. Raises UnknownRoom."""
        if name == LOBBY and self.may_read(LOBBY, sender):
            self._rooms.open_to_join(name, sender.id)
        return self.open(name, sender)

    def may_read(self, room: str, sender: Principal) -> bool:
        """Whether a sender may read the room of this name."""
        return self._access.rights(sender).allows(READ, SERVER_PREFIX + room)

    def rights(self, room: Room, sender: Principal) -> SenderRights:
        """Return the rights of a sender in a room."""
        return SenderRights(self._access, sender, SERVER_PREFIX + room.name)

    def check_create(self, room: str, sender: Principal) -> None:
        """Check that a sender may create a room of this name. Raises RoomRefused."""
        if not self._access.rights(sender).allows(CALL, SERVER_PREFIX + room):
            needed = f"{SERVER_PREFIX}{room[:80]}"
            raise RoomRefused(f"no grant lets you create the room {room[:80]}: it needs `call` on {needed}")
