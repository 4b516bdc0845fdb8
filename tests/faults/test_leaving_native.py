"""A client of the native interface closes its connection before the answer: its call is cancelled, in each form.

Source: docs/native.md.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.running import Hub, marks, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

TOOLS = '''
import time
from pathlib import Path

def wait(label: str, folder: str):
    """Wait until the caller leaves, and write down that it left."""
    try:
        Path(folder, label).write_text("waits")
        while True:
            time.sleep(0.01)
            yield
    finally:
        Path(folder, label).write_text("cancelled")
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    (folder / "servers").mkdir()
    (folder / "servers" / "leaving.py").write_text(TOOLS)
    with running(folder, "--timeout", "600") as found:
        yield found


@pytest.mark.parametrize("form", ["application/json", "application/x-ndjson", "text/event-stream"])
def test_a_client_that_closes_its_connection_cancels_its_call(hub: Hub, folder: Path, form: str) -> None:
    mark = marks(folder) / form.rpartition("/")[2]
    params = {"label": mark.name, "folder": str(mark.parent)}
    call = {"jsonrpc": "2.0", "id": 1, "method": "leaving.wait", "params": params}
    sent = json.dumps(call).encode()
    head = f"Host: localhost\r\nContent-Type: application/json\r\nAccept: {form}\r\nContent-Length: {len(sent)}\r\n"
    with socket.create_connection(("127.0.0.1", hub.port), BOUND) as connection:
        connection.sendall(f"POST /rpc HTTP/1.1\r\n{head}\r\n".encode() + sent)
        until(lambda: has_written(mark, "waits"), "the call has begun")
    until(lambda: has_written(mark, "cancelled"), "the call is cancelled")


def has_written(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text
