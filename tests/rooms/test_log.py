"""The log: appended by several processes without gap or fork, idempotent, folded alike everywhere, verified."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.cid import cid_of
from patchbay.rooms.folding.fold import fold
from patchbay.rooms.record.canonical import Signer, canonical_bytes
from patchbay.rooms.record.entry import read_line
from patchbay.rooms.record.errors import BadFrame, WrongLog
from patchbay.rooms.record.verification import verify
from patchbay.rooms.room import Room
from patchbay.stores import open_store
from tests.checkout import ROOT
from tests.rooms.independent_fold import Broken, fold_lines
from tests.rooms.people import KEY, Person, envelope, rooms_of
from tests.rooms.random_rooms import RandomRoom

Json = dict[str, Any]


def random_lines(count: int, seed: int = 1) -> tuple[list[bytes], str]:
    """The lines of a made-up log, and the CID of its state."""
    made = RandomRoom(seed, Signer(KEY))
    lines = [entry.line(contents) for entry, contents in made.entries(count)]
    return lines, made.fold.state_cid


def run_script(*words: str) -> subprocess.CompletedProcess[str]:
    """A Python program that ends by itself."""
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@given(seed=st.integers(0, 2**32), count=st.integers(1, 150))
@settings(max_examples=15)
def test_the_same_log_always_folds_to_the_same_state(seed: int, count: int) -> None:
    """ENS-16: the fold is deterministic, entry by entry and from the exported lines, with and without contents."""
    made = RandomRoom(seed, Signer(KEY))
    pairs = list(made.entries(count))
    lines = [entry.line(contents) for entry, contents in pairs]
    again = fold(read_line(line, number)[0] for number, line in enumerate(lines, 1))
    assert again.state() == made.fold.state()
    assert again.state_cid == made.fold.state_cid == cid_of(canonical_bytes(made.fold.state()))
    bare = verify(entry.line(None) for entry, _ in pairs)
    assert (bare.ok, bare.state_cid, bare.head) == (True, made.fold.state_cid, made.fold.head)
    assert fold_lines(lines)["state"] == made.fold.state_cid


@pytest.mark.process
def test_an_independent_program_folds_a_log_to_the_same_state(tmp_path: Path) -> None:
    """ENS-16: 3,000 events of all types; `benchmarks/rooms.py` folds 100,000."""
    lines, state_cid = random_lines(3_000)
    file = tmp_path / "room.ndjson"
    file.write_bytes(b"\n".join(lines) + b"\n")
    printed = run_script("tests/rooms/independent_fold.py", str(file))
    assert printed.returncode == 0, printed.stdout + printed.stderr
    found = json.loads(printed.stdout)
    verdict = verify(lines)
    assert verdict.ok, verdict
    assert (found["state"], found["head"], found["entries"]) == (state_cid, verdict.head, 3_000)
    assert verdict.state_cid == state_cid


def test_each_of_a_thousand_flipped_bytes_is_named_by_its_seq() -> None:
    """ENS-16: whatever byte of the log is flipped, `verify` names the entry; so does the independent program."""
    lines, _ = random_lines(24, seed=5)
    chance = random.Random(7)
    for _ in range(1_000):
        number = chance.randrange(len(lines))
        damaged = bytearray(lines[number])
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        verdict = verify([*lines[:number], bytes(damaged), *lines[number + 1 :]])
        assert (verdict.ok, verdict.seq) == (False, number + 1), (verdict, bytes(damaged))
        assert verdict.reason


NUMBERS = st.integers(1 - 2**53, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_canonical_json_is_that_of_rfc_8785(value: Any) -> None:
    """ENS-C7: signatures and CIDs are over the bytes that every other implementation writes."""
    try:
        expected = rfc8785.dumps(value)
    except ValueError:
        with pytest.raises(BadFrame):
            canonical_bytes(value)
    else:
        assert canonical_bytes(value) == expected


def test_missing_repeated_and_reordered_entries_are_named() -> None:
    """ENS-16: a gap, a repeat, a swap and a cut end."""
    lines, _ = random_lines(12)
    head = verify(lines).head
    assert verify([*lines[:5], *lines[6:]]).seq == 6
    assert verify([*lines[:5], lines[4], *lines[5:]]).seq == 6
    assert verify([*lines[:4], lines[5], lines[4], *lines[6:]]).seq == 5
    assert verify(lines[:-1], head).seq == 12
    assert verify([]).seq == 1
    assert verify(lines, head).ok
    assert verify(lines, head, key="AAAA").seq == 1
    with pytest.raises(Broken, match="entry 6"):
        fold_lines([*lines[:5], *lines[6:]])


def test_an_entry_signed_by_another_hub_is_found() -> None:
    """ENS-C7: the hub signs what it emits; another hub's signature is refused."""
    lines, _ = random_lines(12)
    other = RandomRoom(1, Signer(b"another hub's key, 32 bytes long"))
    foreign = [entry.line(contents) for entry, contents in other.entries(12)]
    assert verify(foreign).ok
    verdict = verify([*lines[:6], *foreign[6:]])
    assert (verdict.ok, verdict.seq) == (False, 7)


