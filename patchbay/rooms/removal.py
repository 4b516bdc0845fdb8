"""Deletes a room: its log, contents, snapshots, manifests and server, in the store of all processes.

The end of a room is recorded where its beginning is: in the history of names, with the number and the head of the last
entry. So a copy of the log that was exported before can be checked against it. A room is deleted only as the reader
knows it: an entry after the given head refuses the deletion (RFC 9110, section 13.1.1).
"""

from __future__ import annotations

from patchbay.catalogue.contents.ledger import ROOMS as ROOM_ACCOUNT
from patchbay.catalogue.contents.ledger import Ledger
from patchbay.errors import StaleUpdate
from patchbay.kinds.room.offers import SERVER_PREFIX, WHO
from patchbay.rooms.errors import RoomChanged, RoomRefused, UnknownRoom
from patchbay.rooms.room import Room
from patchbay.store import Store
from patchbay.topics import (
    NAMES_CHANGED,
    ROOM_CREATORS,
    ROOM_LOGS,
    ROOM_MANIFESTS,
    ROOM_NEWS,
    ROOM_OFFERS,
    ROOM_SNAPSHOTS,
    ROOMS,
    SERVERS,
)

REMOVED = b"removed"
"""The news of a room that is deleted."""

_EVERYTHING = 2**62
"""A seq above all others."""

TOPICS_TOGETHER = 1000
"""Topics whose entries are deleted in one step."""


def check_may_remove(room: Room, principal: str, is_operator: bool) -> None:
    """Check that a principal may delete a room: its creator, and the operator of the hub. Raises RoomRefused."""
    if not is_operator and room.pseudonym(principal) != room.state_now["creator"]:
        raise RoomRefused(f"only its creator and the operator of the hub may delete the room {room.name}")


def remove_room(store: Store, room: Room, head: str) -> None:
    """Delete a room whose newest entry is `head` from the store, and tell all processes.

    Raises RoomChanged if the log has other entries, UnknownRoom if the room is deleted already.
    """
    room.state()
    if room.head != head:
        raise RoomChanged(
            f"the newest entry of the room {room.name} is {room.head}, not {head:.80}: export its log again first"
        )
    others = (SERVERS + SERVER_PREFIX + room.name, ROOM_OFFERS + SERVER_PREFIX + room.name)
    manifests = store.names.all(f"{ROOM_MANIFESTS}{room.id}/")
    gone = dict.fromkeys([ROOMS + room.name, *(one for one in others if store.names.get(one) is not None), *manifests])
    why = f"the room was deleted after entry {room.seq}, head {head}"
    try:
        store.names.move(gone, WHO, why, {ROOMS + room.name: room.id})
    except StaleUpdate as problem:
        raise UnknownRoom(f"there is no room {room.name} any more") from problem
    room.answer_calls("the room was deleted")
    store.bus.publish(NAMES_CHANGED)
    store.bus.publish(ROOM_NEWS + room.id, REMOVED)


def delete_log(store: Store, ledger: Ledger, room: Room) -> None:
    """Delete the log of a room whose name is gone, with everything that belongs to it, and free its creator's place."""
    topics = [f"{ROOM_LOGS}{room.id}", ROOM_SNAPSHOTS + room.id, *room.content_topics()]
    for place in range(0, len(topics), TOPICS_TOGETHER):
        store.journal.remove_all(dict.fromkeys(topics[place : place + TOPICS_TOGETHER], _EVERYTHING))
    for row in store.journal.read(ROOM_CREATORS + room.id):
        ledger.take_back(row.data.decode(), ROOM_ACCOUNT, 0, 1)
    store.journal.remove(ROOM_CREATORS + room.id, _EVERYTHING)
