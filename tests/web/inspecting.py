"""Shared parts of the tests of `/inspect`: a hub to inspect, a hub that inspects, a port that records connections."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from werkzeug.test import TestResponse

from tests.hubs import Hub
from tests.serving.running import running
from tests.web.browsing import BROWSER
from tests.web.pages.test_safety import hostile_files
from tests.wire.hostile import Reader

HERE = BROWSER | {"Sec-Fetch-Site": "same-origin"}

FAR = '''"""A town far away."""

import time


def visit(place: str, context) -> str:
    """Go somewhere."""
    context.log(f"on the way to {place}")
    return f"was in {place}"


def ask(context) -> str:
    """Ask who is there."""
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    return str(context.elicit("Who?", form, key="who"))


def wait(context) -> str:
    """Wait until no caller uses it."""
    turn = 0
    while not context.cancelled:
        turn += 1
        context.progress(turn)
        time.sleep(0.02)
    return "stopped"
'''


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of another hub."""
    folder = tmp_path_factory.mktemp("far")
    (folder / "servers").mkdir()
    config = {
        "auto_discover": True,
        "title": "Far",
        "instructions": "Ask first.",
        "prompts": {"p": {"messages": [{"content": "Go"}]}},
    }
    for name, text in {**hostile_files(), "far.py": FAR, "far.mcp.json": json.dumps(config)}.items():
        (folder / "servers" / name).write_text(text)
    with running(folder) as hub:
        yield f"http://127.0.0.1:{hub.port}/mcp/far"
        assert hub.end() == 0


def closed(hub: Hub) -> None:
    hub.app.parts.for_pages.inspected_servers.close()
    hub.close()


@pytest.fixture
def looker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CANARY", "canary-7f3a")
    hub = Hub(tmp_path).log_in()
    yield hub
    closed(hub)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port that records connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def place(server: socket.socket) -> str:
    return f"http://127.0.0.1:{server.getsockname()[1]}/mcp"


def has_no_connection(server: socket.socket) -> bool:
    try:
        server.accept()
    except BlockingIOError:
        return True
    return False


def csrf(hub: Hub) -> str:
    found = re.search(r'name="csrf" value="([^"]*)"', hub.client.get("/inspect", headers=HERE).text)
    assert found
    return found[1]


def press(hub: Hub, path: str = "/inspect", **fields: str) -> TestResponse:
    """Send a form of the page."""
    return hub.client.post(path, data={"csrf": csrf(hub), **fields}, headers=HERE)


def inspected(hub: Hub, address: str) -> str:
    """The page after the button was pressed."""
    answer = press(hub, address=address)
    assert answer.status_code == 303, answer.text
    return hub.client.get(answer.headers["Location"], headers=HERE).text


def page_text(html: str) -> str:
    return " ".join(Reader(html).text.split())


def program(hub: Hub, address: str, **more: Any) -> dict[str, Any]:
    """What a program of the operator reads."""
    query = {"address": address, **more}
    answer = hub.app.test_client().get("/inspect.json", query_string=query, headers=bearer(hub))
    assert answer.status_code == 200
    found: dict[str, Any] = orjson.loads(answer.get_data())
    return found


def bearer(hub: Hub) -> dict[str, str]:
    """The header that proves a program to be the operator's."""
    return {"Authorization": f"Bearer {hub.token}"}


def answering(server: socket.socket, answer: bytes) -> Callable[[], None]:
    """Give all requests one answer, in a thread; return the function that ends it."""

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown(socket.SHUT_RDWR)
        thread.join()

    return stop
