"""WebSockets of a hub that runs, spoken to by the client of the `websockets` package, with one worker and with two.

Requirements: SCALE 1 (what waits lives on the event loop), ROOMS 3, RFC 6455.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect

from tests.checkout import ROOT
from tests.serving.running import Hub, Worker
from tests.waiting import BOUND, until

KEEPALIVE = 0.2


@contextmanager
def echoing(folder: Path, **settings: Any) -> Iterator[Hub]:
    """A hub with the routes of `echo_hub.py`."""
    (folder / "marks").mkdir()
    (folder / "servers").mkdir()
    given = {name: str(folder / name) for name in ("data", "servers", "marks")}
    program = [sys.executable, "-m", "tests.serving.echo_hub", json.dumps({**given, **settings})]
    with (
        subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        closing(Hub(process, folder)) as hub,
    ):
        yield hub


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("echo")
    with echoing(folder, workers=request.param, body_limit=100_000, keepalive=KEEPALIVE) as found:
        yield found


def opened(hub: Hub, path: str = "/echo/some", **options: Any) -> ClientConnection:
    given = {"open_timeout": BOUND, "close_timeout": BOUND, **options}
    connection: ClientConnection = connect(f"ws://127.0.0.1:{hub.port}{path}", **given)
    return connection


def closed_with(connection: ClientConnection) -> tuple[int, str]:
    """Code and reason of the close that the hub sends."""
    with pytest.raises(ConnectionClosed) as found:
        while True:
            connection.recv(BOUND)
    assert found.value.rcvd is not None, "the hub closed the connection without saying why"
    return found.value.rcvd.code, found.value.rcvd.reason


def refused(hub: Hub, path: str, **options: Any) -> int:
    """The status by which the hub refuses to open a WebSocket."""
    with pytest.raises(InvalidStatus) as found:
        opened(hub, path, **options)
    return found.value.response.status_code


def test_messages_come_back_in_order_and_text_is_text(hub: Hub) -> None:
    with opened(hub) as connection:
        texts = [f"{number} ü" for number in range(500)]
        for text in texts:
            connection.send(text)
        assert [connection.recv(BOUND) for _ in texts] == texts
        connection.send(b"123")
        assert connection.recv(BOUND) == "3 bytes"
        connection.send(["in ", "three ", "pieces"])
        assert connection.recv(BOUND) == "in three pieces"


def test_a_session_knows_the_request_it_came_from(hub: Hub) -> None:
    with opened(hub, "/echo/other?room=a%20b", user_agent_header="test/1") as connection:
        connection.send("who")
        assert json.loads(connection.recv(BOUND)) == {
            "path": "/echo/other",
            "query": "room=a%20b",
            "client": "127.0.0.1",
            "name": "other",
            "user-agent": "test/1",
        }


def test_a_session_closes_with_a_code_and_a_reason(hub: Hub) -> None:
    with opened(hub) as connection:
        connection.send("close")
        assert closed_with(connection) == (1011, "a bad frame")


def test_a_session_that_fails_closes_with_1011_and_the_log_says_why(hub: Hub) -> None:
    with opened(hub) as connection:
        connection.send("fail")
        assert closed_with(connection)[0] == 1011
    assert "a session that fails" in hub.line_with("a WebSocket is closed: its session failed")


def test_a_message_that_is_too_large_closes_with_1009(hub: Hub) -> None:
    with opened(hub) as connection:
        connection.send("x" * 100_000)
        assert connection.recv(BOUND) == "x" * 100_000
        connection.send("x" * 100_001)
        assert closed_with(connection)[0] == 1009


def test_a_text_that_is_not_utf8_closes_with_1007(hub: Hub) -> None:
    with opened(hub) as connection:
        connection.send(b"\xff\xfe", text=True)
        assert closed_with(connection)[0] == 1007


def test_a_session_learns_that_its_connection_was_closed(hub: Hub) -> None:
    mark = hub.folder / "marks" / "gone"
    with opened(hub, "/echo/gone") as connection:
        connection.send("here")
        connection.recv(BOUND)
        assert not mark.exists()
    until(mark.exists, "the session learns that the WebSocket is closed")


def test_a_session_learns_that_its_connection_was_lost(hub: Hub) -> None:
    mark = hub.folder / "marks" / "torn"
    with opened(hub, "/echo/torn") as connection:
        connection.socket.shutdown(socket.SHUT_RDWR)
        until(mark.exists, "the session learns that the connection is gone")


def test_the_hub_pings_and_keeps_a_connection_that_answers(hub: Hub) -> None:
    pings = threading.Semaphore(0)

    class Counting(ClientConnection):
        def process_event(self, event: Any) -> None:
            if isinstance(event, Frame) and event.opcode is Opcode.PING:
                pings.release()
            super().process_event(event)

    with opened(hub, create_connection=Counting) as connection:
        assert all(pings.acquire(timeout=BOUND) for _ in range(3))
        connection.send("still here")
        assert connection.recv(BOUND) == "still here"


def test_requests_are_checked_as_those_of_http(hub: Hub) -> None:
    assert refused(hub, "/echo/some", origin="https://elsewhere.example") == 403
    assert refused(hub, "/echo/some", additional_headers={"X-Forwarded-For": "192.0.2.1"}) == 401
    assert refused(hub, "/echo/some", additional_headers={"Sec-Fetch-Site": "cross-site"}) == 403
    with socket.create_connection(("127.0.0.1", hub.port)) as own:
        foreign = connect
        with pytest.raises(InvalidStatus) as found:
            foreign("ws://elsewhere.example/echo/some", sock=own)
        assert found.value.response.status_code == 421
    with opened(hub, origin=f"http://127.0.0.1:{hub.port}") as connection:
        connection.send("own origin")
        assert connection.recv(BOUND) == "own origin"


def test_a_path_without_a_route_is_refused(hub: Hub) -> None:
    assert refused(hub, "/echo/NONE") >= 400
    assert refused(hub, "/") >= 400
    assert refused(hub, "/mcp/echo") >= 400
    assert hub.get("/echo/some")[0] == 426


def test_a_websocket_takes_a_place_for_listeners_and_gives_it_back(tmp_path: Path) -> None:
    with echoing(tmp_path, listeners=1) as hub:
        with opened(hub, "/echo/first"):
            assert refused(hub, "/echo/second") == 503
        until((hub.folder / "marks" / "first").exists, "the first is over")
        with opened(hub) as connection:
            connection.send("now")
            assert connection.recv(BOUND) == "now"


def test_open_websockets_hold_no_threads(tmp_path: Path) -> None:
    with echoing(tmp_path) as hub, ExitStack() as opened_ones:
        with opened(hub) as connection:
            connection.send("first")
            connection.recv(BOUND)
        worker = Worker(hub)
        before = worker.threads()
        for _ in range(100):
            opened_ones.enter_context(opened(hub))
        assert worker.threads() < before + 50


def test_a_drain_closes_with_1001(tmp_path: Path) -> None:
    with echoing(tmp_path) as hub, opened(hub) as connection:
        hub.process.send_signal(signal.SIGTERM)
        assert closed_with(connection) == (1001, "the hub is stopping")
        assert hub.finished() == 0


def test_a_reader_that_leaves_too_much_unread_is_cut_off(tmp_path: Path) -> None:
    with echoing(tmp_path) as hub, opened(hub, "/echo/slow", max_queue=1, close_timeout=0.1) as connection:
        connection.send("flood 1000")
        until((hub.folder / "marks" / "slow").exists, "the reader is cut off")
        hub.line_with("left more than")


def test_an_end_that_answers_no_ping_is_cut_off(tmp_path: Path) -> None:
    with echoing(tmp_path, keepalive=KEEPALIVE, write_timeout=0.5) as hub, closing(handshaken(hub)):
        until((hub.folder / "marks" / "mute").exists, "the silent end is cut off")


def handshaken(hub: Hub) -> socket.socket:
    """A WebSocket whose other end reads nothing and answers nothing."""
    head = "GET /echo/mute HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    own = socket.create_connection(("127.0.0.1", hub.port), BOUND)
    own.sendall(f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==\r\n\r\n".encode())
    assert own.recv(4096).startswith(b"HTTP/1.1 101 ")
    return own
