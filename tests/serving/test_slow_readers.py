"""Clients that do not read, do not send, or do nothing: a hub as a program gets back what they hold.

THREATS X5, X6, M9, M17.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import modern_request
from tests.serving.holding import back_to, held
from tests.serving.running import ONE_WORKER, Hub, Worker, marks, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

FLOOD = '''
import threading
from pathlib import Path

def flood(label: str, folder: str):
    """Send more than a client reads, until cancelled."""
    Path(folder, label + ".began").touch()
    try:
        while True:
            yield "x" * 32768
    finally:
        Path(folder, label + ".ended").touch()

def wait(folder: str) -> str:
    """Wait until it may go on."""
    while not Path(folder, "go").exists():
        threading.Event().wait(0.02)
    return "finished"

def much(kilobytes: int) -> list[str]:
    """Answer with many texts, each short enough to stay."""
    return ["x" * 65536] * (kilobytes // 64)
'''

NEVER = "600"
"""Seconds after which nothing here happens."""

PATIENT = 5
"""Seconds that a reader may take nothing: a busy machine keeps the slow reader here from its next read for less."""

SMALL = 8192
"""Bytes that the system may hold for a reader that is to be slow."""

PARTIAL = b'{"jsonrpc": "2.0", '


@contextmanager
def flooding(folder: Path, *arguments: str) -> Iterator[Hub]:
    """A hub with a tool that floods, and one that waits; neither is over by itself."""
    (folder / "servers").mkdir()
    (folder / "servers" / "flood.py").write_text(FLOOD)
    with running(folder, "--timeout", NEVER, *arguments) as hub:
        yield hub
        assert hub.end() == 0


def connected(hub: Hub, room: int | None = None) -> socket.socket:
    """A connection; `room` is how many bytes the system may hold for it."""
    connection = socket.socket()
    if room is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    connection.settimeout(BOUND)
    connection.connect(("127.0.0.1", hub.port))
    return connection


def head(length: int, **headers: str) -> bytes:
    """Everything of a POST before its body."""
    known = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Content-Length": str(length),
        "Accept": "application/json, text/event-stream",
    }
    lines = [f"{name}: {value}" for name, value in (known | headers).items()]
    return "\r\n".join(["POST /mcp/flood HTTP/1.1", *lines, "", ""]).encode()


def call(connection: socket.socket, tool: str, arguments: dict[str, Any], **headers: str) -> None:
    """Send one call, and do not wait for its answer."""
    message, own = modern_request("tools/call", {"name": tool, "arguments": arguments}, meta={"progressToken": 1})
    body = json.dumps(message).encode()
    connection.sendall(head(len(body), **(own | headers)) + body)


def rest(connection: socket.socket) -> bytes:
    """All that still comes, to the end of the connection."""
    received = bytearray()
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass  # an end too
    return bytes(received)


def flooded(hub: Hub, marks: Path, labels: list[str]) -> ExitStack:
    """Open one flood for each label, without reading any."""
    readers = ExitStack()
    for label in labels:
        reader = readers.enter_context(connected(hub))
        call(reader, "flood", {"label": label, "folder": str(marks)})
    until(lambda: all((marks / f"{label}.began").exists() for label in labels), "every flood has begun")
    return readers


def served(hub: Hub) -> bool:
    """Whether others are served; it fails when the hub refuses them, or does not answer within `BOUND`."""
    assert hub.get("/readyz")[0] == 200
    return True


def sat_out(hub: Hub, marks: Path) -> int:
    """Wait until twelve unread floods were stopped; return the memory of the worker before that."""
    marks.mkdir()
    labels = [str(number) for number in range(12)]
    with flooded(hub, marks, labels[:8]):
        flooded(hub, marks, labels[8:]).close()  # these vanish
        memory = Worker(hub).memory()
        until(lambda: served(hub) and len(list(marks.glob("*.ended"))) == 12, "every tool was told")
    return memory


def test_memory_of_readers_that_do_not_read_is_freed(tmp_path: Path) -> None:
    """X6, M9: threads, descriptors and memory; every tool is cancelled, and other clients are served meanwhile."""
    # One worker: its memory is compared with what it was before.
    with flooding(tmp_path, "--write-timeout", "1", *ONE_WORKER) as hub:
        worker = Worker(hub)
        assert hub.get("/readyz")[0] == 200
        before = held(worker)
        most = [sat_out(hub, marks(tmp_path) / name) for name in ("first", "second", "third")]
        # Freed memory does not always return to the system, but the worker uses it again.
        assert worker.memory() < max(most[:2]) * 1.2
        back_to(before, worker)
        hub.line_with("its client has not read for 1 s")  # the log has one line of a kind in a minute


def test_a_slow_reader_is_waited_for(tmp_path: Path) -> None:
    """X6: it takes a little again and again, for longer than it may take nothing."""
    with flooding(tmp_path, "--write-timeout", str(PATIENT)) as hub, connected(hub, SMALL) as reader:
        call(reader, "flood", {"label": "slow", "folder": str(marks(tmp_path))})
        end, pause = time.monotonic() + 1.5 * PATIENT, threading.Event()
        while time.monotonic() < end:
            assert reader.recv(SMALL), "the stream goes on"
            pause.wait(0.2)
        assert not (marks(tmp_path) / "slow.ended").exists()
        until((marks(tmp_path) / "slow.ended").exists, "the tool was told once its reader took nothing any more")


def test_a_reader_that_does_not_take_its_json_is_cut_off(tmp_path: Path) -> None:
    """X6: no thread waits for it, only its answer."""
    with flooding(tmp_path, "--write-timeout", "1") as hub, connected(hub, SMALL) as reader:
        call(reader, "much", {"kilobytes": 4096}, Accept="application/json")
        hub.line_with("its client has not read for 1 s")
        assert len(rest(reader)) < 4096 * 1024


@pytest.mark.parametrize("more", [b"", b" "], ids=["silent", "dripping"])
def test_a_request_that_does_not_arrive_is_answered_with_408(tmp_path: Path, more: bytes) -> None:
    """M17, X17: and the connection is closed. Nothing of it is done."""
    with flooding(tmp_path, "--idle-timeout", "1", "--keepalive", "0.2") as hub, connected(hub) as sender:
        sender.sendall(head(1000) + PARTIAL)
        pause, over = threading.Event(), threading.Event()

        def drip() -> None:
            while more and not over.is_set():
                try:
                    sender.sendall(more)
                except OSError:
                    return  # closed by the hub
                pause.wait(0.1)

        dripping = threading.Thread(target=drip)
        dripping.start()
        answer = rest(sender)
        over.set()
        dripping.join(BOUND)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"of 1000 bytes (setting idle_timeout)" in answer


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    """M17: whether it brought a request before, or none."""
    hub_of = flooding(tmp_path, "--idle-timeout", "1", "--keepalive", "0.2")
    with hub_of as hub, connected(hub) as used, connected(hub) as unused:
        used.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert rest(used).startswith(b"HTTP/1.1 200 ")
        assert rest(unused) == b""


def test_a_call_that_takes_its_time_is_not_idle(tmp_path: Path) -> None:
    """M17: nor is a stream that has nothing to say."""
    # One worker: a worker spares the silent connections of an address only beside a call that it runs itself.
    hub_of = flooding(tmp_path, "--idle-timeout", "0.5", "--keepalive", "0.3", *ONE_WORKER)
    with hub_of as hub, connected(hub) as caller, connected(hub) as listener, connected(hub) as idle:
        call(caller, "wait", {"folder": str(marks(tmp_path))}, Accept="application/json")
        message, own = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        body = json.dumps(message).encode()
        listener.sendall(head(len(body), **own) + body)
        assert listener.recv(65536).startswith(b"HTTP/1.1 200 ")
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert listener.recv(65536), "the stream goes on"
        idle.setblocking(False)
        with pytest.raises(BlockingIOError):
            idle.recv(1)  # the hub cannot know that the caller did not cause it
        idle.settimeout(BOUND)
        (marks(tmp_path) / "go").touch()
        answer = rest(caller)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"finished" in answer
        assert rest(idle) == b""
