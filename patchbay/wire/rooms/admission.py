"""Who gets into which room: the rights of a sender on the server of a room, asked by every way into rooms.

`read` lets a sender in; `call` lets it speak, call tools and create a room. A room that a sender may not read
answers as one that does not exist. What the room's own policy forbids stays forbidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from patchbay.access.control import AccessControl
from patchbay.access.principals import Principal
from patchbay.access.quotas import Quotas
from patchbay.activation import CallPlace
from patchbay.boot.grants import CALL, READ
from patchbay.pins.offers import PROMPT, RESOURCE, SEPARATOR, SERVER_PREFIX, TOOL
from patchbay.rooms.folding.calls import LISTS
from patchbay.rooms.record.errors import NotShown, RoomRefused, UnknownRoom
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import LOBBY, Rooms
from patchbay.rooms.session import NO_LONGER_LET_IN
from patchbay.wire.rooms.byte_rates import ByteRates

_USES: Mapping[str, str] = {TOOL: CALL, RESOURCE: READ, PROMPT: READ}
"""The methods of a call, and the action that each needs."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SenderRights:
    """The rights of a sender in one room, as they are when they are asked (`SessionRights`).

    They are those of an MCP client of the room: the same names, quotas and approvals count inside the room.
    """

    access: AccessControl
    quotas: Quotas
    sender: Principal
    server: str
    bytes_sent: ByteRates

    def may_speak(self) -> bool:
        """Whether the sender may say anything."""
        return self.access.rights(self.sender).allows(CALL, self.server)

    def begin_call(self, server: Any, name: Any, method: Any) -> CallPlace | None:
        """Count a call against the quotas of the sender. Raises RoomRefused, OverQuota.

        A call of what the sender may not use raises NotShown: it is refused like one of what the room does not have. A
        call that needs an approval is refused: a room has no way to ask for one. To read a resource or to get a
        prompt needs the right to speak too, because the log keeps the request. The delay of a place does not apply:
        the minute has its limit without it, and the thread of a connection must not wait.
        """
        action = _USES.get(str(method), CALL)
        entry = _entry(str(server), str(name), str(method))
        if action == READ and not self.may_speak():
            raise RoomRefused("this participant may only read the room")
        # The hub takes each tool of a room for one that may destroy something: its member wrote the annotations.
        if action == CALL and self.access.asks_for_approval(self.sender, self.server, entry):
            raise RoomRefused(f"{entry:.160} needs an approval, which this hub asks for at /mcp/{self.server} only")
        place = self.quotas.begin_call(self.sender, self.server)
        if self.access.rights(self.sender).allows(action, self.server, entry):
            return place
        raise NotShown(f"{entry:.160} is not shown", partial(self._hide, str(server), str(name), str(method)), place)

    def _hide(self, server: str, name: str, method: str, state: Json) -> Json:
        """Return the state of a room without an entry of a server, and without a server that has no entry to show."""
        record = state["servers"].get(server)
        if record is None:
            return state
        rights, servers = self.access.rights(self.sender), dict(state["servers"])
        entries = ((action, _entry(server, one, use)) for use, action in _USES.items() for one in _names(record, use))
        if any(rights.allows(action, self.server, entry) for action, entry in entries):
            shown = [one for one in _names(record, method) if one != name]
            servers[server] = {**record, LISTS.get(method, LISTS[TOOL])[1]: shown}
        else:
            del servers[server]
        return {**state, "servers": servers}

    def count_bytes(self, size: int) -> None:
        """Count bytes that the sender sends to any room. Raises OverQuota."""
        self.bytes_sent.count(self.sender, size)

    def is_current(self) -> bool:
        """Whether the sender's credentials are valid and it may read the room."""
        return self.access.may_listen(self.sender) and self.access.rights(self.sender).allows(READ, self.server)


class RoomAdmission:
    """Opens rooms for senders."""

    def __init__(self, rooms: Rooms, access: AccessControl, quotas: Quotas) -> None:
        self._rooms = rooms
        self._access = access
        self._quotas = quotas
        self._bytes_sent = ByteRates(quotas, rooms.bounds.envelope)

    def open(self, name: str, sender: Principal) -> Room:
        """Return a room by its name or id. Raises UnknownRoom."""
        return self._check_read(self._rooms.open(name), name, sender)

    def open_to_join(self, name: str, sender: Principal) -> Room:
        """Return a room for a hello, as `open` does. The lobby is made with the first hello in it."""
        if name == LOBBY and not self.may_read(LOBBY, sender):
            raise _unknown(name)
        return self._check_read(self._rooms.open_to_join(name, sender.id), name, sender)

    def _check_read(self, room: Room, name: str, sender: Principal) -> Room:
        if not self.may_read(room.name, sender):
            raise _unknown(name)
        if not self.is_current(sender):  # a WebSocket may say hello long after it was opened
            raise RoomRefused(NO_LONGER_LET_IN)
        return room

    def is_current(self, sender: Principal) -> bool:
        """Whether the credentials of a sender are valid."""
        return self._access.may_listen(sender)

    def may_read(self, room: str, sender: Principal) -> bool:
        """Whether a sender may read the room of this name."""
        return self._access.rights(sender).allows(READ, SERVER_PREFIX + room)

    def rights(self, room: Room, sender: Principal) -> SenderRights:
        """Return the rights of a sender in a room."""
        return SenderRights(self._access, self._quotas, sender, SERVER_PREFIX + room.name, self._bytes_sent)

    def check_create(self, room: str, sender: Principal) -> None:
        """Check that a sender may create a room of this name. Raises RoomRefused."""
        if not self._access.rights(sender).allows(CALL, SERVER_PREFIX + room):
            needed = f"{SERVER_PREFIX}{room[:80]}"
            raise RoomRefused(f"no grant lets you create the room {room[:80]}: it needs `call` on {needed}")


def _names(record: Json, method: str) -> Iterable[str]:
    """Return the names that calls with this method can use on a server of a room."""
    names: Iterable[str] = record.get(LISTS.get(method, LISTS[TOOL])[1], ())
    return names


def _entry(server: str, name: str, method: str) -> str:
    """Return the name by which grants know a tool, a resource or a prompt of a room's server."""
    return name if method == RESOURCE else f"{server}{SEPARATOR}{name}"


def _unknown(name: str) -> UnknownRoom:
    return UnknownRoom(f"there is no room {name!r:.80}")
