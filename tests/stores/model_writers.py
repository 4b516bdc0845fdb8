"""A process of the model test: its threads do random steps on a store that several processes share.

    python -m tests.stores.model_writers SPECIFICATION

It writes one line of JSON for each step to standard output: what was asked, what was answered, and when it began and
ended by the clock of the machine.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from patchbay.errors import MissingBlob, PatchbayError, StaleUpdate
from patchbay.store import Store
from patchbay.stores import open_store

NAMES = tuple(f"names/{number}" for number in range(6))
TOPICS = tuple(f"topics/{number}" for number in range(4))
GRACE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Work:
    """What one process does: `process` is its number, `steps` those of each of its `writers`."""

    kind: str
    folder: str
    process: int
    writers: int
    steps: int


class Writer:
    """One thread of random steps."""

    def __init__(self, store: Store, id: str, write_line: Callable[[dict[str, Any]], None]) -> None:
        self._store = store
        self._id = id
        self._random = random.Random(id)
        self._write_line = write_line
        self._steps = 0

    def run(self, steps: int) -> None:
        """Do so many steps."""
        kinds = (self._move, self._move, self._read, self._append, self._append, self._append_behind, self._collect)
        for _ in range(steps):
            self._steps += 1
            begun = time.monotonic()
            try:
                told = self._random.choice(kinds)()
            except (StaleUpdate, MissingBlob) as problem:
                told = {"step": "refused", "id": self._word, "why": type(problem).__name__}
            self._write_line({**told, "begun": begun, "ended": time.monotonic()})

    @property
    def _word(self) -> str:
        return f"{self._id}/{self._steps}"

    def _move(self) -> dict[str, Any]:
        names = self._random.sample(NAMES, self._random.randint(1, 2))
        seen = {name: self._store.names.get(name) for name in names}
        new = {name: self._store.blobs.put(f"{self._word} {name}".encode()) for name in names}
        expected = seen if self._random.random() < 0.7 else {}
        seq = self._store.names.move(new, self._id, self._word, expected)
        return {"step": "move", "id": self._word, "seq": seq, "new": new, "expected": expected}

    def _read(self) -> dict[str, Any]:
        name = self._random.choice(NAMES)
        return {"step": "read", "name": name, "cid": self._store.names.get(name)}

    def _append(self) -> dict[str, Any]:
        topics = self._random.sample(TOPICS, self._random.randint(1, 3))
        entries = [(topic, self._word.encode(), None) for topic in topics]
        seqs = self._store.journal.append_all(entries, {})
        return {"step": "append", "id": self._word, "topics": topics, "seqs": seqs}

    def _append_behind(self) -> dict[str, Any]:
        topic = self._random.choice(TOPICS)
        last = self._store.journal.last(topic)
        seqs = self._store.journal.append_all([(topic, self._word.encode(), None)], {topic: last})
        return {"step": "append", "id": self._word, "topics": [topic], "seqs": seqs, "behind": last}

    def _collect(self) -> dict[str, Any]:
        if self._random.random() > 0.1:
            return self._read()
        newest = self._store.names.move({}, self._id, "nothing")
        needed = set(self._store.names.all().values())
        before = self._store.now() - GRACE_SECONDS
        unneeded = [cid for cid in self._store.collection.older_than(before) if cid not in needed]
        return {"step": "collect", "count": self._store.collection.collect(unneeded, before, newest).count}


def follow(store: Store, topic: str, over: threading.Event) -> list[int]:
    """Read a topic as a stream does, after the last entry that was seen; return the seqs in the order of reading."""
    seen: list[int] = []
    with store.bus.subscribe(["hints"]) as mailbox:
        while True:
            is_last = over.is_set()
            while entries := store.journal.read(topic, seen[-1] if seen else 0, 100):
                seen += [entry.seq for entry in entries]
            if is_last:
                return seen
            mailbox.wait(0.01)


def main(text: str) -> None:
    """Do the work of one process."""
    work = Work(**orjson.loads(text))
    lock, over = threading.Lock(), threading.Event()

    def write_line(told: dict[str, Any]) -> None:
        with lock:
            sys.stdout.buffer.write(orjson.dumps(told) + b"\n")

    with closing(open_store(work.kind, Path(work.folder))) as store, ThreadPoolExecutor(len(TOPICS)) as followers:
        following = {topic: followers.submit(follow, store, topic, over) for topic in TOPICS}
        try:
            with ThreadPoolExecutor(work.writers) as writers:
                ids = [f"{work.process}.{number}" for number in range(work.writers)]
                list(writers.map(lambda id: Writer(store, id, write_line).run(work.steps), ids))
        finally:
            over.set()
        for topic, seqs in following.items():
            write_line({"step": "followed", "topic": topic, "seqs": seqs.result()})


def specification(work: Work) -> str:
    """Return the argument of the program for some work."""
    return orjson.dumps(asdict(work)).decode()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except PatchbayError as problem:
        sys.exit(f"{type(problem).__name__}: {problem.message}")
