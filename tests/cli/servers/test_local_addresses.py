"""Addresses like /mcp/notes on the command line: the running hub answers them, without one a hub in the process does.

Issue 17 item 4.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay import exit_codes
from patchbay.cli.running_hub import find_running_hub
from patchbay.client.addresses.targets import Http, Local
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import Unreachable
from patchbay.settings import Settings
from patchbay.stores.folder_lock import CLAIMED
from tests.cli.servers.commands import run_command
from tests.cli.workspace import Ended
from tests.serving.running import Hub, running

pytestmark = pytest.mark.process

PID = '''"""Processes."""

import os


def pid() -> int:
    """Return the process that runs this."""
    return os.getpid()
'''

LINES = (
    ("inspect", "/mcp/echo", "--format", "json"),
    ("inspect", "/mcp/echo"),
    ("mcp", "tools", "/mcp/echo"),
    ("call", "/mcp/echo", "echo", "message=hi"),
    ("call", "/mcp/echo/echo?message=hi", "--text"),
    ("call", "/mcp/echo", "ecko", "message=hi"),
    ("call", "/mcp/eco", "echo", "message=hi"),
    ("call", "/mcp/everything", "echo", "message=hi"),
    ("call", f"/mcp/echo@b{'a' * 58}", "echo", "message=hi"),
)
"""Commands that give the same with a running hub and without one."""

DEAD_PROXY = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "NO_PROXY": "", "no_proxy": ""}


def write_server(folder: Path, name: str) -> None:
    """Write a server whose tool runs in the process of its hub."""
    (folder / f"{name}.mcp.json").write_text('{"isolation": "inline"}')
    (folder / f"{name}.py").write_text(PID)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the hub."""
    made = tmp_path_factory.mktemp("hub")
    (made / "servers").mkdir()
    write_server(made / "servers", "processes")
    return made


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    """A running hub that answers only callers with a key, and the operator."""
    with running(folder, "--access", "shared") as started:
        yield started


def command(folder: Path, *words: str) -> Ended:
    return run_command(folder, *words, names_servers=False, variables=DEAD_PROXY)


def find_ancestors(process: int) -> list[int]:
    """The process, its parent, and so on."""
    found = [process]
    while found[-1] > 1:
        status = Path(f"/proc/{found[-1]}/status").read_text()
        found.append(int(status.split("\nPPid:")[1].split()[0]))
    return found


def test_a_call_runs_in_the_hub_that_runs_on_the_data_folder(hub: Hub, folder: Path) -> None:
    """The operator's token is sent, and no proxy gets it."""
    called = command(folder, "call", "/mcp/processes", "pid", "--text")
    assert called.code == exit_codes.OK, called.err
    assert hub.process.pid in find_ancestors(int(called.out))


def test_a_call_waits_for_a_server_whose_file_is_new(hub: Hub, folder: Path) -> None:
    tried: list[Http] = []

    def open_connection(target: Http) -> Connection:
        tried.append(target)
        if len(tried) == 1:
            write_server(folder / "servers", "fresh")
            raise Unreachable("the hub has not read the file")
        return Connection.open(target, era="modern", quick=True)

    running_hub = find_running_hub(Settings(data=folder / "data"))
    assert running_hub is not None
    with running_hub.connect(Local("fresh"), open_connection) as connection:
        assert [tool["name"] for tool in connection.list_tools()] == ["pid"]
    assert len(tried) == 2


def test_output_and_exit_codes_are_those_of_a_hub_in_the_process(hub: Hub, folder: Path, tmp_path: Path) -> None:
    for words in LINES:
        with_hub, without_hub = command(folder, *words), command(tmp_path, *words)
        assert with_hub == without_hub, words
    assert list(tmp_path.rglob("*.lock")) != []


@pytest.mark.parametrize("holder", ["ended", "other"])
def test_a_stale_note_of_a_hub_is_not_followed(tmp_path: Path, holder: str) -> None:
    """The hub was killed; its process id is free, or belongs to another program, which must not get the token."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    process = ended.pid if holder == "ended" else os.getpid()
    (tmp_path / "data").mkdir()
    note = {"url": "http://127.0.0.1:9", "host": "127.0.0.1:9", "servers": str(tmp_path), "process": process}
    (tmp_path / "data" / CLAIMED).write_text(json.dumps(note))
    (tmp_path / "servers").mkdir()
    write_server(tmp_path / "servers", "processes")
    called = run_command(tmp_path, "call", "/mcp/processes", "pid", "--text")
    assert (called.code, called.out) == (exit_codes.OK, f"{os.getpid()}\n"), called.err


def call_with_key(folder: Path, hub: Hub, server: str, key: str) -> Ended:
    address = f"mcp+http://127.0.0.1:{hub.port}/mcp/{server}?header.Authorization=Bearer%20{key}"
    return run_command(folder, "call", address, "echo", "message=hi", names_servers=False)


def test_a_server_that_a_key_gives_no_access_to_is_described_like_one_that_is_not_there(hub: Hub, folder: Path) -> None:
    key = command(folder, "key", "new", "bob", "--grants", "call:echo").out.strip()
    assert call_with_key(folder, hub, "echo", key).code == exit_codes.OK
    for server in ("processes", "nothing"):
        refused = call_with_key(folder, hub, server, key)
        assert refused.code == exit_codes.UNREACHABLE
        assert "answers HTTP 404: no MCP server is there, or this key gives no access to it" in refused.err
        assert "Next: check the name in the address, and ask the operator of the server" in refused.err


def test_a_wrong_key_is_named_and_no_person_is_asked_to_sign_in(hub: Hub, folder: Path) -> None:
    refused = call_with_key(folder, hub, "echo", "patchbay_key_wrong")
    assert refused.code == exit_codes.SIGN_IN
    assert "refuses the key or token in the header Authorization (HTTP 401 Unauthorized)" in refused.err
    assert "Next: send a valid key" in refused.err
    assert "patchbay_key_wrong" not in refused.err + refused.out
