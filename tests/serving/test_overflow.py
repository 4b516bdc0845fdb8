"""A hub whose worker has no free descriptors or connections answers further calls with 503, and recovers."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from patchbay.serving.descriptors import fitting_connections
from patchbay.wire.replies.reply import Reply
from patchbay.wire.requests.work_limits import WorkLimits
from tests.checkout import ROOT
from tests.serving.running import Hub, command
from tests.waiting import until

pytestmark = [pytest.mark.process]

BOUND = 30.0
LIMITED = "import os, resource, sys; n = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))"
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
REQUEST = (
    b"POST /mcp/health HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
)


def asked(port: int) -> bytes:
    """The beginning of what a new connection gets for a call; empty if it is closed without an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=BOUND) as connection:
        connection.sendall(REQUEST)
        try:
            return connection.recv(65536)
        except ConnectionResetError:
            return b""


@pytest.fixture(params=[72, 128])
def limited(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    """A hub that may open so many files: the lower number is little more than it opens."""
    program = f"{LIMITED}; os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
    words = [sys.executable, "-c", program, str(request.param), *command(tmp_path)[1:]]
    with (
        subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        closing(Hub(process, tmp_path)) as hub,
    ):
        yield hub


def test_calls_without_a_free_connection_get_503_with_retry_after_and_no_silence(limited: Hub) -> None:
    """34.8."""
    port = limited.port
    with ExitStack() as held:
        for _ in range(150):
            held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=BOUND))
        answers = [asked(port) for _ in range(5)]
        assert any(b" 503 " in answer for answer in answers), answers
        for answer in answers:
            assert b" 200 " in answer or (b" 503 " in answer and b"retry-after: 5" in answer.lower()), answers
    until(lambda: b" 200 " in asked(port), "the hub answers again")
    assert limited.end() == 0


def test_connections_leave_descriptors_to_calls() -> None:
    """34.8: half of what is free, at most 512."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    fitting = fitting_connections(10**9)
    assert soft // 2 - 512 <= fitting <= soft
    assert fitting_connections(1) == 1


def test_a_request_of_an_open_connection_is_refused_while_no_descriptor_is_free() -> None:
    """34.8."""
    refused = WorkLimits(4, lambda: True).enter("192.0.2.1")
    assert isinstance(refused, Reply) and isinstance(refused.body, bytes)
    assert refused.status == 503 and ("Retry-After", "5") in refused.headers
    assert b"try again later" in refused.body
