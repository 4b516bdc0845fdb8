"""Time to start a hub, to load many drop-ins, and to load one changed file; processor time of an idle hub.

    python -m benchmarks.starting [--drop-ins 1000] [--changes 20] [--idle 20]

Each line shows seconds by the clock and seconds of processor time of the hub with all its processes. Processor time
is the measure on a machine with other work. A start ends with the first answer to `server/discover` on an empty hub,
and with the first answer of the last drop-in in the others. The line of a change is the mean of many, without the
processor time of the requests that ask whether it is live and of the idle hub.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import httpx2

from benchmarks.processor_time import processor_seconds
from tests.interaction.programs import free_port

POLL_SECONDS = 0.01
MAX_WAIT_SECONDS = 300.0
SETTLE_SECONDS = 5.0
"""Seconds that a hub has between its first responses and the measurement of an idle hub."""

CHANGE_SECONDS = 1.0
"""Seconds from one change to the next, in which the hub also does what follows after the change is live."""

POLLS = 100
"""Number of requests that tell what one request costs."""

DEFINITION = '''"""Drop-in {number}."""


def greet(name: str, times: int = {number}, polite: bool = False) -> str:
    """Greet somebody.

    :param name: the person
    :param times: the number of greetings
    """
    return f"hello {{name}}" * times


def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right
'''


@dataclass
class Hub:
    """A running hub: its process and its address."""

    pid: int
    url: str

    def request_text(self, path: str, name: str, arguments: dict[str, object] | None = None) -> str:
        """Send one request; return the text of the response, empty while the hub or the server is absent."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": name, "params": {**(arguments or {}), "_meta": meta}}
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": name,
        }
        try:
            answer = httpx2.post(f"{self.url}{path}", json=message, headers=headers, timeout=60, trust_env=False)
        except httpx2.TransportError:
            return ""
        return answer.text if answer.status_code == httpx2.codes.OK else ""


@contextmanager
def run_hub(folder: Path) -> Iterator[Hub]:
    """Run a hub on `folder/data` and `folder/servers`."""
    port = free_port()
    command = [sys.executable, "-m", "patchbay", "serve", "--port", str(port)]
    command += ["--data", str(folder / "data"), "--servers", str(folder / "servers")]
    with (folder / "log").open("ab") as log:
        # Python writes compiled modules, as for an installed hub, also where this variable forbids it here.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield Hub(process.pid, f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(60)


def until(ready: Callable[[], object]) -> float:
    """Wait for a condition; return the seconds. Raises TimeoutError after MAX_WAIT_SECONDS."""
    started_at = time.monotonic()
    while not ready():
        if time.monotonic() - started_at > MAX_WAIT_SECONDS:
            raise TimeoutError("the hub did not become ready")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - started_at


def measure_start(label: str, folder: Path, path: str, text: str) -> None:
    """Start a hub, wait for its first response that contains a text, and print the time."""
    started_at = time.monotonic()
    with run_hub(folder) as hub:
        until(lambda: text in hub.request_text(path, "tools/list" if path != "/mcp" else "server/discover"))
        print_line(label, time.monotonic() - started_at, processor_seconds(hub.pid))


def measure_changes_and_idle(folder: Path, last: int, changes: int, idle: float) -> None:
    """Send a running hub no requests for a while, then change one file again and again; print both measurements."""
    with run_hub(folder) as hub:
        until(lambda: "greet" in hub.request_text(f"/mcp/drop{last}", "tools/list"))
        time.sleep(SETTLE_SECONDS)
        before, started_at = processor_seconds(hub.pid), time.monotonic()
        time.sleep(idle)
        seconds, cpu_seconds = time.monotonic() - started_at, processor_seconds(hub.pid) - before
        print_line(f"idle: {cpu_seconds / seconds:.2%} of a core", seconds, cpu_seconds)
        change_one_file(folder, hub, 1, 0.0)  # what only the first change costs is left out
        live, cost = change_one_file(folder, hub, changes, cpu_seconds / seconds)
        print_line(f"one change, mean of {changes}", live, cost)


def change_one_file(folder: Path, hub: Hub, changes: int, idle: float) -> tuple[float, float]:
    """Change a file many times; return the seconds until a change is live, and its processor time.

    `idle` is the share of a processor that the idle hub uses.
    """
    before = processor_seconds(hub.pid)
    for _ in range(POLLS):
        hub.request_text("/mcp/drop7", "tools/list")
    poll = (processor_seconds(hub.pid) - before) / POLLS
    before, started_at, count = processor_seconds(hub.pid), time.monotonic(), 0
    waits = []

    def is_live(name: str) -> bool:
        nonlocal count
        count += 1
        return name in hub.request_text("/mcp/drop7", "tools/list")

    for _ in range(changes):
        name = f"change_{time.monotonic_ns()}"
        begun = time.monotonic()
        file = folder / "servers" / "drop7.py"
        file.write_text(DEFINITION.format(number=7).replace("def add", f"def {name}"))
        waits.append(until(partial(is_live, name)))
        time.sleep(max(0.0, CHANGE_SECONDS - (time.monotonic() - begun)))
    used = processor_seconds(hub.pid) - before - count * poll - idle * (time.monotonic() - started_at)
    return fmean(waits), used / changes


def print_line(label: str, seconds: float, cpu_seconds: float) -> None:
    """Print one measurement."""
    sys.stdout.write(f"{label:<44} {seconds:8.2f} s {cpu_seconds:8.4f} s of processor time\n")
    sys.stdout.flush()


def main() -> None:
    """Measure everything once, on folders that are deleted afterwards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drop-ins", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--idle", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        (folder / "servers").mkdir()
        measure_start("empty hub, first start", folder, "/mcp", "serverInfo")
        measure_start("empty hub, second start", folder, "/mcp", "serverInfo")
        for number in range(options.drop_ins):
            (folder / "servers" / f"drop{number}.py").write_text(DEFINITION.format(number=number))
        last = f"/mcp/drop{options.drop_ins - 1}"
        measure_start(f"{options.drop_ins} drop-ins, first start", folder, last, "greet")
        measure_start(f"{options.drop_ins} drop-ins, second start", folder, last, "greet")
        measure_changes_and_idle(folder, options.drop_ins - 1, options.changes, options.idle)


if __name__ == "__main__":
    main()
