"""Programs run as users run them: started on a free port, waited for, ended with SIGTERM.

Rules: nothing outside the given folder is written; a program that does not come up is told with the end
of its log; whatever happens, it is ended, by its own process id.
"""

from __future__ import annotations

import http.client
import itertools
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.checkout import ROOT
from tests.waiting import BOUND

POLL = 0.05

FIRST_PORT, PORT_COUNT = 10_000, 10_000
PORTS_BETWEEN_PROCESSES = 7919
"""How far apart the first ports of two processes with successive numbers are: a prime, so that they all differ."""

_numbers = itertools.count()

WORKERS = "PATCHBAY_WORKERS"
"""The variable that the option `--workers` of the tests sets: the web workers of each hub without a stated number."""

NODES = "PATCHBAY_TEST_NODES"
"""The variable that the option `--nodes` of the tests sets: hubs behind nginx in place of each hub of `running_hub`."""


@dataclass(frozen=True)
class Hub:
    """A running hub: its address without a path, its watched folder, its log, its process id.

    For several hubs behind nginx, `nodes` has the address and the process id of each.
    """

    url: str
    servers: Path
    log: Path
    pid: int
    nodes: tuple[tuple[str, int], ...] = ()

    def endpoint(self, server: str) -> str:
        """The address of one server."""
        return f"{self.url}/mcp/{server}"


def free_port() -> int:
    """Return a free port of the loopback interface that no other call returns soon, in this or another process.

    The system chooses ports from a higher range, and the client waits for a browser in a higher range too. So no other
    program takes this port before the caller's program listens.
    """
    while True:
        port = FIRST_PORT + (os.getpid() * PORTS_BETWEEN_PROCESSES + next(_numbers)) % PORT_COUNT
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def plain_environment(folder: Path) -> dict[str, str]:
    """The environment of a program: PATH, a home of its own, and the number of workers of the hubs of this run."""
    workers = {name: value for name, value in os.environ.items() if name == WORKERS}
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **workers}


@contextmanager
def running(
    command: Sequence[str],
    ready: str,
    folder: Path,
    statuses: Container[int] = (200,),
    ends: Container[int] = (0,),
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A program while it runs; begins when a GET of `ready` gives one of `statuses`, ends with SIGTERM.

    Its log is `folder/log`, and its environment is plain unless one is given. Raises RuntimeError when it does not
    come up, or when it does not end in time with one of the exit codes `ends` (minus the signal's number for a program
    that the signal ended).
    """
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment or plain_environment(folder), stdout=out, stderr=out
        )
    try:
        _wait_until_ready(process, ready, statuses, log)
        yield process
        process.terminate()
        code = process.wait(BOUND)
        if code not in ends:
            raise RuntimeError(f"{' '.join(command)} ended with {code} after SIGTERM:\n{_end_of(log)}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(BOUND)


def _wait_until_ready(process: subprocess.Popen[bytes], ready: str, statuses: Container[int], log: Path) -> None:
    for _ in range(int(BOUND / POLL)):
        if status_of(ready) in statuses:
            return
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(POLL)
            raise RuntimeError(f"ended with {code} instead of answering at {ready}:\n{_end_of(log)}")
    raise RuntimeError(f"does not answer at {ready} after {BOUND:.0f} s:\n{_end_of(log)}")


def status_of(url: str) -> int | None:
    """Return the status of a GET of this URL; None without an answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=5)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-30:])


def nodes_of_run() -> int:
    """Return how many hubs `running_hub` starts in place of one."""
    return int(os.environ.get(NODES, "1"))


@contextmanager
def running_hub(
    folder: Path,
    definitions: Sequence[Path] = (ROOT / "servers" / "hello.py",),
    prefix: Sequence[str] = (),
    options: Sequence[str] = (),
    enable: str = "everything",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Hub]:
    """The hub as `scripts/run` starts it, with data, servers and log under `folder`.

    `definitions` are dropped into its servers folder before it starts; `prefix` stands before the command,
    `options` behind it. `enable` names the shipped servers to switch on. With NODES above one there are several hubs.
    """
    servers = folder / "servers"
    servers.mkdir(parents=True)
    for definition in definitions:
        shutil.copy(definition, servers)
    if (nodes := nodes_of_run()) > 1:
        from tests.interaction.balanced import running_nodes

        with running_nodes(folder, servers, prefix, ["--enable", enable, *options], environment, nodes) as hub:
            yield hub
        return
    port = free_port()
    command = [*prefix, sys.executable, "-m", "patchbay", "serve", "--port", str(port)]
    command += ["--data", str(folder / "data"), "--servers", str(servers)]
    # Vectors are made in the background: with them, the score of a document changes between two searches.
    command += ["--enable", enable, "--embeddings", "off", *options]
    url = f"http://127.0.0.1:{port}"
    with running(command, f"{url}/readyz", folder, environment=environment) as process:
        yield Hub(url, servers, folder / "log", process.pid)
