"""A call that is over before it is done, from every side: the tool is told, may clean up, and nothing more is said.

The sides: `notifications/cancelled`, a stream that is closed, the end of a session, a time that is up, Ctrl-C at a
pipe, and a hub that ends. Being told is an exception in the tool's function; a function that takes no notice is killed.
Sources: REQUIREMENTS SUB-5, SUB-32, SUB-33, X-19; SPEC-DIGEST 1.11; THREATS X2, X22.
"""

from __future__ import annotations

import http.client
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay import exit_codes
from patchbay.activation import TASKS
from tests.hubs import BOTH, MODERN, Answer, Hub, modern_request
from tests.serving.running import alive, marks, running
from tests.serving.test_stdio_process import OPEN, started
from tests.waiting import BOUND, until

TOOLS = '''
import os
import time
from pathlib import Path

def wait(folder: str, context, stubborn: bool = False, background: bool = False, tidies: float = 0) -> str:
    """Wait without end, and record the ending after cleaning up; a stubborn one ignores cancellation."""
    if background:
        context.background(required=True)
    written(folder, "began", str(os.getpid()))
    while True:
        try:
            while True:
                time.sleep(0.01)
        except Exception:
            pass
        except BaseException as problem:
            time.sleep(tidies)
            written(folder, "told", type(problem).__name__)
            if not stubborn:
                raise

def written(folder: str, name: str, text: str) -> None:
    """A file that is whole as soon as it is there."""
    Path(folder, name + ".part").write_text(text)
    Path(folder, name + ".part").rename(Path(folder, name))
'''

SERVERS = ("inline", "hosted")
PLACES = pytest.mark.parametrize("server", SERVERS)
FILES = {f"{name}.py": TOOLS for name in SERVERS}
FILES["inline.mcp.json"] = json.dumps({"auto_discover": True, "isolation": "inline"})

SHORT = 0.4
"""Seconds that a call or a task has whose time is to be up soon."""


TIDIES = 0.3
"""Seconds that a tool tidies up when the hub stops: longer than the hub needs to end, shorter than it may take."""


def in_time(seconds: float) -> dict[str, Any]:
    """Settings of a hub whose calls have so many seconds, as have its tasks."""
    return {"timeout": seconds, "task_minutes": seconds / 60}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("cancelled"), FILES, **in_time(600))
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hasty"), FILES, **in_time(SHORT))
    yield hub
    hub.close()


