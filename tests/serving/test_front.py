"""The front of a hub that runs: streams that wait hold no thread, and requests mean what they mean to any WSGI server.

Requirements: SCALE 1, issue 14 item 1; THREATS M12, X5, X6.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from patchbay.wire.requests.work_limits import EXTRA_THREADS
from tests.serving.running import Hub, running, threads_of
from tests.waiting import BOUND, until

THREADS = 8
LISTENERS = 500
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Workers with few threads; comments come so seldom that no test can wait for them."""
    with running(tmp_path_factory.mktemp("front"), "--threads", str(THREADS), "--keepalive", "3600") as found:
        yield found


def post(method: str, params: dict[str, Any], **headers: str) -> bytes:
    """The bytes of one JSON-RPC request to the server echo."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    given = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    return request("POST", "/mcp/echo", {**given, "Content-Length": str(len(body))}) + body


def request(method: str, path: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "Host: 127.0.0.1", "", ""]).encode("latin-1")


def listen() -> bytes:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
    return post("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": META}, **headers)


def sent(hub: Hub, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", hub.port), BOUND)
    connection.sendall(data)
    return connection


def read_until(connection: socket.socket, text: bytes) -> bytes:
    """Everything up to the piece that holds this text."""
    received = b""
    while text not in received:
        piece = connection.recv(65536)
        assert piece, f"the connection ended before {text!r}: {received[-500:]!r}"
        received += piece
    return received


def answer(hub: Hub, data: bytes) -> bytes:
    """Status line, headers and body of the answer to these bytes."""
    with closing(sent(hub, data)) as connection:
        head, _, body = read_until(connection, b"\r\n\r\n").partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        while length is not None and len(body) < int(length[1]):
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body


def session(hub: Hub) -> str:
    """The id of a new session of 2025-11-25."""
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    found = re.search(rb"mcp-session-id: (\S+)", answer(hub, post("initialize", client)))
    assert found is not None
    return found[1].decode()


def listening(hub: Hub) -> int:
    """How many places for listeners the hub says are taken."""
    found = re.findall(rb"^patchbay_listeners_open(?:\{worker=\S+\})? (\d+)", hub.get("/metrics")[1], re.MULTILINE)
    assert found
    return sum(map(int, found))


def test_five_hundred_streams_hold_no_threads(hub: Hub) -> None:
    with ExitStack() as opened:
        streams = [opened.enter_context(closing(sent(hub, listen()))) for _ in range(LISTENERS)]
        for stream in streams:
            read_until(stream, b"notifications/subscriptions/acknowledged")
        assert listening(hub) == LISTENERS
        assert all(threads_of(worker) < THREADS + EXTRA_THREADS + 32 for worker in hub.workers())
        assert b'"result"' in answer(hub, post("tools/list", {}))
        (hub.folder / "servers" / "echo.py").write_text('def other() -> str:\n    """Other."""\n    return "o"\n')
        for stream in streams:
            read_until(stream, b"notifications/tools/list_changed")
    until(lambda: listening(hub) == 0, "the places of readers that left come back without a comment to them")


def test_streams_of_the_older_revisions_hold_no_threads(hub: Hub) -> None:
    sessions = [session(hub) for _ in range(2 * THREADS)]
    with ExitStack() as opened:
        for each in sessions:
            headers = {"Accept": "text/event-stream", "Mcp-Session-Id": each}
            stream = opened.enter_context(closing(sent(hub, request("GET", "/mcp/echo", headers))))
            read_until(stream, b"text/event-stream")
        for _ in range(2 * THREADS):
            path, headers = "/mcp/echo/sse", {"Accept": "text/event-stream"}
            stream = opened.enter_context(closing(sent(hub, request("GET", path, headers))))
            read_until(stream, b"event: endpoint")
        assert listening(hub) == 4 * THREADS
        assert b'"result"' in answer(hub, post("tools/list", {}))
    until(lambda: listening(hub) == 0, "every place is given back")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_hub_that_stops_ends_every_stream(tmp_path: Path, workers: str) -> None:
    with running(tmp_path, "--workers", workers) as hub, ExitStack() as opened:
        streams = [opened.enter_context(closing(sent(hub, listen()))) for _ in range(20)]
        for stream in streams:
            read_until(stream, b"notifications/subscriptions/acknowledged")
        hub.process.terminate()
        for stream in streams:
            assert b"the hub is stopping" in read_until(stream, b"\r\n0\r\n\r\n")
        assert hub.finished() == 0


def test_a_header_that_is_not_ascii_is_seen_as_sent(hub: Hub) -> None:
    """M12: an Origin that the web server cannot read is refused like any other strange one."""
    assert answer(hub, post("ping", {}, Origin="http://ÿ.example")).startswith(b"HTTP/1.1 403 ")


def test_headers_that_come_twice_are_joined(hub: Hub) -> None:
    twice = post("ping", {}).replace(b"\r\nHost: 127.0.0.1", b"\r\nHost: 127.0.0.1\r\nHost: localhost")
    assert answer(hub, twice).startswith(b"HTTP/1.1 400 ")


def test_a_header_with_an_underscore_is_not_taken_for_another(hub: Hub) -> None:
    assert answer(hub, post("ping", {}, Content_Type="text/plain")).startswith(b"HTTP/1.1 400 ")


def test_a_path_that_is_not_utf8_is_not_found(hub: Hub) -> None:
    assert answer(hub, request("GET", "/servers/%ff%fe", {})).startswith(b"HTTP/1.1 404 ")


def test_a_body_in_chunks_is_read_whole_and_no_further_than_the_limit(hub: Hub) -> None:
    head, body = post("ping", {}).split(b"\r\n\r\n", 1)
    head = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head)
    pieces = [body[:10], body[10:11], body[11:]]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    assert b'"result":{}' in answer(hub, head + b"\r\n\r\n" + chunks + b"0\r\n\r\n")
    endless = b"%x\r\n%s\r\n" % (1024 * 1024, b" " * 1024 * 1024) * 4 + b"1\r\n \r\n0\r\n\r\n"
    assert answer(hub, head + b"\r\n\r\n" + endless).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_ends_early_is_refused(hub: Hub) -> None:
    with closing(sent(hub, post("ping", {})[:-1])) as connection:
        connection.shutdown(socket.SHUT_WR)
        received = connection.recv(65536)
    assert received == b"" or received.startswith(b"HTTP/1.1 400 ")


def test_slow_bodies_hold_no_threads(hub: Hub) -> None:
    """X5: more of them than there are threads, and the hub answers others."""
    with ExitStack() as opened:
        for _ in range(THREADS + EXTRA_THREADS + 20):
            opened.enter_context(closing(sent(hub, post("ping", {})[:-1])))
        assert b'"result"' in answer(hub, post("tools/list", {}))
