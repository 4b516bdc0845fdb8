"""A thousand clients that leave in mid-stream, each after so many bytes as chance has it (THREATS X4).

In 2026-07-28 leaving is cancelling: the tool is told within two seconds. Before it, a call goes on without its reader.
The seconds are counted in the steps of the tool, which a busy machine slows down as much as it slows the hub.
Afterwards the hub holds what it held before: threads, descriptors and processes.
"""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import modern_request
from tests.serving.holding import back_to, held
from tests.serving.running import ONE_WORKER, Hub, Worker, marks, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

LEAVERS = 500
"""Clients of each era."""

AT_ONCE = 16

MIN_STEPS, STEPS_MOST = 1000, 5000
"""Steps that a tool may go on after its caller left: 2 s of them for half of the calls, 10 s of them for each."""

NEVER = "600"
"""Seconds of a call's deadline: no call here ends by it."""

MOST = 6000
"""Bytes that a client reads at most; the answer to `count` has more."""

BEGAN = b"notifications/progress"
"""What the tools here say first."""

TOOLS = '''
import itertools
import time
from pathlib import Path

def count(label: str, folder: str, context):
    """Count until the caller leaves."""
    try:
        for number in itertools.count():
            context.progress(number + 1, message="x" * 80)
            time.sleep(0.002)
    finally:
        Path(folder, label).write_text(str(number))

def finish(label: str, folder: str, context) -> str:
    """Count a little and write down that it came to its end."""
    for number in range(30):
        context.progress(number + 1, message="x" * 80)
        time.sleep(0.002)
    Path(folder, label).write_text("finished")
    return "finished"
'''


def left(hub: Hub, body: dict[str, Any], headers: dict[str, str], most: int) -> int:
    """Post a message, read so many bytes of the answer at most, and leave; how many steps were read."""
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
        # a client that leaves before the tool began is not counted by the tool.
        while (len(read) < most or BEGAN not in read) and (piece := connection.recv(max(most - len(read), 1024))):
            read += piece
    return read.count(BEGAN)


def modern(hub: Hub, folder: Path, label: str, most: int) -> int:
    """Leave a call of 2026-07-28; how many of its steps were read."""
    params = {"name": "count", "arguments": {"label": label, "folder": str(folder)}}
    return left(hub, *modern_request("tools/call", params, meta={"progressToken": 1}), most)


def legacy(hub: Hub, folder: Path, label: str, most: int) -> int:
    """Leave a call of 2025-11-25; how many of its steps were read."""
    params = {
        "name": "finish",
        "arguments": {"label": label, "folder": str(folder)},
        "_meta": {"progressToken": 1},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return left(hub, call, {"MCP-Protocol-Version": "2025-11-25"}, most)


def crowd(hub: Hub, leave: Any, folder: Path, clients: int) -> dict[str, int]:
    """So many clients that leave; how many steps each had read, by its label."""
    folder.mkdir()
    chance = random.Random(clients)
    plan = {str(number): chance.randrange(1, MOST) for number in range(clients)}
    with ThreadPoolExecutor(AT_ONCE) as threads:
        leaving = {label: threads.submit(leave, hub, folder, label, most) for label, most in plan.items()}
    return {label: each.result() for label, each in leaving.items()}


def written(folder: Path, labels: Iterable[str]) -> bool:
    """Whether every call has written its line."""
    return all((folder / label).is_file() and (folder / label).read_text() for label in labels)


def test_a_thousand_clients_leave_in_mid_stream_and_nothing_is_left_of_them(tmp_path: Path) -> None:
    """X4, SUB-5: tools of modern clients are cancelled in time, tools of older clients run to their end."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "leaving.py").write_text(TOOLS)
    # One worker: what it holds is compared with what it held before the clients left.
    with running(tmp_path, "--hosts", str(AT_ONCE), "--timeout", NEVER, *ONE_WORKER) as hub:
        worker = Worker(hub)
        # The processes and threads that so many callers need are part of the start, and there will never be more.
        warm = crowd(hub, legacy, marks(tmp_path) / "warm", 8 * AT_ONCE)
        until(lambda: written(marks(tmp_path) / "warm", warm), "the first calls are over")
        before = held(worker)

        gone = crowd(hub, modern, marks(tmp_path) / "modern", LEAVERS)
        until(lambda: written(marks(tmp_path) / "modern", gone), "every tool was told that its caller left")
        steps = [int((marks(tmp_path) / "modern" / label).read_text()) - read for label, read in gone.items()]
        assert max(steps) < STEPS_MOST and sorted(steps)[len(steps) // 2] < MIN_STEPS

        stayed = crowd(hub, legacy, marks(tmp_path) / "legacy", LEAVERS)
        until(lambda: written(marks(tmp_path) / "legacy", stayed), "every call went on to its end")

        back_to(before, worker)
        assert hub.end() == 0
