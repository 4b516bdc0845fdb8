"""The sandbox: what a page may say about it is what happens, with bubblewrap or without."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patchbay.handlers.confinement.description import confinement
from patchbay.handlers.hosts.pool import Hosts
from patchbay.handlers.sandbox import available, walls
from tests.handlers.hosts.conversing import hosted, value

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
    """Something that listens on this machine; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "key").write_text("secret")
    return folder


@pytest.fixture
def hosts(data: Path) -> Iterator[Hosts]:
    made = Hosts(hidden=[data])
    yield made
    made.close()


def test_a_definition_that_asks_for_the_sandbox_has_it_where_it_works(hosts: Hosts, data: Path) -> None:
    """THREATS 1.6: file escape."""
    with socket_server() as port:
        found = value(hosted(hosts, LOOK, sandbox=True), data=str(data), port=port)
    walled = confinement("python", {"sandbox": True}).sandboxed
    assert walled == available()
    assert found == ([False, []] if walled else [True, ["key"]])
    assert (data.parent / "canary").exists() != walled


def test_a_definition_that_does_not_ask_for_it_runs_without(hosts: Hosts, data: Path) -> None:
    with socket_server() as port:
        assert value(hosted(hosts, LOOK), data=str(data), port=port) == [True, ["key"]]


def test_the_walls_leave_the_interpreter_and_hide_the_data(data: Path) -> None:
    line = " ".join(walls([data, data / "absent"]))
    assert f"--tmpfs {data}" in line and "absent" not in line
    assert line.index("--tmpfs /tmp") < line.index(f"--tmpfs {data}")
    if sys.prefix.startswith("/tmp/"):
        assert f"--ro-bind {sys.prefix} {sys.prefix}" in line
    assert line.endswith(" --")
