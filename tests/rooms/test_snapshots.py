"""Snapshots of folded logs, and rooms that a process puts away."""

from __future__ import annotations

import logging
import zlib
from dataclasses import replace

import orjson
import pytest

from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.record.log import RoomLog
from patchbay.rooms.record.snapshot import LEAST_ENTRIES, is_due
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore
from patchbay.topics import ROOM_LOGS, ROOM_SNAPSHOTS
from tests.rooms.people import BOUNDS, KEY, Person, envelope, rooms_of
from tests.rooms.random_rooms import RandomRoom
from tests.waiting import until

ROOM = "a-room"
ENTRIES = LEAST_ENTRIES + 100
LATER = 150


def open_log(store: Store) -> RoomLog:
    """Open the log as a process does that has just started."""
    made = RoomLog(store, ROOM, Signer(KEY), 2**30, 300.0)
    made.catch_up()
    return made


@pytest.fixture(scope="module")
def logged() -> tuple[RandomRoom, list[bytes]]:
    """A made-up room, and its entries as they are stored."""
    room = RandomRoom(5, Signer(KEY))
    return room, [entry.data for entry, _ in room.entries(ENTRIES + LATER)]


@pytest.fixture
def store(logged: tuple[RandomRoom, list[bytes]]) -> Store:
    """A store with that log, and a snapshot of all but its last entries."""
    store = MemoryStore()
    store.journal.append_all([(ROOM_LOGS + ROOM, one, None) for one in logged[1][:ENTRIES]], {})
    open_log(store).keep_snapshot()
    store.journal.append_all([(ROOM_LOGS + ROOM, one, None) for one in logged[1][ENTRIES:]], {})
    return store


def test_a_log_with_a_snapshot_is_opened_without_its_first_entries(
    store: Store, logged: tuple[RandomRoom, list[bytes]]
) -> None:
    """ENS-16: the state is the one of the whole log, also where only the later entries can be read."""
    store.journal.trim(ROOM_LOGS + ROOM, sum(map(len, logged[1][-2 * LATER :])))
    assert orjson.loads(store.journal.read(ROOM_LOGS + ROOM, 0, 1)[0].data)["seq"] > 1
    opened, room = open_log(store), logged[0]
    assert opened.fold.state_cid == room.fold.state_cid
    assert (opened.fold.seq, opened.fold.head, opened.fold.room) == (room.fold.seq, room.fold.head, room.fold.room)
    assert opened.fold.ids == room.fold.ids
    assert opened.fold.senders == room.fold.senders


def test_places_and_sizes_are_those_of_the_whole_log(store: Store, logged: tuple[RandomRoom, list[bytes]]) -> None:
    """ENS-16: reading, and the bound of the log, go on as before."""
    opened = open_log(store)
    store.journal.trim(ROOM_SNAPSHOTS + ROOM, 0)
    whole = open_log(store)
    assert opened.bytes == whole.bytes
    for seq in (1, 2, ENTRIES, ENTRIES + 1, ENTRIES + LATER):
        assert opened.position(seq) == whole.position(seq)
        assert opened.entry(seq).entry.data == logged[1][seq - 1]


@pytest.mark.parametrize("damage", ["no compression", "other lists", "another head", "another format"])
def test_a_snapshot_that_does_not_fit_is_not_used(
    store: Store, logged: tuple[RandomRoom, list[bytes]], damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """ENS-16: the log decides; a damaged or foreign snapshot costs time and nothing else."""
    caplog.set_level(logging.WARNING)
    [row] = store.journal.tail(ROOM_SNAPSHOTS + ROOM, 1)
    fields = orjson.loads(zlib.decompress(row.data))
    fields["state"]["name"] = "forged"
    fields |= {
        "other lists": {"senders": [0]},
        "another head": {"head": "b" * 59},
        "another format": {"format": 0},
    }.get(damage, {})
    data = b"none" if damage == "no compression" else zlib.compress(orjson.dumps(fields))
    store.journal.append(ROOM_SNAPSHOTS + ROOM, data)
    assert open_log(store).fold.state_cid == logged[0].fold.state_cid
    assert ("the snapshot of the room" in caplog.text) == (damage != "another format")


def test_snapshots_grow_with_the_log_and_the_store_has_one() -> None:
    """ENS-16: a long log is not stored again and again."""
    assert not is_due(LEAST_ENTRIES - 1, 0)
    assert is_due(LEAST_ENTRIES, 0)
    assert not is_due(100_000, 90_000)
    assert is_due(112_500, 90_000)


def test_a_room_that_was_opened_from_a_snapshot_knows_old_ids_and_senders() -> None:
    """ENS-16: an envelope is logged once, and what a member said long ago is its own to redact."""
    store = MemoryStore()
    said = envelope("chat.msg", {"text": "first"})
    with rooms_of(store) as rooms:
        room = rooms.create("demo", "alice")
        bob = Person(room, "bob")
        first = bob.session.receive(said).seq
        for number in range(LEAST_ENTRIES):
            bob.says("chat.msg", {"text": str(number)})
        room.core.log.keep_snapshot()
        id = bob.id
        with rooms_of(store) as others:
            there = others.open("demo")
            session = there.resume("bob", id)
            again = session.receive(said)
            assert (again.seq, again.is_duplicate) == (first, True)
            carol = Person(there, "carol")
            assert carol.says("room.redact", {"seq": first}).refusal
            assert session.receive(envelope("room.redact", {"seq": first})).refusal == ""


def test_a_room_without_participants_is_put_away_and_opened_again_when_it_is_asked_for() -> None:
    """ENS-18: a process holds the rooms that are used."""
    with rooms_of(bounds=replace(BOUNDS, unused=0.0, idle=0.3)) as rooms:
        room = rooms.create("demo", "alice")
        alice = Person(room, "alice")
        other = rooms.create("other", "alice")
        until(lambda: rooms.open("other") is not other, "the other room is put away")
        assert rooms.open("demo") is room
        state = room.state_cid
        alice.session.leave()
        until(lambda: rooms.open("demo") is not room, "the room is put away")
        again = rooms.open("demo")
        assert again.state_cid != state
        assert Person(again, "bob").says("chat.msg", {"text": "still here"}).seq == again.seq
