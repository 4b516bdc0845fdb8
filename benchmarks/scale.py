"""What one, two and three hubs on one PostgreSQL cost, what the database carries, and a simulation of a hundred hubs.

    .venv/bin/python -m benchmarks.scale                    all of it, some three minutes; prints JSON lines
    .venv/bin/python -m benchmarks.scale nodes              calls for a second of processor time, by number of hubs
    .venv/bin/python -m benchmarks.scale database           what one PostgreSQL carries from this machine
    .venv/bin/python -m benchmarks.scale simulation         100 hubs with 10,000 listeners each, with measured constants

Calls for a second of processor time hold on a machine with other work too; rates by the clock depend on the machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.cluster_soak import ECHO, READY_SECONDS, Node
from benchmarks.load import EXPECTED, MODERN, prepare_request
from benchmarks.processor_time import processor_seconds, wait_until_idle
from benchmarks.simulated_cluster import Constants, simulate
from patchbay.stores.postgresql import PostgresqlStore
from tests.databases import PostgresqlServer

MOST_NODES = 3
CALLS, WARM_UP_CALLS = 3000, 300
"""Calls to each hub: measured ones, and those before them."""

READERS = (1, 3, 9)
MESSAGES, PAUSE_SECONDS = 1000, 0.02
"""Messages on the bus, and the time between two of them, longer than that between two hints."""

WRITERS = (1, 4, 16)
WRITE_SECONDS = 4.0
"""Time for which writers write."""


def measure_nodes(count: int) -> dict[str, float]:
    """Call so many hubs in turn; return the calls for a second of processor time."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "servers").mkdir()
        (folder / "servers" / "bench.py").write_text(ECHO)
        (folder / "key").write_text(secrets.token_hex(32))
        database = PostgresqlServer()
        stack.callback(database.close)
        store = database.new_schema()
        nodes = [Node(folder, store, []) for _ in range(count)]
        for node in nodes:
            stack.callback(node.close)
        urls = [f"http://127.0.0.1:{node.port}/mcp/bench" for node in nodes]
        for url in urls:
            _wait_until_ready(url)
        _call_in_turn(urls, WARM_UP_CALLS * count)
        for node in nodes:
            wait_until_idle(node.process.pid)
        assert database.pid is not None
        before = [node.total_seconds() for node in nodes]
        database_before = processor_seconds(database.pid)
        _call_in_turn(urls, CALLS * count)
        hubs = sum(node.total_seconds() for node in nodes) - sum(before)
        engine = processor_seconds(database.pid) - database_before
        return {
            "nodes": count,
            "calls": CALLS * count,
            "calls_for_a_processor_second_of_the_hubs": round(CALLS * count / hubs),
            "postgresql_us_a_call": round(engine / (CALLS * count) * 1e6, 1),
            "share_of_postgresql": round(engine / (engine + hubs), 3),
        }


def _wait_until_ready(url: str) -> None:
    end = time.monotonic() + READY_SECONDS
    while True:
        try:
            _call_in_turn([url], 1)
        except (OSError, RuntimeError):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def _call_in_turn(urls: Sequence[str], count: int) -> None:
    """Make calls, each at the next hub. Raises RuntimeError for a wrong answer."""
    requests = [prepare_request(url, MODERN) for url in urls]
    connections = [http.client.HTTPConnection(urlsplit(url).netloc, timeout=READY_SECONDS) for url in urls]
    for number in range(count):
        request, connection = requests[number % len(urls)], connections[number % len(urls)]
        body = f"{number}".join(request.body)
        connection.request("POST", urlsplit(request.url).path, body, dict(request.headers))
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200 or EXPECTED.encode() not in data:
            raise RuntimeError(f"{request.url} answered {answer.status}: {data[:300]!r}")
    for connection in connections:
        connection.close()


def measure_database(writers: int) -> dict[str, float]:
    """Write from so many threads for a while; return what the database stored each second, and its processor time."""
    with closing(PostgresqlServer()) as database, closing(PostgresqlStore(database.new_schema())) as store:
        assert database.pid is not None
        found: dict[str, float] = {"writers": writers}
        cid = store.blobs.put(b"content")
        other = store.blobs.put(b"another content")

        def append(writer: int, number: int) -> int:
            store.journal.append_all([(f"records/{writer}", b"x" * 500, 3600.0)] * 100, {})
            return 100

        def move(writer: int, number: int) -> int:
            store.names.move({f"variables/{writer}": cid if number % 2 else other}, "bench", "a change")
            return 1

        works: dict[str, Callable[[int, int], int]] = {"records": append, "moves": move}
        for name, work in works.items():
            before = processor_seconds(database.pid)
            written, seconds = _write(work, writers)
            used = processor_seconds(database.pid) - before
            found[f"{name}_each_second"] = round(written / seconds)
            found[f"postgresql_us_each_of_{name}"] = round(used / written * 1e6, 1)
        return found


def measure_bus(readers: int) -> dict[str, float]:
    """Send messages one by one, then many at once, to so many other processes' readers; return what they cost."""
    with ExitStack() as stack:
        database = stack.enter_context(closing(PostgresqlServer()))
        assert database.pid is not None
        address = database.new_schema()
        sender, *others = (stack.enter_context(closing(PostgresqlStore(address))) for _ in range(readers + 1))
        mailboxes = [stack.enter_context(store.bus.subscribe(["bench"], 2 * MESSAGES)) for store in others]

        def send(pause: float) -> tuple[float, float]:
            """Return the seconds until every reader has all messages, and the database's processor time."""
            before, begun = processor_seconds(database.pid or 0), time.monotonic()
            for _ in range(MESSAGES):
                sender.bus.publish("bench", b"x" * 100)
                time.sleep(pause)
            for mailbox in mailboxes:
                for _ in range(MESSAGES):
                    if mailbox.get(READY_SECONDS) is None:
                        raise RuntimeError("a message is lost")
            return time.monotonic() - begun, processor_seconds(database.pid or 0) - before

        one_by_one = send(PAUSE_SECONDS)[1]
        seconds, at_once = send(0)
        return {
            "readers": readers,
            "postgresql_us_of_a_message_alone": round(one_by_one / MESSAGES * 1e6),
            "postgresql_us_of_a_message_among_many": round(at_once / MESSAGES * 1e6),
            "messages_each_second": round(MESSAGES / seconds),
        }


def _write(work: Callable[[int, int], int], writers: int) -> tuple[int, float]:
    """Let writers work for WRITE_SECONDS; return how much they wrote, and the time."""
    counts, begun = [0] * writers, time.monotonic()

    def run(writer: int) -> None:
        number = 0
        while time.monotonic() < begun + WRITE_SECONDS:
            counts[writer] += work(writer, number)
            number += 1

    threads = [threading.Thread(target=run, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts), time.monotonic() - begun


def _print(part: str, figures: object) -> None:
    sys.stdout.write(json.dumps({"part": part, "figures": figures}) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parts = ("nodes", "database", "simulation")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(parts)} (default: all)")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(parts):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected one of {', '.join(parts)}")
    chosen = given.parts or parts
    if "nodes" in chosen:
        for count in range(1, MOST_NODES + 1):
            _print("nodes", measure_nodes(count))
    if "database" in chosen:
        for writers in WRITERS:
            _print("database", measure_database(writers))
        for readers in READERS:
            _print("bus", measure_bus(readers))
    if "simulation" in chosen:
        for changes in (0.1, 1.0, 2.0, 3.0, 4.0):
            _print("simulation", simulate(Constants(), nodes=100, listeners=10_000, changes_a_second=changes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
