"""Runs the clients of a load at every node."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress

from benchmarks.faults.load import ROOM, Caller, RoomListener, SteadyClient, Streamer, Writer
from benchmarks.faults.log import LIMIT_SECONDS, Log
from benchmarks.faults.subscribers import Changer, Subscriber
from tests.serving.running import Hub
from tests.waiting import until

WORKERS: tuple[type[SteadyClient], ...] = (Writer, Caller, Streamer)
LISTENERS: tuple[type[SteadyClient], ...] = (RoomListener, Subscriber)


@contextmanager
def running_load(hubs: Sequence[Hub], log: Log, gone: Set[int] = frozenset()) -> Iterator[None]:
    """Run the clients of every node until the end of the block; then wait for the last messages at living nodes.

    `gone` are the numbers of nodes that are killed in the block; node 1 is never one of them.
    """
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
        # What does not arrive within the bound is reported as lost by the comparison with the store.
        with suppress(AssertionError):
            wait_for_arrival(hubs, log, gone)
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


def wait_for_arrival(hubs: Sequence[Hub], log: Log, gone: Set[int]) -> None:
    """Wait until the listener and the subscriber of each living node have the newest message and version.

    A room tells its messages in order. So one more message is posted: a listener that has it has everything that was
    posted before it, a second copy included. Raises AssertionError after the bound of `until`.
    """
    known = set(log.envelopes)
    last = Writer(hubs[1], 1, log, threading.Event())
    until(lambda: last.attempt("message", last.post), "a hub takes the last message")
    last.close()
    (marker,) = set(log.envelopes) - known
    living = [number for number in range(len(hubs)) if number not in gone]
    until(lambda: all(marker in log.heard[number] for number in living), "each listener has the last message")
    newest = max(log.changes, default=0)
    until(lambda: all(max(log.seen[number], default=0) >= newest for number in living), "the newest version")
