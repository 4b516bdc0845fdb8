"""A soak test of three hubs on one PostgreSQL: many listeners, steady calls, a changing definition, replaced hubs.

    .venv/bin/python -m benchmarks.cluster_soak             10 minutes, 3,000 listeners at each hub, 200 calls a second
    .venv/bin/python -m benchmarks.cluster_soak --minutes 1 --listeners 500 --replace 15

Each call goes to the next hub, and to another one when a hub closes the connection. A definition changes every two
seconds; each listener that was connected before a change has to receive a notification after it. Once in `--replace`
seconds the next hub ends (SIGTERM) and a new one takes its port, as in a rolling restart. Prints one line of JSON; the
exit code is 1 when an answer is wrong or a notification is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.listeners import CHANGING_SERVER, ListenerPool, prepare_listen, raise_file_limit, write_definition
from benchmarks.load import MODERN, prepare_request
from benchmarks.processor_time import processor_seconds
from benchmarks.soak import Callers, Counts, change_definition
from tests.databases import PostgresqlServer
from tests.interaction.programs import free_port

NODES = 3
ECHO = 'def echo(message: str) -> str:\n    """Return the message."""\n    return message\n'
READY_SECONDS = 60.0
"""Limit on the time until a hub accepts connections, and until one has ended."""


class Node:
    """A hub with a port of its own, which can be replaced."""

    def __init__(self, folder: Path, store: str, options: Sequence[str]) -> None:
        self.port = free_port()
        self._command = [sys.executable, "-m", "patchbay", "serve", "--port", str(self.port), "--store", store]
        self._command += ["--key-file", str(folder / "key"), "--servers", str(folder / "servers"), *options]
        self._command += ["--isolation", "inline", "--data", str(folder / f"data-{self.port}")]
        self._log = (folder / f"{self.port}.log").open("wb")
        self.process = self._start()
        self.used_seconds = 0.0

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=self._log)

    def restart(self) -> None:
        """Start another hub on the same port, after this one has ended."""
        self.process = self._start()

    async def replace(self) -> None:
        """End the hub, and start another one on the same port."""
        await self.end()
        self.restart()

    async def end(self) -> None:
        """End the hub, and count its processor time."""
        self.used_seconds += processor_seconds(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(self.process.wait, READY_SECONDS)

    def total_seconds(self) -> float:
        """Return the processor time of this node, replaced hubs included."""
        return self.used_seconds + processor_seconds(self.process.pid)

    def close(self) -> None:
        """Kill the hub if it still runs."""
        self.process.kill()
        self.process.wait()
        self._log.close()


class ClusterSoak:
    """One test. The fields of `options` are the options of the command line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._counts = Counts()
        self._end = 0.0

    async def run(self) -> dict[str, object]:
        """Start the hubs, put the load on them, end them, and return the figures."""
        options = self._options
        limits = ["--listeners", str(options.listeners + 1000), "--connections", str(options.listeners + 2000)]
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            servers = folder / "servers"
            servers.mkdir()
            (servers / "bench.py").write_text(ECHO)
            (folder / "key").write_text(secrets.token_hex(32))
            write_definition(servers, 0)
            database = PostgresqlServer()
            stack.callback(database.close)
            store = database.new_schema()
            nodes = [Node(folder, store, limits) for _ in range(NODES)]
            for node in nodes:
                stack.callback(node.close)
            pools = [ListenerPool(prepare_listen(_url(node, CHANGING_SERVER)), reconnects=True) for node in nodes]
            for pool in pools:
                await _open(pool, options.listeners)
            await self._put_load(nodes, pools, servers)
            assert database.pid is not None
            figures = self._figures(nodes, processor_seconds(database.pid))
            for pool in pools:
                pool.reconnects = False
            for node in nodes:
                await node.end()
            return figures

    async def _put_load(self, nodes: list[Node], pools: list[ListenerPool], servers: Path) -> None:
        self._end = time.monotonic() + 60 * self._options.minutes
        requests = [prepare_request(_url(node, "bench"), MODERN) for node in nodes]
        with Callers(requests, self._options.rate, self._counts):
            changes = change_definition(pools, servers, self._counts, self._options.change, self._end)
            await asyncio.gather(changes, self._replace(nodes))

    async def _replace(self, nodes: list[Node]) -> None:
        while time.monotonic() < self._end:
            await asyncio.sleep(min(self._options.replace, max(0.0, self._end - time.monotonic())))
            if self._end - time.monotonic() > min(30.0, self._options.replace / 2):
                await nodes[self._counts.replaced_workers % NODES].replace()
                self._counts.replaced_workers += 1

    def _figures(self, nodes: list[Node], database_seconds: float) -> dict[str, object]:
        counts, options = self._counts, self._options
        return {
            "minutes": options.minutes,
            "nodes": NODES,
            "listeners_at_each": options.listeners,
            "calls": counts.calls,
            "repeated_calls": counts.repeated_calls,
            "wrong_answers": dict(counts.wrong_answers),
            "changes": counts.changes,
            "lost_notifications": counts.lost_notifications,
            "slowest_notification_seconds": round(counts.slowest_notification_seconds, 2),
            "replaced_hubs": counts.replaced_workers,
            "processor_seconds_of_hubs": round(sum(node.total_seconds() for node in nodes), 1),
            "processor_seconds_of_postgresql": round(database_seconds, 1),
        }


def _url(node: Node, server: str) -> str:
    return f"http://127.0.0.1:{node.port}/mcp/{server}"


async def _open(pool: ListenerPool, count: int) -> None:
    """Open the streams of one hub as soon as it accepts connections."""
    end = time.monotonic() + READY_SECONDS
    while True:
        try:
            await pool.open_streams(count)
        except OSError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.2)
        else:
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; 1 when an answer is wrong or a notification is lost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_soak", description="Soak three hubs.")
    parser.add_argument("--minutes", type=float, default=10.0, help="duration (default: 10)")
    parser.add_argument("--listeners", type=int, default=3000, help="open streams at each hub (default: 3,000)")
    parser.add_argument("--rate", type=float, default=200.0, help="calls a second, over all hubs (default: 200)")
    parser.add_argument("--change", type=float, default=2.0, help="seconds between two changes (default: 2)")
    parser.add_argument("--replace", type=float, default=60.0, help="seconds between two replacements (default: 60)")
    options = parser.parse_args(arguments)
    raise_file_limit()
    figures = asyncio.run(ClusterSoak(options).run())
    sys.stdout.write(json.dumps(figures) + "\n")
    return 1 if figures["wrong_answers"] or figures["lost_notifications"] else 0


if __name__ == "__main__":
    sys.exit(main())
