"""Scripts that wait for approvals over three hubs on one PostgreSQL, while hubs are killed: none lost, no call doubled.

    .venv/bin/python -m benchmarks.suspended_scripts                 50 scripts of four calls, a hub killed each 4 s
    .venv/bin/python -m benchmarks.suspended_scripts --scripts 10 --kill 8

Each script finds issues and closes three of them, which needs an approval; its caller goes away. Then their
questions are approved one after the other, each at the next hub that answers, while once in `--kill` seconds the next
hub is killed (SIGKILL, with its workers) and started again. At the end the same calls get the values. A call that was
being made by a killed hub is an error in its script ("its result is unknown") and is counted; one that was made twice,
or a script without a value, is a failure: the exit code is 1. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.cluster_soak import NODES, Node
from patchbay.access.operator_token import TOKEN_FILE
from patchbay.scripting.suspended.run_seals import UNKNOWN_RESULT
from tests.databases import PostgresqlServer
from tests.hubs import modern_request
from tests.scripting.closing import CODE, FILES

READY_SECONDS = 120.0
"""Limit on each step: until a hub answers, until all scripts wait, and until all have ended."""

CALLERS = 25
"""Callers at the same time. Each waits until its call ends because there is no decision, which takes 20 seconds."""

CALLER_SECONDS = 120.0
"""Limit on one call."""

CALLS = 3
"""Calls of each script that need an approval."""


class Cluster:
    """Three hubs, some of which may be down for a moment."""

    def __init__(self, folder: Path, nodes: list[Node]) -> None:
        self.folder = folder
        self.nodes = nodes
        self.killed = 0
        self._next = 0
        self._lock = threading.Lock()

    def kill_next(self) -> None:
        """Kill the next hub with its workers, and start it again."""
        node = self.nodes[self.killed % len(self.nodes)]
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(node.process.pid)], capture_output=True, text=True)
        for pid in (node.process.pid, *map(int, found.stdout.split())):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        node.process.wait(READY_SECONDS)
        node.restart()
        self.killed += 1

    def request(self, method: str, path: str, seconds: float = 30.0, **more: Any) -> httpx2.Response:
        """Send a request to the next hub that answers."""
        until = time.monotonic() + READY_SECONDS
        while True:
            with self._lock:
                node = self.nodes[self._next % len(self.nodes)]
                self._next += 1
            token = self.folder / f"data-{node.port}" / TOKEN_FILE
            try:
                headers = {"Authorization": f"Bearer {token.read_text().strip()}", "Accept": "application/json"}
                headers |= more.get("headers", {})
                url = f"http://127.0.0.1:{node.port}{path}"
                return httpx2.request(method, url, timeout=seconds, **{**more, "headers": headers})
            except (httpx2.ConnectError, httpx2.RemoteProtocolError, httpx2.ReadError, OSError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def run_script(self, number: int, seconds: float) -> Any:
        """Return the result of a script; None if it still waits after these seconds."""
        folder = self.folder / f"issues-{number}"
        folder.mkdir(exist_ok=True)
        arguments = {"code": CODE, "inputs": {"folder": str(folder), "count": CALLS}}
        message, headers = modern_request("tools/call", {"name": "run_script", "arguments": arguments})
        headers = {**headers, "Accept": "application/json, text/event-stream"}
        try:
            answer = self.request("POST", "/mcp/issues", seconds, json=message, headers=headers).text
        except httpx2.TimeoutException:
            return None
        data = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith(("data: {", "{"))]
        return json.loads(data[-1]).get("result") if data else None

    def questions(self) -> Counter[str]:
        """Return the calls that wait for a decision, by question."""
        found = self.request("GET", "/approvals").json()
        return Counter(one["question"] for one in found["approvals"] if one["waits"])

    def approve(self, question: str) -> None:
        """Approve all calls of a question. A hub that was killed meanwhile may have done so."""
        self.request("POST", "/approvals", data={"id": question, "do": "approve"})

    def value(self, number: int) -> list[str] | None:
        """Return the value of a script that has gone on; None if it has none in time."""
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            result = self.run_script(number, 30.0)
            if result is not None and not result.get("isError"):
                return list(result["structuredContent"]["value"])
            time.sleep(0.5)
        return None


def main() -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", type=int, default=50, help="Scripts that wait at the same time.")
    parser.add_argument("--kill", type=float, default=4.0, help="Seconds between two kills.")
    options = parser.parse_args()
    with ExitStack() as stack:
        figures = _measure(options, stack)
    sys.stdout.write(json.dumps(figures) + "\n")
    return 1 if figures["lost"] or figures["doubled"] else 0


def _measure(options: argparse.Namespace, stack: ExitStack) -> dict[str, Any]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (folder / "servers").mkdir()
    for name, text in FILES.items():
        (folder / "servers" / name).write_text(text)
    (folder / "key").write_text(secrets.token_hex(32))
    database = PostgresqlServer()
    stack.callback(database.close)
    store = database.new_schema()
    nodes = [Node(folder, store, ["--workers", "1"]) for _ in range(NODES)]
    for node in nodes:
        stack.callback(node.close)
    cluster = Cluster(folder, nodes)
    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(lambda number: cluster.run_script(number, CALLER_SECONDS), range(options.scripts)))
    asked = _wait(lambda: len(found := cluster.questions()) == options.scripts and found, "all scripts wait")
    ending = threading.Event()
    killer = threading.Thread(target=_kill, args=(cluster, options.kill, ending))
    begun = time.monotonic()
    killer.start()
    for question in asked:
        cluster.approve(question)
        time.sleep(options.kill * 3 / options.scripts)  # so that several kills fall into the approvals
    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(cluster.value, range(options.scripts)))
    seconds = time.monotonic() - begun
    ending.set()
    killer.join()
    return _figures(cluster, options.scripts, values, seconds)


def _kill(cluster: Cluster, every: float, ending: threading.Event) -> None:
    """Kill one hub after another; three kills are enough for all of them, and more end no sooner."""
    while cluster.killed < 2 * NODES and not ending.wait(every):
        cluster.kill_next()


def _figures(cluster: Cluster, scripts: int, values: list[list[str] | None], seconds: float) -> dict[str, Any]:
    doubled = unknown = made = 0
    for number, value in enumerate(values):
        for file in ("closed", "found"):
            path = cluster.folder / f"issues-{number}" / file
            counts = Counter(path.read_text().split() if path.exists() else [])
            doubled += sum(count - 1 for count in counts.values())
            made += counts.total() if file == "closed" else 0
        unknown += sum(one.endswith(UNKNOWN_RESULT) for one in value or ())
    return {
        "scripts": scripts,
        "nodes": NODES,
        "killed_hubs": cluster.killed,
        "lost": sum(value is None for value in values),
        "doubled": doubled,
        "calls_made": made,
        "calls_with_unknown_result": unknown,
        "seconds_from_the_first_approval": round(seconds, 1),
    }


def _wait(condition: Callable[[], Any], what: str) -> Any:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise TimeoutError(f"waited {READY_SECONDS:g} s until {what}")


if __name__ == "__main__":
    sys.exit(main())
