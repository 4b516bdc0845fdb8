"""A copy of a whole store: complete, equal, and continued after an interruption."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from patchbay.errors import ContentError
from patchbay.store import Store
from patchbay.stores import copying, open_store
from patchbay.stores.copying import copy_store
from patchbay.stores.memory import MemoryStore
from patchbay.stores.postgresql import PostgresqlStore

CONTENTS = int(os.environ.get("PATCHBAY_COPY_CONTENTS", "300"))
KILLS = int(os.environ.get("PATCHBAY_COPY_KILLS", "3"))


def fill(store: Store, count: int = CONTENTS) -> None:
    """Write contents, names with a history, and entries with and without an end; some are deleted again."""
    chance = random.Random(1)
    cids = store.blobs.put_many(chance.randbytes(chance.randint(0, 3000)) for _ in range(count))
    for place in range(0, count, 10):
        store.names.move({f"names/{place % 70}": cids[place], "root": cids[place]}, "me", f"change {place}")
    store.names.move({"names/0": None}, "me", "removed")
    for number in range(count):
        keep = None if number % 3 else 3600.0
        store.journal.append(f"topic/{number % 7}", b"%d\0\xff" % number, keep)
    store.journal.remove("topic/0", store.journal.last("topic/0"))
    store.journal.trim(f"topic/{(count - 1) % 7}", 0)


def test_a_copy_to_postgresql_and_back_is_equal_and_goes_on_with_new_numbers(tmp_path: Path, database: str) -> None:
    """35.17"""
    with (
        closing(open_store("sqlite", tmp_path / "first")) as first,
        closing(PostgresqlStore(database)) as there,
        closing(open_store("sqlite", tmp_path / "second")) as second,
    ):
        fill(first)
        done = copy_store(first, there)
        assert (done.blobs, done.moves) == (first.blobs.count(), len(first.names.past(limit=10_000)))
        assert copy_store(there, second) == done
        assert first.names.all() == second.names.all()
        assert first.names.past(limit=10_000) == there.names.past(limit=10_000) == second.names.past(limit=10_000)
        for topic in (f"topic/{number}" for number in range(7)):
            assert first.journal.read(topic) == there.journal.read(topic) == second.journal.read(topic)
        seqs = {store.journal.append("topic/1", b"new") for store in (first, there, second)}
        assert len(seqs) == 1, "a number that a deleted entry had is not used again"
        assert there.names.move({"names/0": there.names.get("root")}, "me", "new") == done.moves + 1


def test_a_copy_that_is_killed_again_and_again_goes_on_where_it_ended(tmp_path: Path, database: str) -> None:
    """35.17"""
    with closing(open_store("sqlite", tmp_path)) as source:
        fill(source)
        command = [sys.executable, "-m", "tests.stores.copying_process", str(tmp_path), database]
        for lines in range(1, KILLS + 1):
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                for _ in range(lines):
                    process.stdout.readline()
                process.kill()
        with closing(PostgresqlStore(database)) as target:
            assert copy_store(source, target).blobs == source.blobs.count()


def test_a_target_with_other_contents_is_left_as_it_is(tmp_path: Path, database: str) -> None:
    """35.17"""
    with closing(open_store("sqlite", tmp_path)) as source, closing(PostgresqlStore(database)) as target:
        fill(source, 20)
        target.journal.append("theirs", b"x")
        with pytest.raises(ContentError, match="it already has other contents: use an empty one"):
            copy_store(source, target)
        assert (target.blobs.count(), target.names.all()) == (0, {})


def test_a_source_that_changes_meanwhile_is_noticed(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store("sqlite", tmp_path)) as source, closing(PostgresqlStore(database)) as target:
        fill(source, 20)

        def change(what: str, count: int) -> None:
            if what == "changes of names":
                source.journal.append("late", b"x")

        with pytest.raises(ContentError, match="stop its hub, and copy again"):
            copy_store(source, target, change)
        assert copy_store(source, target).entries


def test_a_store_in_memory_cannot_be_copied(database: str) -> None:
    with closing(PostgresqlStore(database)) as target, pytest.raises(ContentError, match="it keeps nothing"):
        copy_store(MemoryStore(), target)


def test_large_contents_are_copied_one_by_one(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "MAX_BATCH_BYTES", 1000)
    with closing(open_store("sqlite", tmp_path)) as source, closing(PostgresqlStore(database)) as target:
        cids = source.blobs.put_many(bytes([number]) * 900 for number in range(5))
        steps: list[int] = []
        copy_store(source, target, lambda what, count: steps.append(count) if what == "contents" else None)
        assert steps == [1, 2, 3, 4, 5]
        assert target.blobs.missing(cids) == []
