"""A model of the store: random steps of many writers in several processes, and what they may see of each other.

Names are linearizable, a reader of a topic sees every entry once in one order, and a collection beside them deletes no
blob that a name needs. `PATCHBAY_MODEL_STEPS=100000` runs four processes with 52 writers and so many steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.store import NameChange, Store
from patchbay.stores import open_store
from tests.stores.conftest import POSTGRESQL
from tests.stores.model_writers import NAMES, TOPICS, Work, specification

STEPS = int(os.environ.get("PATCHBAY_MODEL_STEPS", "0"))
PROCESSES, WRITERS = (4, 13) if STEPS else (2, 6)
STEPS_EACH = STEPS // (PROCESSES * WRITERS) if STEPS else 25

Line = dict[str, Any]


def run_processes(kind: str, folder: Path) -> list[Line]:
    """Run the writers; return what all of them told."""
    works = [Work(kind, str(folder), number, WRITERS, STEPS_EACH) for number in range(PROCESSES)]
    command = [sys.executable, "-m", "tests.stores.model_writers"]
    outputs = [(folder / f"{work.process}.ndjson").open("w+b") for work in works]
    running = [
        subprocess.Popen([*command, specification(work)], stdout=output)
        for work, output in zip(works, outputs, strict=True)
    ]
    assert [process.wait() for process in running] == [0] * PROCESSES
    lines = []
    for output in outputs:
        with output:
            output.seek(0)
            lines += [orjson.loads(line) for line in output]
    return lines


@pytest.mark.parametrize("form", ["sqlite", POSTGRESQL], indirect=True)
def test_names_and_topics_of_many_writers_in_several_processes(kind: str, tmp_path: Path) -> None:
    """35.10"""
    with closing(open_store(kind, tmp_path)) as store:
        lines = run_processes(kind, tmp_path)
        history = read_history(store)
        check_moves([line for line in lines if line["step"] == "move"], history)
        check_reads(lines, history)
        check_topics(lines, store)
        assert store.blobs.missing(store.names.all().values()) == []
        counts = Counter(line["step"] for line in lines)
        assert counts["move"] and counts["append"] and counts["refused"], counts
        assert sum(counts.values()) == PROCESSES * (WRITERS * STEPS_EACH + len(TOPICS))


def read_history(store: Store) -> list[NameChange]:
    """Return all moves, oldest first; their seqs have no gap."""
    found: list[NameChange] = []
    while moves := store.names.past(limit=1000, before=found[-1].seq if found else None):
        found += moves
    assert [move.seq for move in found] == list(range(len(found), 0, -1))
    return found[::-1]


def check_moves(moves: list[Line], history: list[NameChange]) -> None:
    """Every acknowledged move is there once, all its names together, from where it expected them, in real order."""
    by_word: dict[str, list[NameChange]] = {}
    for change in history:
        by_word.setdefault(change.why, []).append(change)
    assert by_word.keys() == {line["id"] for line in moves}, "refused moves leave nothing, acknowledged ones are there"
    now: dict[str, str | None] = dict.fromkeys(NAMES)
    lines = {line["id"]: line for line in moves}
    latest_begun = 0.0
    for word, changes in sorted(by_word.items(), key=lambda found: found[1][0].seq):
        line = lines[word]
        assert {change.name: change.cid for change in changes} == line["new"]
        assert changes[-1].seq == line["seq"] == changes[0].seq + len(changes) - 1
        assert all(now[name] == cid for name, cid in line["expected"].items()), "it was moved from what it expected"
        assert line["ended"] > latest_begun, "a later seq does not end before an earlier one begins"
        latest_begun = max(latest_begun, line["begun"])
        now |= line["new"]


def check_reads(lines: list[Line], history: list[NameChange]) -> None:
    """Each read saw a value that was current at some moment between its begin and its end."""
    times = {line["id"]: (line["begun"], line["ended"]) for line in lines if line["step"] == "move"}
    values: dict[str, list[tuple[str | None, float, float]]] = {name: [(None, 0.0, 0.0)] for name in NAMES}
    for change in history:
        values[change.name].append((change.cid, *times[change.why]))
    for line in lines:
        if line["step"] == "read":
            known = values[line["name"]]
            place = next(place for place, value in enumerate(known) if value[0] == line["cid"])
            assert known[place][1] <= line["ended"], "it does not see the future"
            replaced = known[place + 1][2] if place + 1 < len(known) else float("inf")
            assert replaced >= line["begun"], "it does not see what was replaced before"


def check_topics(lines: list[Line], store: Store) -> None:
    """Each topic has every acknowledged entry once, and every reader saw all of them in the same order."""
    written: dict[str, dict[int, str]] = {topic: {} for topic in TOPICS}
    behind: dict[int, int] = {}
    for line in lines:
        if line["step"] == "append":
            assert line["seqs"] == sorted(line["seqs"])
            for topic, seq in zip(line["topics"], line["seqs"], strict=True):
                written[topic][seq] = line["id"]
            if "behind" in line:
                behind[line["seqs"][0]] = line["behind"]
    for topic in TOPICS:
        found: list[tuple[int, str]] = []
        while entries := store.journal.read(topic, found[-1][0] if found else 0):
            found += [(entry.seq, entry.data.decode()) for entry in entries]
        assert dict(found) == written[topic]
        seqs = [seq for seq, _ in found]
        for line in lines:
            if line["step"] == "followed" and line["topic"] == topic:
                # A reader ends when the writers of its own process have ended; the others may go on.
                assert line["seqs"] == seqs[: bisect_right(seqs, line["seqs"][-1] if line["seqs"] else 0)]
        for seq, before in behind.items():
            if seq in written[topic]:
                place = bisect_left(seqs, seq)
                assert (seqs[place - 1] if place else 0) == before, "nothing came between"
