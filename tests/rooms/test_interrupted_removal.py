"""Rooms whose creation or deletion is interrupted: a store that is away, or an entry at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress

import pytest

from patchbay.catalogue.contents.ledger import ROOMS as ROOM_ACCOUNT
from patchbay.errors import ContentError
from patchbay.rooms.record.errors import RoomChanged, RoomRefused, UnknownRoom
from patchbay.rooms.record.log import END
from patchbay.rooms.rooms import Rooms
from patchbay.store import Blobs
from patchbay.stores.memory import MemoryJournal, MemoryNames, MemoryStore
from patchbay.topics import ROOM_CREATORS, ROOM_LOGS, ROOM_REMOVALS
from tests.rooms.people import Person, rooms_of
from tests.waiting import until


def nothing() -> None:
    """Do nothing before a change."""


class Names(MemoryNames):
    """Names that cannot be used while they are away, and that do something before each move."""

    def __init__(self, blobs: Blobs) -> None:
        super().__init__(threading.RLock(), blobs)
        self.moves_away = self.is_away = False
        self.before: Callable[[], None] = nothing

    def get(self, name: str) -> str | None:
        if self.is_away:
            raise ContentError("the store is away")
        return super().get(name)

    def move(
        self, changes: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None] | None = None
    ) -> int:
        if self.moves_away or self.is_away:
            raise ContentError("the store is away")
        before, self.before = self.before, nothing
        before()
        return super().move(changes, who, why, expected)


class Rows(MemoryJournal):
    """A journal that deletes nothing while it is away, and that does something before a log ends."""

    def __init__(self) -> None:
        super().__init__()
        self.deletes_away = False
        self.before_end: Callable[[], None] = nothing

    def remove_all(self, before: Mapping[str, int]) -> int:
        if self.deletes_away:
            raise ContentError("the store is away")
        return super().remove_all(before)

    def append_all(self, entries: Sequence[tuple[str, bytes, float | None]], last: Mapping[str, int]) -> list[int]:
        if entries[0][1] == END:
            before, self.before_end = self.before_end, nothing
            before()
        return super().append_all(entries, last)


class Store(MemoryStore):
    """A store of these names and of this journal."""

    def __init__(self) -> None:
        super().__init__()
        self.its_names, self.its_rows = Names(self.blobs), Rows()
        self.names, self.journal = self.its_names, self.its_rows


@pytest.fixture
def store() -> Iterator[Store]:
    with closing(Store()) as opened:
        yield opened


@pytest.fixture
def rooms(store: Store) -> Iterator[Rooms]:
    with rooms_of(store) as found:
        yield found


def is_gone(rooms: Rooms, id: str) -> bool:
    """Whether nothing of a room of ann is left, and her place is free."""
    topics = (ROOM_LOGS + id, ROOM_CREATORS + id)
    names = [*rooms.all(), *rooms.store.names.all(ROOM_REMOVALS)]
    return not (any(map(rooms.store.journal.last, topics)) or names or rooms.ledger.used("ann", ROOM_ACCOUNT).things)


def test_a_room_that_a_failing_store_did_not_create_costs_its_creator_nothing(store: Store, rooms: Rooms) -> None:
    store.its_names.moves_away = True
    with pytest.raises(ContentError):
        rooms.create("demo", "ann")
    store.its_names.moves_away = False
    assert rooms.ledger.used("ann", ROOM_ACCOUNT).things == 0


def test_a_place_that_could_not_be_given_back_is_given_back_later(store: Store, rooms: Rooms) -> None:
    store.its_names.is_away = True
    with pytest.raises(ContentError):
        rooms.create("demo", "ann")
    assert rooms.ledger.used("ann", ROOM_ACCOUNT).things == 1
    store.its_names.is_away = False
    rooms.create("demo", "ann")
    assert rooms.ledger.used("ann", ROOM_ACCOUNT).things == 1


def test_a_second_removal_finishes_one_whose_names_did_not_move(store: Store, rooms: Rooms) -> None:
    room = rooms.create("demo", "ann")
    store.its_names.moves_away = True
    with pytest.raises(ContentError):
        rooms.remove(room, "ann", room.head)
    store.its_names.moves_away = False
    rooms.remove(room, "ann", room.head)
    assert is_gone(rooms, room.id)


def test_a_process_that_opens_a_room_finishes_its_removal(store: Store, rooms: Rooms) -> None:
    room = rooms.create("demo", "ann")
    store.its_names.moves_away = True
    with pytest.raises(ContentError):
        rooms.remove(room, "ann", room.head)
    store.its_names.moves_away = False
    with rooms_of(store) as others:
        with pytest.raises(UnknownRoom):
            others.open("demo")
        assert is_gone(others, room.id)
        assert others.create("demo", "ann").seq == 1


def test_the_regular_work_deletes_a_log_that_could_not_be_deleted(store: Store, rooms: Rooms) -> None:
    room = rooms.create("demo", "ann")
    Person(room, "ann", caps=["can.speak"]).says("chat.msg", {"text": "x"})
    store.its_rows.deletes_away = True
    with pytest.raises(ContentError):
        rooms.remove(room, "ann", room.head)
    store.its_rows.deletes_away = False
    assert store.journal.last(ROOM_LOGS + room.id)
    with rooms_of(store) as others:
        others.start()
        until(lambda: is_gone(others, room.id), "the end of the removal")


def test_what_is_said_right_before_the_end_of_a_log_refuses_the_deletion(store: Store, rooms: Rooms) -> None:
    room = rooms.create("demo", "ann")
    with rooms_of(store) as others:
        theirs = others.open("demo")

        def join() -> None:
            Person(theirs, "bob")

        store.its_rows.before_end = join
        with pytest.raises(RoomChanged, match="export its log again"):
            rooms.remove(room, "ann", room.head)
        assert rooms.open("demo").seq == theirs.seq == 2


def test_nothing_can_be_said_between_the_end_of_a_log_and_that_of_its_name(store: Store, rooms: Rooms) -> None:
    room = rooms.create("demo", "ann")
    accepted = []
    with rooms_of(store) as others:
        theirs = others.open("demo")

        def join() -> None:
            with suppress(UnknownRoom, RoomRefused):
                accepted.append(Person(theirs, "bob"))

        store.its_names.before = join
        rooms.remove(room, "ann", room.head)
    assert accepted == []
    assert is_gone(rooms, room.id)
