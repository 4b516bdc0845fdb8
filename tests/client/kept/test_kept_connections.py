"""Programs that commands with `--keep` leave running for the next command. Issue 33 part 11."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay import exit_codes
from patchbay.client.addresses.targets import Stdio
from patchbay.client.errors import Unreachable
from patchbay.client.kept import starting
from patchbay.client.kept.connection import KeptConnection, ask
from patchbay.client.kept.places import NotKept, is_of_this_user, open_folder
from patchbay.client.kept.starting import list_places, open_kept
from tests.cli.workspace import CHANGING, COUNT, Workspace, kept_programs
from tests.waiting import until

STARTED = "start"


@pytest.fixture
def kept(workspace: Workspace) -> Iterator[Workspace]:
    """A workspace with a short folder for the sockets; all its background processes end with the test."""
    with kept_programs(workspace):
        yield workspace


def starts(workspace: Workspace) -> int:
    return workspace.log().count(STARTED)


def opened(workspace: Workspace, **options: Any) -> KeptConnection:
    chosen: dict[str, Any] = {
        "era": "auto", "name": "test", "version": "1", "start_timeout": 60.0, "timeout": 60.0, "ask": None,
        "questions": (), "environ": workspace.environ(), "log_level": None,
    }  # fmt: skip
    program = Stdio(sys.executable, ("-S", str(CHANGING), str(workspace.work / "tools.json")), cwd=str(workspace.work))
    return open_kept(options.pop("target", program), **chosen | options)


def statuses(workspace: Workspace) -> list[dict[str, Any]]:
    return [ask(place, "status") for place in list_places(workspace.environ())]


def test_the_second_call_uses_the_program_of_the_first_one(kept: Workspace) -> None:
    """33.11: whatever the command; a command without --keep starts its own program."""
    address = kept.serve(COUNT)
    for n in (1, 2):
        ended = kept.quick(f'jn call --keep "{address}" count n={n}')
        assert (ended.code, ended.records[0]["text"]) == (exit_codes.OK, json.dumps({"n": n})), ended.err
    assert "count" in kept.quick(f'jn inspect --keep "{address}"').out
    assert starts(kept) == 1
    assert kept.quick(f'jn call "{address}" count n=3').code == exit_codes.OK
    assert starts(kept) == 2
    kept.environment["PATCHBAY_KEEP"] = "1"
    assert kept.quick(f'jn call "{address}" count n=4').code == exit_codes.OK
    assert starts(kept) == 2


def test_questions_progress_and_errors_pass_through(kept: Workspace) -> None:
    """33.11: the command answers the server's questions, shows its progress, and fails as without --keep."""
    address = kept.serve({"name": "ask", "inputSchema": {"type": "object"}}, {"name": "fail"}, {"name": "steps"})
    question = {"method": "roots/list", "params": {}}
    asked = kept.quick(f"jn call --keep --root {kept.work} \"{address}\" ask --args '{json.dumps(question)}'")
    assert json.loads(asked.records[0]["text"])["roots"][0]["uri"] == kept.work.as_uri()
    failed = kept.quick(f'jn call --keep "{address}" fail')
    assert failed.code == exit_codes.FAILED and failed.records[0]["isError"]
    with opened(kept) as connection:
        seen: list[Any] = []
        connection.call_tool("steps", on_event=seen.append)
        assert [(one.progress, one.message) for one in seen] == [(n, f"step {n}") for n in (1, 2, 3)]
        with pytest.raises(Unreachable, match="gives no notifications"):
            connection.listen()


def test_a_different_folder_environment_or_version_has_its_own_program(kept: Workspace) -> None:
    """33.11: they decide what a program does."""
    kept.serve(COUNT)
    (kept.work / "inside").mkdir()
    program = Stdio(sys.executable, ("-S", str(CHANGING), str(kept.work / "tools.json")), cwd=str(kept.work / "inside"))
    with opened(kept), opened(kept):
        assert starts(kept) == 1
    with (
        opened(kept, version="2"),
        opened(kept, environ={**kept.environ(), "TZ": "UTC"}),
        opened(kept, questions=["sampling"]),
    ):
        assert starts(kept) == 4
    with opened(kept, target=program):
        assert starts(kept) == 5
    with opened(kept, environ={**kept.environ(), "SECRET": "not inherited by programs"}):
        assert starts(kept) == 5


def test_commands_at_once_start_one_program_and_share_it(kept: Workspace) -> None:
    """33.11: one of them starts it, and the others wait."""
    kept.serve(COUNT)
    answers: list[Any] = []

    def call(n: int) -> None:
        with opened(kept) as connection:
            answers.append(connection.call_tool("count", {"n": n})["content"][0]["text"])

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [json.dumps({"n": n}) for n in range(4)]
    assert starts(kept) == 1


def test_a_program_that_ended_is_started_again_by_the_next_command(kept: Workspace) -> None:
    """33.11: the command whose program ends hears that, as without --keep."""
    address = kept.serve(COUNT, {"name": "die"})
    failed = kept.quick(f'jn call --keep "{address}" die')
    assert failed.code == exit_codes.UNREACHABLE and "exit code 3" in failed.err
    until(lambda: not list_places(kept.environ()), "the background process ends")
    assert kept.quick(f'jn call --keep "{address}" count n=1').code == exit_codes.OK
    assert starts(kept) == 2


