"""One key opens WebSockets without end, and sends frames without end: others are answered, and the log stays short.

Sources: CWE-770 (allocation without limits); RFC 6455 section 5.5.2.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect

from patchbay.wire.front.sockets import ABORT
from tests.serving.running import ONE_WORKER, Hub, running
from tests.waiting import BOUND, until

LISTENERS = 400
MOST = LISTENERS // 20
PINGS = Frame(Opcode.PING, b"").serialize(mask=True) * 20_000

pytestmark = [pytest.mark.process]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("hub")
    with running(folder, "--access", "shared", "--listeners", str(LISTENERS), *ONE_WORKER) as started:
        yield started


def make_key(hub: Hub, name: str) -> str:
    headers = {"Accept": "application/json", **hub.as_operator()}
    form = {"do": "make", "name": name}
    return str(httpx2.post(f"http://127.0.0.1:{hub.port}/access/keys", data=form, headers=headers).json()["token"])


def opened(hub: Hub, key: str) -> ClientConnection:
    address = f"ws://127.0.0.1:{hub.port}/rooms/lobby/ws"
    headers = {"Authorization": f"Bearer {key}"}
    return connect(address, additional_headers=headers, open_timeout=BOUND, close_timeout=BOUND)


def upgrade(key: str) -> bytes:
    """The request for a WebSocket, for a client that sends frames by itself."""
    lines = ["GET /rooms/lobby/ws HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]
    return "\r\n".join([*lines, f"Authorization: Bearer {key}", "", ""]).encode()


def listening(hub: Hub) -> int:
    page = httpx2.get(f"http://127.0.0.1:{hub.port}/metrics", headers=hub.as_operator(), timeout=BOUND).text
    return sum(map(int, re.findall(r"^patchbay_listeners_open(?:\{worker=\S+\})? (\d+)", page, re.MULTILINE)))


def test_a_key_has_a_limit_of_websockets_and_others_have_theirs(hub: Hub) -> None:
    greedy, other = make_key(hub, "greedy"), make_key(hub, "other")
    with ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(opened(hub, greedy))
        with pytest.raises(InvalidStatus) as refused, opened(hub, greedy):
            pass
        assert refused.value.response.status_code == 429
        stack.enter_context(opened(hub, other))
        assert listening(hub) == MOST + 1
    until(lambda: listening(hub) == 0, "the places come back")
    with opened(hub, greedy) as again:
        assert again.ping().wait(BOUND)


def test_storms_of_pings_whose_senders_leave_write_few_lines(hub: Hub) -> None:
    """The senders read no pong, and leave with a reset: the hub stops to answer at the first failure."""
    key = make_key(hub, "stormy")
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", hub.port), BOUND) as connection:
            connection.sendall(upgrade(key))
            assert b" 101 " in connection.recv(65536)
            with suppress(OSError):
                connection.sendall(PINGS)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
    until(lambda: listening(hub) == 0, "the hub has noticed that all of them left")
    assert sum("socket.send() raised exception" in line for line in hub.lines) <= 1
