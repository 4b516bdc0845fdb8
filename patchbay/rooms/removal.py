"""Deletes a room: its log, contents, snapshots, manifests and server, in the store of all processes.

The end of a room is recorded where its beginning is: in the history of names, with the number and the head of the last
entry. So a copy of the log that was exported before can be checked against it. A room is deleted only as the reader
knows it: an entry after the given head refuses the deletion (RFC 9110, section 13.1.1).

First the log is ended (`RoomLog.end`), then the names go, then the log. After a failure in between, a process that
opens the room, or the regular work of the rooms, does the rest.
"""

from __future__ import annotations

from patchbay.catalogue.contents.ledger import ROOMS as ROOM_ACCOUNT
from patchbay.catalogue.contents.ledger import Ledger
from patchbay.errors import StaleUpdate
from patchbay.pins.offers import SERVER_PREFIX, WHO
from patchbay.rooms.record.errors import RoomRefused
from patchbay.rooms.record.log import RoomLog
from patchbay.rooms.record.writers import give_back
from patchbay.rooms.room import Room
from patchbay.store import Store
from patchbay.topics import (
    NAMES_CHANGED,
    ROOM_CREATORS,
    ROOM_LOGS,
    ROOM_MANIFESTS,
    ROOM_NEWS,
    ROOM_OFFERS,
    ROOM_REMOVALS,
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


def remove_room(store: Store, room: Room) -> None:
    """Delete the names of a room whose log is ended, and tell all processes; its log is deleted later.

    Does nothing for a room without its name: another process has deleted it.
    """
    room.state()
    others = (SERVERS + SERVER_PREFIX + room.name, ROOM_OFFERS + SERVER_PREFIX + room.name)
    manifests = store.names.all(f"{ROOM_MANIFESTS}{room.id}/")
    gone: dict[str, str | None] = dict.fromkeys(
        [ROOMS + room.name, *(one for one in others if store.names.get(one) is not None), *manifests]
    )
    why = f"the room was deleted after entry {room.seq}, head {room.head}"
    try:
        store.names.move(gone | {ROOM_REMOVALS + room.id: room.id}, WHO, why, {ROOMS + room.name: room.id})
    except StaleUpdate:
        return
    room.answer_calls("the room was deleted")
    store.bus.publish(NAMES_CHANGED)
    store.bus.publish(ROOM_NEWS + room.id, REMOVED)


def delete_log(store: Store, ledger: Ledger, log: RoomLog) -> None:
    """Delete the log of a room whose name is gone, with everything that belongs to it, and free its creator's place.

    Its writers get back the bytes of it.

    It can be repeated: the log, which says what belongs to it, is deleted last.
    """
    log.catch_up()
    topics = [*log.content_topics(), ROOM_SNAPSHOTS + log.room, log.topic]
    for place in range(0, len(topics), TOPICS_TOGETHER):
        store.journal.remove_all(dict.fromkeys(topics[place : place + TOPICS_TOGETHER], _EVERYTHING))
    free_place(store, ledger, log.room)
    give_back(store.journal, ledger, log.room)
    if store.names.get(ROOM_REMOVALS + log.room) is not None:
        store.names.move({ROOM_REMOVALS + log.room: None}, WHO, "the log of a deleted room was deleted")


def free_place(store: Store, ledger: Ledger, id: str) -> None:
    """Give the place of a room back to its creator, once, however often this is called."""
    topic = ROOM_CREATORS + id
    rows = store.journal.read(topic)
    if len(rows) == 1:  # a second row says that the place was given back
        seq = rows[0].seq
        try:
            ledger.take_back(rows[0].data.decode(), ROOM_ACCOUNT, 0, 1, [(topic, b"", None)], {topic: seq})
        except StaleUpdate:
            if store.journal.last(topic) == seq:
                raise
    store.journal.remove(topic, _EVERYTHING)


def discard_unnamed(store: Store, ledger: Ledger, id: str, name: str) -> None:
    """Delete the log of a room that was not created, unless the name of the room leads to it after all."""
    if store.names.get(ROOMS + name) != id:
        free_place(store, ledger, id)
        give_back(store.journal, ledger, id)
        store.journal.remove(ROOM_LOGS + id, _EVERYTHING)
