"""The sandbox: the description on a page is what happens, with bubblewrap or without."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patchbay.errors import ConfigError
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.kinds.registry import Handlers, handler_for
from patchbay.processes import sandbox
from patchbay.processes.sandbox import is_available, sandbox_command
from tests.hubs import Hub
from tests.kinds.python.workers.conversing import failure, hosted, value

LOOK = """
import os, pathlib, socket
def main(data, port):
    pathlib.Path(data).parent.joinpath("canary").write_text("x")
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        connects = True
    except OSError:
        connects = False
    return [connects, os.listdir(data)]
"""


@contextmanager
def socket_server() -> Iterator[int]:
    """Return the port of a listening socket on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "key").write_text("secret")
    return folder


@pytest.fixture
def hosts(data: Path) -> Iterator[WorkerPool]:
    made = WorkerPool(hidden=[data])
    yield made
    made.close()


def test_a_definition_that_asks_for_the_sandbox_has_it_or_does_not_run(hosts: WorkerPool, data: Path) -> None:
    """File escape."""
    handler = hosted(hosts, LOOK, sandbox=True)
    with socket_server() as port:
        arguments = {"data": str(data), "port": port}
        if is_available():
            assert value(handler, **arguments) == [False, []]
        else:
            assert failure(handler, arguments) == "no process can be started for the tool: No such file or directory"
    assert not (data.parent / "canary").exists()


@pytest.mark.parametrize("kind", ["python", "shell"])
@pytest.mark.parametrize("isolation", ["process", "inline"])
def test_an_unavailable_sandbox_is_an_error_that_names_the_package(
    kind: str, isolation: str, hosts: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "is_available", lambda: False)
    config = {"sandbox": True, "isolation": isolation}
    words = 'write "isolation": "process"' if (kind, isolation) == ("python", "inline") else "apt install bubblewrap"
    with pytest.raises(ConfigError, match=words):
        handler_for(kind, b"def main(): ...", "cid", "walled", config, Handlers(hosts))
    assert handler_for(kind, b"def main(): ...", "cid", "walled", config | {"sandbox": "if-available"}, Handlers(hosts))


def test_a_server_without_the_sandbox_that_it_asks_for_is_broken(tmp_path: Path) -> None:
    """It runs no code; its page says how to install bubblewrap."""
    config = '{"auto_discover": true, "sandbox": %s}'
    files = {"needs.py": "def main() -> str: return 'x'", "needs.mcp.json": config % "true"}
    files |= {"wants.py": "def main() -> str: return 'x'", "wants.mcp.json": config % '"if-available"'}
    hub = Hub(tmp_path, files)
    try:
        broken = why_broken(hub)
        assert (broken is None) == is_available()
        assert is_available() or "apt install bubblewrap" in str(broken)
        assert hub.call("wants", "wants").text == "x"
    finally:
        hub.close()


def why_broken(hub: Hub) -> str | None:
    """Return why the server `needs` is not served."""
    found = next(each for each in hub.catalogue.all() if each.name == "needs")
    return str(found.broken) if found.broken is not None else None


def test_a_definition_that_does_not_ask_for_it_runs_without(hosts: WorkerPool, data: Path) -> None:
    with socket_server() as port:
        assert value(hosted(hosts, LOOK), data=str(data), port=port) == [True, ["key"]]


def test_the_sandbox_keeps_the_interpreter_and_hides_the_data(data: Path) -> None:
    line = " ".join(sandbox_command([data, data / "absent"]))
    assert f"--tmpfs {data}" in line and "absent" not in line
    assert line.index("--tmpfs /tmp") < line.index(f"--tmpfs {data}")
    if sys.prefix.startswith("/tmp/"):
        assert f"--ro-bind {sys.prefix} {sys.prefix}" in line
    assert line.endswith(" --")
