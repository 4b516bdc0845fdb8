"""Measures the calls of a quick server while many callers wait for a slow one.

    .venv/bin/python -m benchmarks.slow_upstream
    .venv/bin/python -m benchmarks.slow_upstream --seconds 5 --slow mounted_http

A real hub has three slow servers: `mounted_http`, a mount of another hub over HTTP; `mounted_stdio`, a mount of a
program; `isolated`, a Python tool in processes of its own. Each of their calls lasts `--lasts` seconds. The program
calls two quick servers, the Python tool `quick` and `quick_mounted`, a mount of the other hub; then it sends 300 calls
to a slow server at once, and calls the quick ones meanwhile. Refused slow calls are sent again after the time that the
hub names.

Each line of JSON is one slow server: p50 and p99 of the quick calls in milliseconds, alone and beside the slow ones;
the refused quick calls; how many slow calls were answered and refused, and what a refusal says. The exit code is 0 when
no quick call was refused and no p99 is more than MAX_RATIO times as long as alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.interaction.programs import Hub, running_hub

MAX_RATIO = 2.0
SLOW_CALLS = 300
CALLS_PER_SECOND = 50
SLOW = ("mounted_http", "mounted_stdio", "isolated")
QUICK = ("quick", "quick_mounted")
WARM_UP_CALLS = 60
START_SECONDS = 30.0
SLOW_PROGRAM = Path(__file__).parent / "peers" / "slow_stdio.py"

QUICK_SOURCE = '''"""Quick."""


def say(text: str) -> str:
    """Return the text."""
    return text
'''
SLOW_SOURCE = '''"""Slow."""

import time


def wait(seconds: float) -> str:
    """Wait so long."""
    time.sleep(seconds)
    return "waited"
'''


class Client:
    """One kept-alive connection that calls one tool of one server."""

    def __init__(self, hub: Hub, server: str, tool: str, arguments: dict[str, Any]) -> None:
        parts = urlsplit(hub.endpoint(server))
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        self._path = parts.path
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        self._body = json.dumps(message)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}

    def call(self) -> tuple[int, str | None, bytes]:
        """Return status, Retry-After and body of one call."""
        self._connection.request("POST", self._path, self._body, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.getheader("Retry-After"), answer.read()


class SlowCallers:
    """Callers that all wait for one slow server, until `end`."""

    def __init__(self, hub: Hub, server: str, lasts: float) -> None:
        self.answered = self.refused = 0
        self.refusal = ""
        self._hub, self._server, self._lasts = hub, server, lasts
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._call, daemon=True) for _ in range(SLOW_CALLS)]

    def start(self) -> None:
        """Send the first call of each caller."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait for the last answers."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _call(self) -> None:
        while not self._ended.is_set():
            try:
                status, retry_after, body = Client(self._hub, self._server, "wait", {"seconds": self._lasts}).call()
            except OSError:
                status, retry_after, body = 0, "1", b"the connection was lost"
            is_answered = status == 200 and b"waited" in body and retry_after is None
            with self._lock:
                self.answered += is_answered
                self.refused += not is_answered
                self.refusal = self.refusal if is_answered else f"{status}, Retry-After {retry_after}: {body.decode()}"
            if not is_answered:
                self._ended.wait(float(retry_after or 1))


def measure_quick(hub: Hub, server: str, seconds: float) -> tuple[list[float], int]:
    """Call a quick server at a steady pace; return the milliseconds of each answered call, and the refused calls."""
    client = Client(hub, server, "say", {"text": "hello"})
    found: list[float] = []
    refused = 0
    begun = time.perf_counter()
    for number in range(int(seconds * CALLS_PER_SECOND)):
        time.sleep(max(0.0, begun + number / CALLS_PER_SECOND - time.perf_counter()))
        sent = time.perf_counter()
        status, _, body = client.call()
        found.append((time.perf_counter() - sent) * 1e3)
        if status != 200 or b'"hello"' not in body or b'"isError":true' in body:
            refused += 1
    return found, refused


def measure(hub: Hub, slow: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the quick calls alone, and while callers wait for a slow server."""
    line: dict[str, Any] = {"slow": slow, "ratios": {}, "quick_refused": 0}
    alone = {quick: measure_quick(hub, quick, arguments.seconds) for quick in QUICK}
    callers = SlowCallers(hub, slow, arguments.lasts)
    callers.start()
    time.sleep(1.0)  # the first calls of all callers have arrived
    beside = {quick: measure_quick(hub, quick, arguments.seconds) for quick in QUICK}
    callers.end()
    for quick in QUICK:
        for name, (delays, refused) in (("alone", alone[quick]), ("beside", beside[quick])):
            line[f"{quick}_{name}_ms"] = [_quantile(delays, percent) for percent in (50, 99)]
            line["quick_refused"] += refused
        line["ratios"][quick] = round(line[f"{quick}_beside_ms"][1] / line[f"{quick}_alone_ms"][1], 2)
    line |= {"slow_answered": callers.answered, "slow_refused": callers.refused, "refusal": callers.refusal[:300]}
    return line


def _quantile(found: Sequence[float], percent: int) -> float:
    return round(statistics.quantiles(found, n=100)[percent - 1], 2)


def _write_servers(folder: Path, upstream: Hub) -> list[Path]:
    program = shlex.join([sys.executable, str(SLOW_PROGRAM)])
    sources = {
        "quick.py": QUICK_SOURCE,
        "quick_mounted.json": json.dumps({"kind": "upstream", "address": upstream.endpoint("quick_upstream")}),
        "isolated.py": SLOW_SOURCE,
        "mounted_http.json": json.dumps({"kind": "upstream", "address": upstream.endpoint("slow")}),
        "mounted_stdio.json": json.dumps({"kind": "upstream", "address": f"mcp+stdio:{program}"}),
    }
    return [_write(folder / name, text) for name, text in sources.items()]


def _write(file: Path, text: str) -> Path:
    file.write_text(text, "utf-8")
    return file


def _wait_until_answered(hub: Hub, server: str) -> None:
    """Wait until the hub reaches a server. Raises RuntimeError after START_SECONDS."""
    end = time.monotonic() + START_SECONDS
    while b"waited" not in (answer := Client(hub, server, "wait", {"seconds": 0}).call()[2]):
        if time.monotonic() > end:
            raise RuntimeError(f"{server} was not reached: {answer[:300]!r}")
        time.sleep(0.1)


def main() -> int:
    """Measure beside each slow server, print a line of JSON for each, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each measurement of a quick server")
    parser.add_argument("--lasts", type=float, default=5.0, help="duration of a slow call in seconds")
    parser.add_argument("--slow", nargs="+", choices=SLOW, default=list(SLOW), help="the slow servers")
    arguments = parser.parse_args()
    is_met = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        behind = [_write(folder / "slow.py", SLOW_SOURCE), _write(folder / "quick_upstream.py", QUICK_SOURCE)]
        with (
            running_hub(folder / "upstream", behind, (), ["--isolation", "inline", "--threads", "2048"]) as upstream,
            running_hub(folder / "hub", _write_servers(folder, upstream)) as hub,
        ):
            for server in arguments.slow:
                _wait_until_answered(hub, server)
            for quick in QUICK:
                measure_quick(hub, quick, WARM_UP_CALLS / CALLS_PER_SECOND)
            for server in arguments.slow:
                line = measure(hub, server, arguments)
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()
                is_met = is_met and not line["quick_refused"] and max(line["ratios"].values()) <= MAX_RATIO
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
