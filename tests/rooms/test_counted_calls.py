"""The quota place of a call inside a room: it is taken once, and released at the end of the call, however it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from patchbay.access.principals import Principal
from patchbay.access.quotas import CALLS_IN_FLIGHT, Quotas
from patchbay.events import Mailbox
from patchbay.rooms.room import Room
from patchbay.rooms.servers.counted import CountedCalls
from patchbay.rooms.session import UnlimitedRights
from patchbay.stores.memory import MemoryStore
from tests.rooms.people import Person, call, rooms_of
from tests.waiting import until

CAROL = Principal("carol")


class CountedRights(UnlimitedRights):
    """Every right, and quotas."""

    def __init__(self, most: int) -> None:
        self._quotas = Quotas(lambda: None, {CALLS_IN_FLIGHT: most})

    def begin_call(self, server: Any, name: Any, method: Any) -> Any:
        return self._quotas.begin_call(CAROL, "room.demo")

    def has_room(self) -> bool:
        """Whether one more call may begin."""
        return self._quotas.refusal(CAROL, "room.demo") is None


@pytest.fixture
def two() -> Iterator[tuple[Room, Room]]:
    """One room, as two workers hold it."""
    store = MemoryStore()
    with rooms_of(store) as first, rooms_of(store) as second:
        yield first.create("demo", "alice"), second.open("demo")


def make_people(here: Room, there: Room, most: int = 1) -> tuple[Person, Person, CountedRights]:
    """A caller here, the owner of the server `fs` there, and the rights of the caller."""
    bob, carol, rights = Person(there, "bob"), Person(here, "carol"), CountedRights(most)
    bob.announces("fs")
    carol.waits_for("tool.advertise")
    carol.session.rights = rights
    return carol, bob, rights


ENDINGS: dict[str, Callable[[Person, Person, str], object]] = {
    "the owner answers": lambda carol, bob, call_id: bob.answers(call_id, "done"),
    "the caller cancels": lambda carol, bob, call_id: carol.says("tool.cancel", {"callId": call_id}),
    "the caller leaves": lambda carol, bob, call_id: carol.session.leave(),
    "the owner leaves": lambda carol, bob, call_id: bob.session.leave(),
    "the worker of the caller closes the room": lambda carol, bob, call_id: carol.room.close(),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("where", ["in one worker", "in two workers"])
def test_a_call_is_counted_until_it_ends(two: tuple[Room, Room], where: str, ending: str) -> None:
    here, there = two
    carol, bob, rights = make_people(here, there if where == "in two workers" else here)
    call_id = carol.calls()
    assert "too many calls" in carol.session.receive(call()).refusal
    bob.waits_for("tool.call")
    ENDINGS[ending](carol, bob, call_id)
    until(rights.has_room, ending)


def after_tick(room: Room, condition: Callable[[], bool]) -> bool:
    """Whether a condition is true after the maintenance of a room, which ends calls and sessions."""
    room.tick()
    return condition()


def test_an_expired_call_is_counted_no_more(two: tuple[Room, Room]) -> None:
    carol, _, rights = make_people(*two)
    assert carol.session.receive(call(ttlMs=1)).refusal == ""
    until(lambda: after_tick(two[0], rights.has_room), "the end of the call")


@pytest.mark.parametrize("wrong", [{"args": []}, {"name": "none"}, {"method": []}, {"ttlMs": -1}], ids=str)
def test_a_refused_call_is_not_counted(two: tuple[Room, Room], wrong: dict[str, Any]) -> None:
    carol, _, rights = make_people(*two)
    made = call()
    made["payload"] |= wrong
    assert carol.session.receive(made).refusal
    assert rights.has_room()


def test_a_repeated_envelope_is_counted_once(two: tuple[Room, Room]) -> None:
    carol, bob, rights = make_people(*two, most=2)
    made = call()
    assert [carol.session.receive(made).is_duplicate for _ in range(4)] == [False, True, True, True]
    assert rights.has_room()
    bob.answers(made["payload"]["callId"])
    until(rights.has_room)


class NotedPlace:
    """A place that notes its release."""

    delay = 0.0

    def __init__(self, name: str, released: list[str]) -> None:
        self._name, self._released = name, released

    def while_waiting(self, mailbox: Mailbox) -> Mailbox:
        return mailbox

    def release(self) -> None:
        self._released.append(self._name)


def test_a_result_ends_the_count_of_its_own_call_only() -> None:
    released: list[str] = []
    counted = CountedCalls()
    counted.hold("again", 3, NotedPlace("first", released))
    # A callId may be used again after its result, here the entry 4, which this process reads later.
    counted.hold("again", 5, NotedPlace("second", released))
    counted.release("again", 4)
    assert released == ["first"]
    for _ in range(2):
        counted.release("again", 6)
    assert released == ["first", "second"]


@pytest.mark.parametrize("profile", ["persistent", "pseudonymous", "ghost"])
def test_a_ban_in_one_worker_ends_the_sessions_of_the_member_in_another(two: tuple[Room, Room], profile: str) -> None:
    here, there = two
    alice, carol = Person(there, "alice"), Person(here, "carol", privacy={"profile": profile})
    assert alice.says("room.member", {"principal": "carol", "membership": "banned"}).refusal == ""
    until(lambda: after_tick(here, lambda: carol.session.is_closed), "the end of the session")
