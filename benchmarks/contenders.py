"""What is measured: this hub in its two ways to run a definition, its peers, and how each is started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks.load import MODERN, PLAIN, SESSION
from tests.interaction.programs import free_port, running, running_hub

DEFINITIONS = Path(__file__).parent / "definitions"

THREADS = "256"
"""Threads of the web server that the bare view runs on: as many as the hub has."""

INLINE, ISOLATED, FASTMCP = "patchbay inline", "patchbay isolated", f"FastMCP {version('fastmcp')}"
SDK, BARE = f"Python SDK {version('mcp')}", f"bare Flask {version('flask')}"

ISOLATIONS = {INLINE: "inline", ISOLATED: "process"}
"""The value of the hub's setting for each contender."""


@dataclass(frozen=True)
class Running:
    """A contender that has been started: where it answers, and the process that everything of it is below."""

    url: str
    pid: int


Start = Callable[[Path, Sequence[str]], AbstractContextManager[Running]]


@dataclass(frozen=True)
class Contender:
    """How one is started (folder and command prefix to what runs), in which revisions, and whether it can stream."""

    name: str
    start: Start
    revisions: Sequence[str]
    streams: bool = True


@contextmanager
def hub(isolation: str, folder: Path, prefix: Sequence[str], options: Sequence[str] = ()) -> Iterator[Running]:
    """Run this hub with the definition of the benchmark."""
    definitions = sorted(one for one in DEFINITIONS.iterdir() if one.is_file())
    with running_hub(folder / "hub", definitions, prefix, ["--isolation", isolation, *options]) as found:
        yield Running(found.endpoint("bench"), found.pid)


@contextmanager
def peer(program: str, folder: Path, prefix: Sequence[str]) -> Iterator[Running]:
    """A program of `peers/` that takes its port as its only argument and serves /mcp."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = [*prefix, sys.executable, "-m", f"benchmarks.peers.{program}", str(port)]
    with running(command, url, folder, statuses=range(200, 500), ends=(0, -15)) as process:
        yield Running(url, process.pid)


@contextmanager
def bare_flask(folder: Path, prefix: Sequence[str]) -> Iterator[Running]:
    """The bare view on the web server of the hub, with the hub's options."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = [*prefix, sys.executable, "-m", "granian", "--interface", "wsgi", "--http", "1", "--no-ws"]
    command += ["--workers", "1", "--blocking-threads", THREADS, "--backpressure", "4352"]
    command += ["--port", str(port), "--log-level", "warning", "benchmarks.peers.bare_flask:app"]
    with running(command, url, folder, statuses=range(200, 500)) as process:
        yield Running(url, process.pid)


CONTENDERS = (
    *(Contender(name, partial(hub, isolation), (SESSION, MODERN)) for name, isolation in ISOLATIONS.items()),
    Contender(FASTMCP, partial(peer, "fastmcp_server"), (SESSION, MODERN)),
    Contender(SDK, partial(peer, "sdk_server"), (SESSION, MODERN), streams=False),
    Contender(BARE, bare_flask, (PLAIN,), streams=False),
)
