"""What callers get from a hub that ends: their answers, and the ends of their streams (THREATS M4, M5, X22)."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.serving.running import Hub, marks, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

WAITING = '''
import threading
from pathlib import Path

def wait(started: str, go: str) -> str:
    """Say that the call runs, then wait until it may go on."""
    Path(started).touch()
    while not Path(go).exists():
        threading.Event().wait(0.02)
    return "finished"
'''

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@contextmanager
def asked(hub: Hub, verb: str, path: str, body: Any = None, **headers: str) -> Iterator[http.client.HTTPConnection]:
    """A connection that has sent one request."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    try:
        sent = None if body is None else json.dumps({"jsonrpc": "2.0", "id": 1, **body})
        connection.request(verb, path, sent, HEADERS | headers)
        yield connection
    finally:
        connection.close()


def session(hub: Hub) -> str:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    with asked(hub, "POST", "/mcp/echo", {"method": "initialize", "params": params}) as connection:
        answer = connection.getresponse()
        answer.read()
        return answer.headers["Mcp-Session-Id"]


def test_a_running_call_gets_its_answer(tmp_path: Path) -> None:
    """X22: the call ends after the stop signal, and its answer is whole."""
    started, go = marks(tmp_path) / "started", marks(tmp_path) / "go"
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "waiting.py").write_text(WAITING)
    arguments = {"started": str(started), "go": str(go)}
    call = {"method": "tools/call", "params": {"name": "wait", "arguments": arguments}}
    with running(tmp_path) as hub, asked(hub, "POST", "/mcp/waiting", call) as connection:
        until(started.exists, "the call runs")
        hub.process.terminate()
        until(lambda: not hub.accepts(), "no new connection is taken")
        go.touch()
        assert b"finished" in connection.getresponse().read()
        assert hub.finished() == 0


def test_listening_streams_end_by_themselves(tmp_path: Path) -> None:
    """M4, M5: a stream without an end does not hold the hub up."""
    with running(tmp_path) as hub:
        headers = {"Mcp-Session-Id": session(hub), "Accept": "text/event-stream"}
        with asked(hub, "GET", "/mcp/echo", **headers) as connection:
            stream = connection.getresponse()
            assert stream.status == 200
            hub.process.terminate()
            stream.read()
            assert hub.finished() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_further_stop_signals_change_no_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    """A service manager and a person at a keyboard may send a signal more than once, at any moment up to the end."""

    def stops() -> bool:
        for _ in range(1000):
            hub.process.send_signal(number)
        return hub.process.poll() is not None

    with running(tmp_path) as hub:
        until(stops, "the hub ends")
        assert hub.finished() == 0