def test_a_killed_background_process_is_replaced(kept: Workspace) -> None:
    """33.11: its socket stays behind, and the program ends with it."""
    kept.serve(COUNT)
    with opened(kept) as connection:
        (status,) = statuses(kept)
        os.kill(status["process"], 9)
        with pytest.raises(Unreachable, match="background process of this connection is gone"):
            connection.call_tool("count", {"n": 1})
        assert connection.closed
    with opened(kept) as connection:
        assert connection.call_tool("count", {"n": 2})["content"][0]["text"] == '{"n": 2}'
    assert starts(kept) == 2


def test_an_idle_program_ends_and_its_socket_goes(kept: Workspace) -> None:
    """33.11: after the idle time, though the command that used it is still there."""
    kept.serve(COUNT)
    with opened(kept, idle_seconds=0.1):
        until(lambda: not list_places(kept.environ()), "the background process ends")


def test_a_process_without_its_socket_ends(kept: Workspace) -> None:
    """33.11: no command could find or stop it."""
    kept.serve(COUNT)
    with opened(kept):
        (status,) = statuses(kept)
        list_places(kept.environ())[0].unlink()
        until(lambda: not Path(f"/proc/{status['process']}").exists(), "the background process ends")


def test_a_command_that_leaves_cancels_its_request(kept: Workspace) -> None:
    """33.11: an abandoned request does not keep the program busy."""
    kept.serve({"name": "slow"})
    with opened(kept) as connection:
        (place,) = list_places(kept.environ())
        running = connection.request("tools/call", {"name": "slow", "arguments": {}}, pauses=iter(lambda: 0.1, None))
        next(running)
        assert ask(place, "status")["idle"] == 0
        running.close()
        until(lambda: ask(place, "status")["idle"] > 0, "the request ends")


def test_kept_connections_are_listed_and_stopped(kept: Workspace) -> None:
    """33.11: with the words of the program, secrets masked, and by the beginning of a name."""
    address = kept.serve(COUNT) + "?env.API_TOKEN=hunter2"
    assert "No connection is kept" in kept.quick("patchbay connections list").out
    assert kept.quick(f'jn call --keep "{address}" count n=1').code == exit_codes.OK, "with a secret"
    listed = kept.quick("patchbay connections list").out
    assert "API_TOKEN=***" in listed and "hunter2" not in listed and str(kept.work) in listed
    name = statuses(kept)[0]["name"]
    unknown = kept.quick("patchbay connections stop zzz")
    assert unknown.code == exit_codes.USAGE and "no connection zzz is kept" in unknown.err
    assert f"stopped {name}" in kept.quick(f"patchbay connections stop {name[:6]}").out
    assert list_places(kept.environ()) == []
    assert kept.quick("patchbay connections stop").out == "No connection is kept.\n"


@pytest.mark.parametrize("fault", ["an open folder", "a long path", "a broken background process"])
def test_a_command_whose_connection_cannot_be_kept_uses_its_own(
    kept: Workspace, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """33.11: with a sentence that says why."""
    address = kept.serve(COUNT)
    runtime = Path(kept.environment["XDG_RUNTIME_DIR"])
    if fault == "an open folder":
        (runtime / "patchbay-connections").mkdir(mode=0o755)
        expected = "has to be a folder of this user with mode 0700"
    elif fault == "a long path":
        (runtime / ("x" * 90)).mkdir()
        kept.environment["XDG_RUNTIME_DIR"] = str(runtime / ("x" * 90))
        expected = "is too long for a socket"
    else:
        monkeypatch.setattr(starting, "COMMAND", ("/bin/false",))
        expected = "the background process ended with exit code 1"
    ended = kept.quick(f'jn call --keep "{address}" count n=1')
    assert (ended.code, ended.records[0]["text"]) == (exit_codes.OK, '{"n": 1}')
    assert expected in ended.err and "This command uses its own." in ended.err


def test_a_program_that_cannot_be_started_is_named_once(kept: Workspace) -> None:
    """33.11: the failure is that of the program, and is not tried twice."""
    ended = kept.quick('jn call --keep "mcp+stdio:no-such-program-here" x')
    assert ended.code == exit_codes.UNREACHABLE
    assert ended.err.count("there is no program 'no-such-program-here'") == 1 and "not kept" not in ended.err


def test_only_this_user_may_open_the_folder_and_the_sockets(kept: Workspace) -> None:
    """33.11: modes 0700 and 0600."""
    kept.serve(COUNT)
    with opened(kept):
        (place,) = list_places(kept.environ())
        assert place.parent.stat().st_mode & 0o777 == 0o700
        assert place.stat().st_mode & 0o777 == 0o600


def test_a_process_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """33.11: the kernel says whose process is at the other end."""
    one, other = socket.socketpair()
    with one, other:
        assert is_of_this_user(one)
        monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
        assert not is_of_this_user(one)
        with pytest.raises(NotKept, match="folder of this user"):
            open_folder({"TMPDIR": tempfile.mkdtemp()})