def test_the_id_of_a_room_is_the_cid_of_its_first_entry_and_the_head_that_of_its_last(room: Room) -> None:
    """ENS-16: a head stands for its whole past."""
    Person(room, "bob").says("chat.msg", {"text": "hi"})
    entries = room.entries()
    assert entries[0].entry.cid == room.id == cid_of(entries[0].entry.data)
    assert entries[-1].entry.cid == room.head
    assert [one.entry.prev for one in entries] == [None, *[one.entry.cid for one in entries[:-1]]]


def test_appending_is_idempotent_by_the_id_of_the_envelope(room: Room) -> None:
    """ENS-16: what is sent twice is logged once; the same id with other words is refused."""
    bob, carol = Person(room, "bob"), Person(room, "carol")
    made = envelope("chat.msg", {"text": "once"})
    first, second = bob.session.receive(made), bob.session.receive(made)
    assert (second.seq, second.is_duplicate) == (first.seq, True)
    assert bob.session.receive({**made, "payload": {"text": "twice"}}).refusal == (
        f"the id {made['id']} is taken: it is the id of entry {first.seq}, which says something else"
    )
    assert "is taken" in carol.session.receive(made).refusal
    assert [one.envelope["type"] for one in room.entries()].count("chat.msg") == 1


@pytest.mark.process
def test_two_processes_append_to_one_room_without_a_gap_a_fork_or_a_duplicate(tmp_path: Path) -> None:
    """ENS-16: compare and set on the head; `benchmarks/rooms.py` does 10,000 events of 50 writers."""
    writers, events = 4, 12
    with rooms_of(store := open_store("sqlite", tmp_path)) as rooms:
        rooms.create("busy", "alice", {"policy": {"history": "all"}})
    store.close()
    command = [sys.executable, "-m", "tests.rooms.writers", str(tmp_path), "busy", str(writers), str(events)]
    command.append(str(2 * writers * events))
    started = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(2)]
    printed = [orjson.loads(process.communicate(timeout=300)[0]) for process in started]
    assert printed[0]["digest"] == printed[1]["digest"], "every reader sees the same order"
    seqs = [seq for one in printed for row in one["seqs"] for seq in row]
    assert len(set(seqs)) == len(seqs) == 2 * writers * events
    for row in (row for one in printed for row in one["seqs"]):
        assert row == sorted(row)
    store = open_store("sqlite", tmp_path)
    with rooms_of(store) as rooms:
        room = rooms.open("busy")
        lines = list(room.lines())
        verdict = verify(lines, room.head)
        assert verdict.ok, verdict
        ids = [orjson.loads(line)["entry"]["envelope"]["id"] for line in lines]
        assert len(set(ids)) == len(ids)
        assert room.state()["sessions"] == {}
    store.close()


def test_a_journal_that_was_tampered_with_is_not_served(tmp_path: Path) -> None:
    """ENS-16: a hub that opens a room checks that its journal is one chain."""
    store = open_store("sqlite", tmp_path)
    with rooms_of(store) as rooms:
        room = rooms.create("demo", "alice")
        store.journal.append(f"room-log/{room.id}", b'{"seq":2}')
    with rooms_of(store) as rooms, pytest.raises(WrongLog, match="entry 2: it is not an object of"):
        rooms.open("demo")
    store.close()
