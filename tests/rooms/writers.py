"""A process with writers of one room, for tests and benchmarks of several processes.

    python -m tests.rooms.writers FOLDER ROOM WRITERS EVENTS TOTAL

WRITERS threads send EVENTS messages each; one reader reads until it has seen TOTAL messages of all processes. Prints a
JSON object: the seqs that the writers were given, and the digest of what was read, in the order in which it was read.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from pathlib import Path

from patchbay.stores import open_store
from tests.rooms.people import Person, rooms_of


def write_and_read(folder: Path, name: str, writers: int, events: int, total: int) -> dict[str, object]:
    """Send and read; see the head of this file."""
    store = open_store("sqlite", folder)
    with rooms_of(store) as rooms:
        room = rooms.open(name)
        people = [Person(room, f"writer-{number}") for number in range(writers)]
        reader = Person(room, "reader", after=0)
        seqs: list[list[int | None]] = [[] for _ in people]

        def write(place: int) -> None:
            for number in range(events):
                seqs[place].append(people[place].says("chat.msg", {"text": f"{place}/{number}"}).seq)

        threads = [threading.Thread(target=write, args=(place,)) for place in range(writers)]
        for thread in threads:
            thread.start()
        digest, seen = hashlib.sha256(), 0
        for delivery in reader.session.events():
            if delivery is not None and delivery.envelope["type"] == "chat.msg":
                digest.update(f"{delivery.seq}:{delivery.envelope['id']};".encode())
                seen += 1
            if seen == total:
                break
        for thread in threads:
            thread.join()
    store.close()
    return {"seqs": seqs, "digest": digest.hexdigest()}


if __name__ == "__main__":
    folder, name, *numbers = sys.argv[1:]
    sys.stdout.write(json.dumps(write_and_read(Path(folder), name, *map(int, numbers))))
