"""A deleted room: nothing of it is left in the store, and everything that was open ends, in every worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from patchbay.catalogue.contents.ledger import ROOMS as ROOM_ACCOUNT
from patchbay.catalogue.contents.ledger import Ledger, Limit
from patchbay.errors import OverQuota
from patchbay.events import Failed, Pause
from patchbay.rooms.record.errors import RoomChanged, RoomExists, RoomRefused, UnknownRoom
from patchbay.rooms.record.verification import verify
from patchbay.rooms.rooms import Rooms
from patchbay.stores import open_store
from patchbay.topics import ROOMS
from tests.attacks.leftovers import left
from tests.rooms.people import Person, envelope, rooms_of
from tests.waiting import until

MOST = 3


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Rooms, Rooms]]:
    """The rooms of one hub in two workers, where each principal may create three."""
    store = open_store("sqlite", tmp_path)
    with closing(store), rooms_of(store) as first, rooms_of(store) as second:
        for rooms in (first, second):
            rooms.ledger = Ledger(
                store.journal, lambda principal, account: Limit(None, MOST if account == ROOM_ACCOUNT else None)
            )
        yield first, second


def test_a_deleted_room_leaves_the_record_of_its_end_alone(two: tuple[Rooms, Rooms]) -> None:
    rooms, _ = two
    room = rooms.create("demo", "ann")
    person = Person(room, "ann", caps=["tool.call", "can.speak"])
    person.says("chat.msg", {"text": "x" * 1000})
    before = left(rooms.store, f"room-log/{room.id}").entries
    assert before > 1
    lines = list(room.lines())
    head, seq = room.head, room.seq
    rooms.remove(room, "ann", head)
    assert left(rooms.store, "room-log/", "room-content/", "room-snapshots/", "room-creators/").entries == 0
    assert rooms.all() == []
    assert not [name for name in rooms.store.names.all("") if "demo" in name or room.id in name]
    assert rooms.store.names.past(ROOMS + "demo")[0].why == f"the room was deleted after entry {seq}, head {head}"
    assert verify(lines).head == head
    with pytest.raises(UnknownRoom):
        rooms.open("demo")


def test_a_room_of_one_entry_is_exported_for_a_creator_that_never_joined(two: tuple[Rooms, Rooms]) -> None:
    rooms, _ = two
    room = rooms.create("demo", "ann")
    found = verify(room.lines(0, "ann"))
    assert (found.ok, found.entries, found.withheld) == (True, 1, 0)
    rooms.remove(room, "ann", found.head)


def test_sessions_end_in_every_worker_and_say_nothing_any_more(two: tuple[Rooms, Rooms]) -> None:
    here, there = two
    room = here.create("demo", "ann")
    bob = Person(there.open("demo"), "bob", caps=["can.speak"])
    room.state()
    here.remove(room, "ann", room.head)
    until(lambda: bob.session.is_closed, "the end of the session in the other worker")
    with pytest.raises((UnknownRoom, RoomRefused)):
        bob.session.receive(envelope("chat.msg", {"text": "after the end"}))
    assert left(here.store, "room-log/").entries == 0


def test_open_calls_are_answered_in_every_worker(two: tuple[Rooms, Rooms]) -> None:
    here, there = two
    room = here.create("demo", "ann")
    bob = Person(here.open("demo"), "bob")
    bob.announces("fs")
    other = there.open("demo")
    until(lambda: other.tools(), "the tools in the other worker")
    events = other.call("fs", "read", {}, "zoe", 60)
    assert isinstance(next(events), Pause)
    bob.waits_for("tool.call")
    room.state()
    here.remove(room, "ann", room.head)
    assert next(event for event in events if not isinstance(event, Pause)) == Failed("the room was deleted")


def test_what_was_said_after_the_export_refuses_the_deletion(two: tuple[Rooms, Rooms]) -> None:
    rooms, _ = two
    room = rooms.create("demo", "ann")
    head = room.head
    Person(room, "bob")
    with pytest.raises(RoomChanged, match="export its log again"):
        rooms.remove(room, "ann", head)
    assert rooms.open("demo") is room and room.seq == 2


def test_only_the_creator_and_the_operator_delete_a_room(two: tuple[Rooms, Rooms]) -> None:
    rooms, _ = two
    room = rooms.create("demo", "ann")
    with pytest.raises(RoomRefused, match="only its creator and the operator"):
        rooms.remove(room, "bob", room.head)
    rooms.remove(room, "bob", room.head, is_operator=True)
    assert rooms.all() == []


def test_each_principal_creates_a_limited_number_and_a_deleted_room_frees_a_place(two: tuple[Rooms, Rooms]) -> None:
    here, there = two
    made = [(here, there)[number % 2].create(f"room{number}", "ann") for number in range(MOST)]
    for rooms in two:
        with pytest.raises(OverQuota, match="each caller may have 3 rooms: delete one first"):
            rooms.create("more", "ann")
    with pytest.raises(OverQuota):
        here.fork(made[0], 1, "ann", "fork")
    there.create("other", "ben")
    with pytest.raises(RoomExists):
        there.create("other", "ben")
    assert there.ledger.used("ben", ROOM_ACCOUNT).things == 1
    here.remove(made[0], "ann", made[0].head)
    for number in range(5):
        room = here.create("again", "ann")
        with pytest.raises(OverQuota):
            here.create(f"more{number}", "ann")
        here.remove(room, "ann", room.head)
    assert here.ledger.used("ann", ROOM_ACCOUNT).things == MOST - 1
    assert left(here.store, "ledger/").entries <= 2 * MOST


def test_the_lobby_counts_for_no_caller(two: tuple[Rooms, Rooms]) -> None:
    rooms, _ = two
    rooms.open_to_join("lobby", "ann")
    for number in range(MOST):
        rooms.create(f"room{number}", "ann")
    assert len(rooms.all()) == MOST + 1
