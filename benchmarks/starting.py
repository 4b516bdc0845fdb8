"""Time to start a hub, to load many drop-ins, and to load one changed file; processor time of an idle hub.

    python -m benchmarks.starting [--drop-ins 1000] [--idle 20]

Each line shows seconds by the clock and seconds of processor time of the hub with all its processes. Processor time
is the measure on a machine with other work. A start ends with the first answer to `server/discover` on an empty hub,
and with the first answer of the last drop-in in the others.
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
from pathlib import Path

import httpx2

from benchmarks.processes import find_descendants
from tests.interaction.programs import free_port

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
POLL_SECONDS = 0.01
MAX_WAIT_SECONDS = 300.0
SETTLE_SECONDS = 5.0
"""Seconds that a hub has between its first responses and the measurement of an idle hub."""

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

    def cpu_seconds(self) -> float:
        """Return the seconds of processor time of the hub and every process below it."""
        return sum(map(_cpu_seconds_of, {self.pid} | find_descendants(self.pid)))


def _cpu_seconds_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_SECOND


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
        print_line(label, time.monotonic() - started_at, hub.cpu_seconds())


def measure_change_and_idle(folder: Path, last: int, idle: float) -> None:
    """Change one file of a running hub, then send no requests for a while, and print both measurements."""
    with run_hub(folder) as hub:
        until(lambda: "greet" in hub.request_text(f"/mcp/drop{last}", "tools/list"))
        time.sleep(SETTLE_SECONDS)
        file = folder / "servers" / "drop7.py"
        for name in ("first_change", "second_change"):
            polls = hub.cpu_seconds()
            hub.request_text("/mcp/drop7", "tools/list")
            cost = hub.cpu_seconds() - polls
            before, count = hub.cpu_seconds(), [0]
            file.write_text(DEFINITION.format(number=7).replace("def add", f"def {name}"))

            def is_live(name: str = name, count: list[int] = count) -> bool:
                count[0] += 1
                return name in hub.request_text("/mcp/drop7", "tools/list")

            seconds = until(is_live)
            print_line(f"one change, with {count[0]} requests of {cost:.3f} s", seconds, hub.cpu_seconds() - before)
        time.sleep(SETTLE_SECONDS)
        before, started_at = hub.cpu_seconds(), time.monotonic()
        time.sleep(idle)
        seconds, cpu_seconds = time.monotonic() - started_at, hub.cpu_seconds() - before
        print_line(f"idle: {cpu_seconds / seconds:.2%} of a core", seconds, cpu_seconds)


def print_line(label: str, seconds: float, cpu_seconds: float) -> None:
    """Print one measurement."""
    sys.stdout.write(f"{label:<44} {seconds:8.2f} s {cpu_seconds:8.2f} s of processor time\n")
    sys.stdout.flush()


def main() -> None:
    """Measure everything once, on folders that are deleted afterwards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drop-ins", type=int, default=1000)
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
        measure_change_and_idle(folder, options.drop_ins - 1, options.idle)


if __name__ == "__main__":
    main()
