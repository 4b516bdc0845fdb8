"""The processor time of a call on PostgreSQL beside SQLite, the round trips of a call, and the connections of a node.

    .venv/bin/python -m benchmarks.databases --rounds 8 --calls 1500

One hub on each store runs the same definition; short turns alternate, so that other work of the machine falls on both.
Prints one line of JSON: medians over the turns. Transactions are counted by the database; one of the hub is one
statement, so that they are its round trips.
"""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.contenders import RunningServer, run_hub
from benchmarks.load import MODERN, RequestTemplate, prepare_request
from benchmarks.processor_time import processor_seconds, wait_until_idle
from tests.databases import PostgresqlServer

WARM_UP_CALLS = 300


def make_calls(server: RunningServer, request: RequestTemplate, count: int) -> None:
    """Make calls on one connection. Raises RuntimeError for a wrong answer."""
    parts = urlsplit(request.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    for number in range(count):
        connection.request("POST", parts.path, f"{number}".join(request.body), dict(request.headers))
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200 or b"hello, hello" not in body:
            raise RuntimeError(f"{request.url} answered {answer.status}: {body[:300]!r}")
    connection.close()


def measure(rounds: int, calls: int) -> dict[str, float]:
    """Run both hubs and measure them in turn."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = PostgresqlServer()
        stack.callback(database.close)
        (folder / "key").write_text(secrets.token_hex(32))
        shared = ["--store", database.new_schema(), "--key-file", str(folder / "key")]
        hubs = {
            name: stack.enter_context(run_hub("inline", folder / name, (), options))
            for name, options in {"sqlite": [], "postgresql": shared}.items()
        }
        requests = {name: prepare_request(hub.url, MODERN) for name, hub in hubs.items()}
        for name, hub in hubs.items():
            make_calls(hub, requests[name], WARM_UP_CALLS)
            wait_until_idle(hub.pid)
        figures: dict[str, list[float]] = {name: [] for name in ("sqlite", "postgresql", "database", "trips", "busy")}
        at_rest = database.count_connections()
        assert database.pid is not None
        for _ in range(rounds):
            for name, hub in hubs.items():
                transactions, engine = database.count_transactions(), processor_seconds(database.pid)
                before = processor_seconds(hub.pid)
                make_calls(hub, requests[name], calls)
                if name == "postgresql":
                    figures["busy"].append(database.count_connections())
                    figures["trips"].append((database.count_transactions() - transactions) / calls)
                    figures["database"].append((processor_seconds(database.pid) - engine) / calls * 1e6)
                figures[name].append((processor_seconds(hub.pid) - before) / calls * 1e6)
        ratios = [after / before for before, after in zip(figures["sqlite"], figures["postgresql"], strict=True)]
        return {
            "sqlite_us": round(statistics.median(figures["sqlite"])),
            "postgresql_us": round(statistics.median(figures["postgresql"])),
            "ratio": round(statistics.median(ratios), 3),
            "database_us": round(statistics.median(figures["database"])),
            "transactions_a_call": round(statistics.median(figures["trips"]), 4),
            "connections_at_rest": at_rest,
            "connections_at_work": max(figures["busy"]),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.databases", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=8, help="turns of each hub (default: 8)")
    parser.add_argument("--calls", type=int, default=1500, help="calls of one turn (default: 1500)")
    given = parser.parse_args(arguments)
    sys.stdout.write(json.dumps(measure(given.rounds, given.calls)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
