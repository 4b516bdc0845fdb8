"""Runs the clients of a load at every node."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.faults.load import ROOM, Caller, RoomListener, SteadyClient, Streamer, Writer
from benchmarks.faults.log import LIMIT_SECONDS, Log
from benchmarks.faults.subscribers import Changer, Subscriber
from tests.serving.running import Hub
from tests.waiting import until

ARRIVAL_SECONDS = 4.0
"""Seconds in which the last messages arrive."""

WORKERS: tuple[type[SteadyClient], ...] = (Writer, Caller, Streamer)
LISTENERS: tuple[type[SteadyClient], ...] = (RoomListener, Subscriber)


@contextmanager
def running_load(hubs: Sequence[Hub], log: Log) -> Iterator[None]:
    """Run the clients of every node until the end of the block; then let messages arrive."""
    ending, all_over = threading.Event(), threading.Event()
    prepare(hubs, log)
    numbered = list(enumerate(hubs))
    workers = [kind(hub, number, log, ending) for number, hub in numbered for kind in WORKERS]
    workers.append(Changer(hubs[1], 1, log, ending))
    listeners = [kind(hub, number, log, all_over) for number, hub in numbered for kind in LISTENERS]
    threads = [threading.Thread(target=client.run, daemon=True) for client in (*workers, *listeners)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in threads[: len(workers)]:
            thread.join(2 * LIMIT_SECONDS)
        all_over.wait(ARRIVAL_SECONDS)
        all_over.set()
        for client in listeners:
            client.interrupt()
        for thread in threads[len(workers) :]:
            thread.join(2 * LIMIT_SECONDS)


def prepare(hubs: Sequence[Hub], log: Log) -> None:
    """Make the room and the server that changes; let each hub load its pages, which it does at the first one."""
    maker = Changer(hubs[0], 0, log, threading.Event())
    maker.send("PUT", ROOM, b'{"policy": {"history": "all"}}', Content_Type="application/json")
    maker.save(0)
    maker.close()
    until(lambda: all(hub.get("/mcp/changing")[0] != 404 for hub in hubs), "each node serves the new server")
    for hub in hubs:
        hub.get("/variables")
    log.heard.extend({} for _ in hubs)
    log.seen.extend({} for _ in hubs)
