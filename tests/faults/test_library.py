"""A library under fire: killed in the middle of its writes, and written and read by hundreds at once."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchbay.cid import cid_of
from patchbay.documents.collection import Library
from patchbay.documents.errors import Overwritten
from tests.checkout import ROOT

pytestmark = [pytest.mark.process]

WRITES = 300
READS = 25
BOUND = 120.0


def written_until_killed(root: Path, begin: int, kill_at: int) -> list[tuple[int, str, str]]:
    """What a writer acknowledged before it was killed without a warning, after so many writes."""
    command = [sys.executable, "-m", "tests.faults.library_writer", str(root), str(begin), str(WRITES - begin)]
    acknowledged = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            number, key, cid = line.split()
            acknowledged.append((int(number), key, cid))
            if len(acknowledged) == kill_at:
                writer.kill()
        writer.wait(BOUND)
    return acknowledged


def test_a_library_that_is_killed_in_the_middle_of_300_writes_has_lost_none_that_it_acknowledged(
    tmp_path: Path,
) -> None:
    """JANE-9, JANE-10: six times killed, each time at another moment; file, history and index agree afterwards."""
    root = tmp_path / "library"
    known: dict[str, list[str]] = {}
    begin = 0
    for kill_at in (31, 47, 13, 68, 1, 40, WRITES):
        for number, key, cid in written_until_killed(root, begin, kill_at):
            known.setdefault(key, []).append(cid)
            begin = number + 1
        with Library(root) as library:
            library.refresh()
            for row in library.rows():
                data = (root / row.key).read_bytes()
                first, *_ = library.read(row.key).front.body.split("\n")
                assert row.cid == cid_of(data)
                hits = library.search(f"pumpkin{first} ").hits
                assert row.key in {hit.row.key for hit in hits}, "the index is not what is on the disk"
                assert library.history(row.key)[0].cid == row.cid
            for key, cids in known.items():
                past = [one.cid for one in library.history(key)][::-1]
                assert [cid for cid in past if cid in cids] == cids, "an acknowledged version is missing"
                # At most the one write that was under way when it was killed is there beside them.
                assert len(past) <= len(cids) + 6
                assert library.read(key).row.cid in (cids[-1], past[-1])
            # A write that was done and not yet acknowledged is done: the next one goes on after it.
            while any(row.key == f"specs/p{begin % 3}/{begin}.md" for row in library.rows()) and begin < 30:
                begin += 1
        if begin >= WRITES:
            break
    assert begin == WRITES
    assert {path.suffix for path in root.rglob("*") if path.is_file() and ".library" not in path.parts} <= {".md", ""}


def test_200_writers_and_200_readers_lose_nothing_and_see_nothing_torn(tmp_path: Path) -> None:
    """JANE-10, JANE-18: each writer adds a line to what it has read, for that version only, and tries again."""
    documents, writers, readers = 10, 200, 200
    with Library(tmp_path / "library") as library:
        keys = [f"specs/all/{number}.md" for number in range(documents)]
        for key in keys:
            library.create(key, {"title": key}, "0\n")
        torn: list[str] = []
        reads: list[int] = []
        begin = threading.Barrier(writers + readers)

        def write(number: int) -> int:
            begin.wait(BOUND)
            key = keys[number % documents]
            while True:
                document = library.read(key)
                count, *lines = document.front.body.splitlines()
                body = "\n".join([str(int(count) + 1), *lines, f"writer {number} " * 10]) + "\n"
                try:
                    library.update(key, {}, body, expected_cid=document.row.cid)
                except Overwritten:
                    continue
                library.update(key, {f"writer{number}": number})
                return number

        def read(number: int) -> None:
            begin.wait(BOUND)
            for _ in range(READS):
                document = library.read(keys[number % documents])
                count, *lines = document.front.body.splitlines()
                if int(count) != len(lines) or any(line != " ".join(line.split()[:2] * 10) + " " for line in lines):
                    torn.append(document.text)
                if document.front.problem or document.metadata["title"] != keys[number % documents]:
                    torn.append(document.text)
                reads.append(number)

        with ThreadPoolExecutor(writers + readers) as executor:
            reading = [executor.submit(read, number) for number in range(readers)]
            writing = [executor.submit(write, number) for number in range(writers)]
            assert sorted(one.result(BOUND) for one in writing) == list(range(writers))
            for one in reading:
                one.result(BOUND)
        assert torn == [] and len(set(reads)) == readers
        for place, key in enumerate(keys):
            document = library.read(key)
            own = [number for number in range(writers) if number % documents == place]
            lines = document.front.body.splitlines()[1:]
            assert sorted(int(line.split()[1]) for line in lines) == own, "an update was lost"
            assert {document.metadata[f"writer{number}"] for number in own} == set(own)
            assert len(library.history(key)) == 1 + 2 * len(own), "the history is not complete"
        assert library.search("writer ").total == documents
