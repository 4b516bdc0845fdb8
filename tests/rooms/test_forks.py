"""A fork is verified with its past (34.22)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from patchbay import exit_codes
from patchbay.cli.commands.rooms.records import verify_log
from patchbay.rooms.folding.fold import fold as fold_of
from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.record.entry import make_entry
from patchbay.rooms.record.envelope import Json, hub_envelope
from patchbay.rooms.record.forks import make_fork_payload, verify_with_past
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from tests.rooms.people import KEY, Person, rooms_of

Log = list[bytes]


@pytest.fixture(scope="module")
def logs() -> tuple[Log, Log, Log]:
    """The logs of a room, of its fork, and of a fork of that one."""
    with rooms_of() as rooms:
        first = rooms.create("first", "alice", {"policy": {"history": "all"}})
        alice = Person(first, "alice")
        alice.says("room.flags", {"flags": {"topic": "plans"}})
        second = rooms.fork(first, first.seq, "alice", "second")
        alice.says("room.flags", {"flags": {"topic": "later plans"}})
        Person(second, "alice").says("chat.msg", {"text": "on"})
        third = rooms.fork(second, second.seq, "alice", "third")
        return list(first.lines()), list(second.lines()), list(third.lines())


def forged(rooms: Rooms, room: Room, **changed: object) -> Log:
    """The log of a fork that the hub's key has signed, with other parts than its predecessor had."""
    then = fold_of(logged.entry for logged in room.core.log.read(0, room.seq, is_bare=True))
    payload: Json = make_fork_payload(then, room.id, room.seq, room.pseudonym("alice"))
    signer = Signer(KEY)
    payload = {"name": "forged", "key": signer.public, "rules": then.now.get("rules", 0), **payload, **changed}
    entry = make_entry(signer, 1, None, 1_700_000_000_000, hub_envelope("forged", "room.create", payload, 0))
    return [entry.line(None)]


def test_the_rooms_before_a_fork_are_verified_with_it(logs: tuple[Log, Log, Log]) -> None:
    first, second, third = logs
    found = verify_with_past(third, [first, second])
    assert found.ok and len(found.past) == 2
    assert found.predecessor is not None and found.past[0] == found.predecessor["room"]
    assert verify_with_past(third, [second]).past == found.past[:1]
    alone = verify_with_past(third, [first])
    assert alone.ok and alone.past == ()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_changed_byte_in_the_past_is_found(logs: tuple[Log, Log, Log], place: int) -> None:
    first, second, _ = logs
    assert len(first) > place + 1
    line = bytearray(first[place])
    line[len(line) // 2] ^= 1
    found = verify_with_past(second, [[*first[:place], bytes(line), *first[place + 1 :]]])
    # A changed first entry is another room: that room is not the past of this fork.
    assert (not found.ok and found.seq == place + 1) if place else found.past == ()


def test_a_past_that_ends_before_the_fork_is_refused(logs: tuple[Log, Log, Log]) -> None:
    first, second, _ = logs
    found = verify_with_past(second, [first[:1]])
    assert not found.ok and "has the head" in found.reason


@pytest.mark.parametrize("part", ["policy", "flags", "members"])
def test_a_fork_that_took_over_something_else_is_refused(part: str) -> None:
    """The signature of the hub alone does not prove what a fork took over."""
    with rooms_of() as rooms:
        room = rooms.create("first", "alice", {"policy": {"history": "all"}})
        past = list(room.lines())
        assert verify_with_past(forged(rooms, room), [past]).past == (room.id,)
        then = fold_of(logged.entry for logged in room.core.log.read(0, room.seq, is_bare=True)).now
        others = {
            "flags": {"topic": "mine"},
            "policy": {**then["policy"], "history": "joined"},
            "members": {**then["members"], "someone": {"membership": "joined", "role": "owner", "powers": []}},
        }
        found = verify_with_past(forged(rooms, room, **{part: others[part]}), [past])
    assert not found.ok and found.reason.startswith(f"its {part} are not those of its predecessor")


def test_the_command_prints_which_rooms_were_verified(logs: tuple[Log, Log, Log], tmp_path: Path) -> None:
    names = [tmp_path / f"{number}.ndjson" for number in range(3)]
    for name, lines in zip(names, logs, strict=True):
        name.write_bytes(b"\n".join(lines) + b"\n")
    run = CliRunner()
    done = run.invoke(verify_log, [str(names[2]), "--past", str(names[1]), "--past", str(names[0])])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["verified_past"]) == 2
    entry = logs[1][1]
    names[1].write_bytes(b"\n".join([logs[1][0], entry.replace(b'"seq":2', b'"seq":3'), *logs[1][2:]]) + b"\n")
    assert run.invoke(verify_log, [str(names[2]), "--past", str(names[1])]).exit_code == exit_codes.FAILED
