"""A thousand clients that leave in mid-stream, each after so many bytes as chance has it (THREATS X4).

In 2026-07-28 leaving is cancelling: the tool is told within two seconds. Before it, a call goes on without its reader.
Afterwards the hub holds what it held before: threads, descriptors and processes.
"""

from __future__ import annotations

import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import modern_request
from tests.serving.holding import back_to, held
from tests.serving.running import BOUND, Hub, Worker, marks, running, until

pytestmark = pytest.mark.process

LEAVERS = 500
"""Clients of each era."""

AT_ONCE = 16

TOLD = 2.0
"""Seconds within which a tool has to hear that its caller left."""

SPARE = 8.0
"""Seconds more that a machine with everything else going on may need."""

MOST = 6000
"""Bytes that a client reads at most; the answer to `count` has more."""

BEGAN = b"notifications/progress"
"""What the tools here say first."""

TOOLS = '''
import time
from pathlib import Path

def count(label: str, folder: str, context):
    """Count for as long as somebody wants to hear it."""
    try:
        for number in range(20_000):
            context.progress(number + 1, message="x" * 80)
            time.sleep(0.002)
    finally:
        Path(folder, label).write_text(str(time.time()))

def finish(label: str, folder: str, context) -> str:
    """Count a little and write down that it came to its end."""
    for number in range(30):
        context.progress(number + 1, message="x" * 80)
        time.sleep(0.002)
    Path(folder, label).write_text("finished")
    return "finished"
'''


def left(hub: Hub, body: dict[str, Any], headers: dict[str, str], most: int) -> tuple[float, bytes]:
    """Post a message, read so many bytes of the answer at most, and leave; when that was, and what was read."""
    sent = json.dumps(body).encode()
    known = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(sent)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in (known | headers).items())
    with socket.create_connection(("127.0.0.1", hub.port), BOUND) as connection:
        connection.sendall(f"POST /mcp/leaving HTTP/1.1\r\n{head}\r\n".encode() + sent)
        read = bytearray()
        # The head is sent after a quarter of a second, and a process that has to be started may take longer than that:
        # who leaves before the tool began is none of those that it is told of.
        while (len(read) < most or BEGAN not in read) and (piece := connection.recv(max(most - len(read), 1024))):
            read += piece
    return time.time(), bytes(read)


def modern(hub: Hub, folder: Path, label: str, most: int) -> float:
    """Leave a call of 2026-07-28; when that was."""
    arguments = {"label": label, "folder": str(folder)}
    at, _ = left(
        hub, *modern_request("tools/call", {"name": "count", "arguments": arguments}, meta={"progressToken": 1}), most
    )
    return at


def legacy(hub: Hub, folder: Path, label: str, most: int) -> float:
    """Leave a call of 2025-11-25; when that was."""
    params = {
        "name": "finish",
        "arguments": {"label": label, "folder": str(folder)},
        "_meta": {"progressToken": 1},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    at, _ = left(hub, call, {"MCP-Protocol-Version": "2025-11-25"}, most)
    return at


def crowd(hub: Hub, leave: Any, folder: Path, clients: int) -> dict[str, float]:
    """So many clients that leave; when each did, by its label."""
    folder.mkdir()
    chance = random.Random(clients)
    plan = {str(number): chance.randrange(1, MOST) for number in range(clients)}
    with ThreadPoolExecutor(AT_ONCE) as threads:
        leaving = {label: threads.submit(leave, hub, folder, label, most) for label, most in plan.items()}
    return {label: each.result() for label, each in leaving.items()}


def written(folder: Path, labels: dict[str, float]) -> bool:
    """Whether every call has written its line."""
    return all((folder / label).is_file() and (folder / label).read_text() for label in labels)


def test_a_thousand_clients_leave_in_mid_stream_and_nothing_is_left_of_them(tmp_path: Path) -> None:
    """X4, SUB-5: the modern ones' tools are told in time, the older ones' come to their end."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "leaving.py").write_text(TOOLS)
    with running(tmp_path, "--hosts", str(AT_ONCE)) as hub:
        worker = Worker(hub)
        # The processes and threads that so many callers need are part of the start, and there will never be more.
        warm = crowd(hub, legacy, marks(tmp_path) / "warm", 8 * AT_ONCE)
        until(lambda: written(marks(tmp_path) / "warm", warm), "the first calls are over")
        before = held(worker)

        gone = crowd(hub, modern, marks(tmp_path) / "modern", LEAVERS)
        until(lambda: written(marks(tmp_path) / "modern", gone), "every tool was told that its caller left")
        waits = [float((marks(tmp_path) / "modern" / label).read_text()) - at for label, at in gone.items()]
        assert max(waits) < TOLD + SPARE and sorted(waits)[len(waits) // 2] < TOLD

        stayed = crowd(hub, legacy, marks(tmp_path) / "legacy", LEAVERS)
        until(lambda: written(marks(tmp_path) / "legacy", stayed), "every call went on to its end")

        back_to(before, worker)
        assert hub.end() == 0
