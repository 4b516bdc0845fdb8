"""Rooms: speed of folding, checking, appending and opening a log, with checks that all results agree.

    python -m benchmarks.rooms fold [EVENTS]              default 100,000: three processes and an independent program
    python -m benchmarks.rooms flips [FLIPS]              default 1,000: flipped bytes that `verify` names
    python -m benchmarks.rooms append [EVENTS] [WRITERS]  default 10,000 events of 50 writers in two processes
    python -m benchmarks.rooms open [EVENTS]              default 100,000: a cold log with and without its snapshot
    python -m benchmarks.rooms crowd [PARTICIPANTS] [RATE] [SECONDS]
                                                          default 1,000 participants, 100 events a second, 60 seconds

The exit code is 1 when a check fails.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import room_crowd
from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.record.log import RoomLog
from patchbay.rooms.record.verification import LogVerification, verify
from patchbay.stores import open_store
from patchbay.topics import ROOM_LOGS, ROOM_SNAPSHOTS
from tests.rooms.people import KEY, rooms_of
from tests.rooms.random_rooms import RandomRoom

ROOT = Path(__file__).parents[1]
INDEPENDENT = ROOT / "tests" / "rooms" / "independent_fold.py"


def print_line(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def check(condition: bool, sentence: str) -> None:
    """End the program with exit code 1 when a condition is false."""
    if not condition:
        raise SystemExit(f"WRONG: {sentence}")


def write_log(file: Path, events: int, seed: int = 1) -> str:
    """Write a random log; return the CID of its state."""
    made = RandomRoom(seed, Signer(KEY))
    with file.open("wb") as out:
        for entry, contents in made.entries(events):
            out.write(entry.line(contents) + b"\n")
    return made.fold.state_cid


def verify_file(file: Path) -> LogVerification:
    """Check a log in a file."""
    with file.open("rb") as lines:
        return verify(line.rstrip(b"\n") for line in lines)


def measure_fold(events: int = 100_000) -> None:
    """Fold one log in three processes and in an independent program."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "room.ndjson"
        begun = time.perf_counter()
        state = write_log(file, events)
        print_line(
            f"made {events} entries in {time.perf_counter() - begun:.1f} s, {file.stat().st_size / 2**20:.1f} MiB"
        )
        for number in range(3):
            begun = time.perf_counter()
            command = [sys.executable, "-m", "benchmarks.rooms", "verify", str(file)]
            found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
            seconds = time.perf_counter() - begun
            print_line(
                f"process {number + 1}: {found['state']} {events / seconds:.0f} entries a second, signatures included"
            )
            check(found["state"] == state, "a process folds the log to another state")
        begun = time.perf_counter()
        command = [sys.executable, str(INDEPENDENT), str(file)]
        found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        print_line(f"independent: {found['state']} in {time.perf_counter() - begun:.1f} s")
        check(found["state"] == state, "the independent program folds the log to another state")


def check_flips(count: int = 1_000, events: int = 200) -> None:
    """Flip random bytes of a log; `verify` has to name the entry of each."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "room.ndjson"
        write_log(file, events, seed=3)
        lines = file.read_bytes().splitlines()
    generator = random.Random(11)
    for _ in range(count):
        number = generator.randrange(len(lines))
        damaged = bytearray(lines[number])
        damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        verdict = verify([*lines[:number], bytes(damaged), *lines[number + 1 :]])
        check(not verdict.ok and verdict.seq == number + 1, f"the flip in entry {number + 1} is named {verdict.seq}")
    print_line(f"{count} flipped bytes in a log of {events} entries: each named by its seq")


def measure_append(events: int = 10_000, writers: int = 50) -> None:
    """Append to one room from two processes."""
    each = events // writers
    total = each * writers
    with TemporaryDirectory() as folder:
        store = open_store("sqlite", Path(folder))
        with rooms_of(store) as rooms:
            rooms.create("busy", "alice", {"policy": {"history": "all"}})
        store.close()
        command = [
            sys.executable,
            "-m",
            "tests.rooms.writers",
            folder,
            "busy",
            str(writers // 2),
            str(each),
            str(total),
        ]
        begun = time.perf_counter()
        started = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(2)]
        printed = [json.loads(process.communicate()[0]) for process in started]
        seconds = time.perf_counter() - begun
        check(printed[0]["digest"] == printed[1]["digest"], "two readers saw another order")
        seqs = [seq for one in printed for row in one["seqs"] for seq in row]
        check(
            len(set(seqs)) == len(seqs) == total and None not in seqs,
            "two events have the same seq, or an event has none",
        )
        store = open_store("sqlite", Path(folder))
        with rooms_of(store) as rooms:
            room = rooms.open("busy")
            verdict = verify(room.lines(), room.head)
            ids = {one.entry.envelope["id"] for one in room.entries(0, 10**6)}
            check(verdict.ok and len(ids) == verdict.entries == room.seq, f"the log is wrong: {verdict}")
        store.close()
        print_line(
            f"{total} events of {writers} writers in two processes: {total / seconds:.0f} a second;"
            f" {verdict.entries} entries, no gap, no fork, no duplicate; both readers saw one order"
        )


def measure_open(events: int = 100_000) -> None:
    """Open a long log with an empty cache, without and with its snapshot."""
    with TemporaryDirectory() as folder:
        store, made = open_store("sqlite", Path(folder)), RandomRoom(1, Signer(KEY))
        rows = [(f"{ROOM_LOGS}long", entry.data, None) for entry, _ in made.entries(events)]
        for start in range(0, events, 1000):
            store.journal.append_all(rows[start : start + 1000], {})
        for label in ("without a snapshot", "with its snapshot"):
            begun = time.perf_counter()
            found = RoomLog(store, "long", Signer(KEY), 2**40, 300.0)
            found.catch_up()
            print_line(f"{events} entries opened {label} in {time.perf_counter() - begun:.2f} s")
            check(found.fold.state_cid == made.fold.state_cid, "the log has another state")
            begun = time.perf_counter()
            found.keep_snapshot()
            [row] = store.journal.tail(f"{ROOM_SNAPSHOTS}long", 1)
            print_line(
                f"the snapshot has {len(row.data) / 2**20:.1f} MiB, stored in {time.perf_counter() - begun:.2f} s"
            )
        store.close()


def measure_crowd(participants: int = 1_000, rate: int = 100, seconds: int = 60) -> None:
    """Check that every participant of one room receives every event in order; the p99 of the delay is below 1 s."""
    report = asyncio.run(room_crowd.measure(participants, rate, seconds))
    print_line(room_crowd.describe(report))
    check(report.received == participants * report.events, "an event did not reach every participant")
    check(report.wrong == 0, "a participant missed an event, or had another order")
    check(report.p99 < 1000, f"the p99 of the delay is {report.p99:.0f} ms; expected less than 1000")


def main(arguments: list[str]) -> None:
    """Run one part."""
    part, *numbers = arguments or ["fold"]
    if part == "verify":
        verdict = verify_file(Path(numbers[0]))
        check(verdict.ok, str(verdict))
        print_line(json.dumps({"state": verdict.state_cid, "head": verdict.head}))
    else:
        parts: dict[str, Callable[..., None]] = {"fold": measure_fold, "flips": check_flips, "append": measure_append}
        parts |= {"open": measure_open, "crowd": measure_crowd}
        parts[part](*map(int, numbers))


if __name__ == "__main__":
    main(sys.argv[1:])
