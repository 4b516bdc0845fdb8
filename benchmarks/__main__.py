"""Calls of one tool per second: this hub, FastMCP, the official Python SDK, and Flask without any protocol.

Rules: one after the other on the same machine in the same run, each with one worker on a processor of its own;
the load comes from another processor and never leaves the machine. `scripts/bench --help` says how to use it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.load import MODERN, PLAIN, SESSION, Measured, measure, target
from tests.interaction.programs import free_port, running, running_hub

HERE = Path(__file__).parent
WARM = 1.0
"""Seconds of load before a measurement begins."""

THREADS = "256"
"""Threads of the web server that the bare view runs on: as many as the hub has."""

Start = Callable[[Path, Sequence[str]], AbstractContextManager[str]]


@dataclass(frozen=True)
class Contender:
    """What is measured: how it is started (folder and command prefix to URL), and in which revisions."""

    name: str
    start: Start
    revisions: Sequence[str]


@contextmanager
def hub(folder: Path, prefix: Sequence[str]) -> Iterator[str]:
    """This hub, with the definition of the benchmark dropped in."""
    definitions = sorted((HERE / "definitions").iterdir())
    with running_hub(folder / "hub", [one for one in definitions if one.is_file()], prefix) as found:
        yield found.endpoint("bench")


@contextmanager
def peer(program: str, folder: Path, prefix: Sequence[str]) -> Iterator[str]:
    """A program of `peers/` that takes its port as its only argument and serves /mcp."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = [*prefix, sys.executable, "-m", f"benchmarks.peers.{program}", str(port)]
    with running(command, url, folder, statuses=range(200, 500), ends=(0, -15)):
        yield url


@contextmanager
def bare_flask(folder: Path, prefix: Sequence[str]) -> Iterator[str]:
    """The bare view on the web server of the hub, with the hub's options."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = [
        *prefix,
        sys.executable,
        "-m",
        "granian",
        "--interface",
        "wsgi",
        "--http",
        "1",
        "--no-ws",
        "--workers",
        "1",
    ]
    command += ["--blocking-threads", THREADS, "--backpressure", "4352", "--port", str(port), "--log-level", "warning"]
    with running([*command, "benchmarks.peers.bare_flask:app"], url, folder, statuses=range(200, 500)):
        yield url


CONTENDERS = (
    Contender("patchbay", hub, (SESSION, MODERN)),
    Contender(f"FastMCP {version('fastmcp')}", partial(peer, "fastmcp_server"), (SESSION, MODERN)),
    Contender(f"Python SDK {version('mcp')}", partial(peer, "sdk_server"), (SESSION, MODERN)),
    Contender(f"bare Flask {version('flask')}", bare_flask, (PLAIN,)),
)


def run(contender: Contender, seconds: float, connections: int) -> dict[str, Measured]:
    """Start one contender on a processor of its own and measure it in each of its revisions."""
    server, load = _pins()
    with tempfile.TemporaryDirectory() as name, contender.start(Path(name), server) as url:
        found = {}
        for revision in contender.revisions:
            aim = target(url, revision)
            measure(aim, WARM, connections, load)
            found[revision] = measure(aim, seconds, connections, load)
        return found


def _pins() -> tuple[list[str], list[str]]:
    """Command prefixes that keep the server on one processor and the load on another."""
    processors = sorted(os.sched_getaffinity(0))
    return ["taskset", "--cpu-list", str(processors[0])], ["taskset", "--cpu-list", str(processors[-1])]


def table(found: dict[str, dict[str, Measured]], connections: int) -> Table:
    """Every measurement, and how it compares with FastMCP in the same revision and with the bare view."""
    fastmcp = next(rows for name, rows in found.items() if name.startswith("FastMCP"))
    bare = next(rows for name, rows in found.items() if name.startswith("bare"))[PLAIN]
    shown = Table(title=f"tools/call echo, {connections} connections, one processor")
    shown.add_column("server")
    for heading in ("revision", "requests/s", "p50 ms", "p99 ms", "to FastMCP", "to bare Flask"):
        shown.add_column(heading, justify="right")
    for name, rows in found.items():
        for revision, row in rows.items():
            ratio = f"{row.rate / fastmcp[revision].rate:.2f}x" if revision in fastmcp else ""
            numbers = (f"{row.rate:,.0f}", f"{row.p50:.2f}", f"{row.p99:.2f}", ratio, f"{row.rate / bare.rate:.2f}")
            shown.add_row(name, revision, *numbers)
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; answers the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure calls of one tool, side by side.")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each measurement lasts (default: 8)")
    parser.add_argument("--connections", type=int, default=16, help="connections held open (default: 16)")
    given = parser.parse_args(arguments)
    missing = [name for name in ("wrk", "taskset") if shutil.which(name) is None]
    if missing:
        parser.error(f"{' and '.join(missing)} missing; on Debian: apt-get install wrk util-linux")
    found = {}
    for contender in CONTENDERS:
        sys.stderr.write(f"measuring {contender.name}\n")
        found[contender.name] = run(contender, given.seconds, given.connections)
    Console(width=None if sys.stdout.isatty() else 110).print(table(found, given.connections))
    return 0


if __name__ == "__main__":
    sys.exit(main())