class Waiting:
    """A call of `wait` in a session, which is being answered in a thread; it has begun."""

    def __init__(self, hub: Hub, server: str, folder: Path, accept: str, **arguments: bool) -> None:
        self.session = {"Mcp-Session-Id": hub.open(server)}
        self.folder = folder
        params = {"name": "wait", "arguments": {"folder": str(folder), **arguments}, "_meta": {"progressToken": "t"}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        headers = self.session | {"Accept": accept}
        self._answers: list[Answer] = []
        self._thread = threading.Thread(target=lambda: self._answers.append(hub.send(server, message, headers)))
        self._thread.start()
        until((folder / "began").exists, "the call runs")

    @property
    def answer(self) -> Answer:
        """Return the outcome of the call after its end."""
        self._thread.join(BOUND)
        [answer] = self._answers
        return answer

    @property
    def pid(self) -> int:
        return int((self.folder / "began").read_text())


def exception_seen(folder: Path) -> str:
    """The name of the exception that the tool saw."""
    until((folder / "told").exists, "the tool is told")
    return (folder / "told").read_text()


def cancel(hub: Hub, server: str, session: dict[str, str]) -> None:
    notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert hub.send(server, notification, session).status == 202


def end_session(hub: Hub, server: str, session: dict[str, str]) -> None:
    headers = session | {"Host": "localhost"}
    assert hub.client.delete(f"/mcp/{server}", headers=headers).status_code == 204


@PLACES
@pytest.mark.parametrize("side", [cancel, end_session])
@pytest.mark.parametrize("accept", ["application/json", BOTH])
def test_a_cancelled_call_stops_and_gets_no_answer(
    hub: Hub, tmp_path: Path, server: str, side: Any, accept: str
) -> None:
    """SUB-32, SUB-33, X-19: by a notification, and by the end of its session; as JSON, and on a stream."""
    call = Waiting(hub, server, tmp_path, accept)
    side(hub, server, call.session)
    assert exception_seen(tmp_path) == "Stopped"
    assert call.answer.messages == []


@PLACES
def test_a_tool_learns_that_its_stream_was_closed(hub: Hub, tmp_path: Path, server: str) -> None:
    """SUB-5: in 2026-07-28."""
    params = {"name": "wait", "arguments": {"folder": str(tmp_path)}}
    frames = hub.stream(server, *modern_request("tools/call", params, meta={"progressToken": "t"}))
    next(frames)
    until((tmp_path / "began").exists, "the call runs")
    frames.close()
    assert exception_seen(tmp_path) == "Stopped"


@PLACES
def test_a_timed_out_call_stops_and_is_answered_with_a_timeout(hasty: Hub, tmp_path: Path, server: str) -> None:
    """T12.5, X2."""
    answer = hasty.call(server, "wait", {"folder": str(tmp_path)}, MODERN)
    assert (answer.result["isError"], answer.text.partition(" after ")[0]) == (True, "timed out")
    assert exception_seen(tmp_path) == "Stopped"


@PLACES
def test_an_expired_task_stops(hasty: Hub, tmp_path: Path, server: str) -> None:
    """SPEC-DIGEST 1.14."""
    params = {"name": "wait", "arguments": {"folder": str(tmp_path), "background": True}}
    knows: dict[str, Any] = {"extensions": {TASKS: {}}}
    made = hasty.modern(server, "tools/call", params, knows).result
    assert (made["resultType"], made["ttlMs"]) == ("task", SHORT * 2000)
    assert exception_seen(tmp_path) == "Stopped"
    done = until(
        lambda: (
            found
            if (found := hasty.modern(server, "tasks/get", {"taskId": made["taskId"]}, knows).result)["status"]
            != "working"
            else None
        ),
        "the task ends",
    )
    assert done["result"]["content"][0]["text"].startswith("timed out after")


def test_a_function_that_takes_no_notice_is_killed(hub: Hub, tmp_path: Path) -> None:
    """X-19, X2: after the time in which it may clean up."""
    call = Waiting(hub, "hosted", tmp_path, BOTH, stubborn=True)
    cancel(hub, "hosted", call.session)
    assert exception_seen(tmp_path) == "Stopped"
    assert call.answer.messages == []
    until(lambda: not alive(call.pid), "the process of the tool is gone")


@pytest.mark.process
@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_a_tool_behind_a_pipe_learns_of_ctrl_c_and_answers_nothing(tmp_path: Path, isolation: str) -> None:
    """SUB-5, SUB-37: and it is not a failure."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "piped.py").write_text(TOOLS)
    with started(tmp_path, "piped", "--isolation", isolation, "--writes", str(marks(tmp_path))) as child:
        child.ask("initialize", OPEN)
        child.send("tools/call", {"name": "wait", "arguments": {"folder": str(marks(tmp_path))}}, 2)
        until((marks(tmp_path) / "began").exists, "the call runs")
        child.process.send_signal(signal.SIGINT)
        code, rest, _ = child.ends()
    assert (code, rest) == (exit_codes.OK, b"")
    assert exception_seen(marks(tmp_path)) == "Stopped"


@pytest.mark.process
@pytest.mark.parametrize("isolation", ["inline", "process"])
@pytest.mark.parametrize("way", ["json", "stream", "plain"])
def test_a_call_that_outlasts_the_drain_stops_and_is_answered(tmp_path: Path, isolation: str, way: str) -> None:
    """X22: its answer is not cut off, and the hub ends as it should, after the tool has tidied up."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "draining.py").write_text(TOOLS)
    arguments = {"folder": str(marks(tmp_path)), "tidies": TIDIES}
    meta = {"progressToken": "t"} if way == "stream" else {}
    message, headers = modern_request("tools/call", {"name": "wait", "arguments": arguments}, meta=meta)
    body, path = (arguments, "/draining/wait") if way == "plain" else (message, "/mcp/draining")
    headers |= {"Content-Type": "application/json", "Accept": BOTH if way == "stream" else "application/json"}
    with running(tmp_path, "--drain", "1", "--timeout", "600", "--isolation", isolation) as program:
        connection = http.client.HTTPConnection("127.0.0.1", program.port, timeout=BOUND)
        connection.request("POST", path, json.dumps(body), headers)
        until((marks(tmp_path) / "began").exists, "the call runs")
        program.process.terminate()
        said = connection.getresponse().read().decode()
        connection.close()
        assert program.finished() == 0
    assert "the hub is stopping; it cancelled the call after" in said
    assert exception_seen(marks(tmp_path)) == "Stopped"
