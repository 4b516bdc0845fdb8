"""After a change has been acknowledged, every worker lists what is true after it."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.serving.running import Hub, running
from tests.waiting import BOUND

pytestmark = pytest.mark.process

CHANGES = 20
LOOKS = 6
"""How many connections look after each change: enough to reach both workers nearly every time."""


def send(hub: Hub, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    """Send a request on a connection of its own, which any worker may take."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    sent = hub.as_operator() | {"Content-Type": "application/json"} | headers
    try:
        connection.request(method, path, None if body is None else orjson.dumps(body), sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def list_uris(hub: Hub) -> list[str]:
    request = {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
    status, body = send(hub, "POST", "/mcp/hello", request, Accept="application/json, text/event-stream")
    assert status == 200, body
    return [one["uri"] for one in orjson.loads(body)["result"]["resources"]]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_no_list_and_no_page_is_older_than_the_answer_to_a_change_of_mcps(tmp_path: Path, workers: str) -> None:
    folder = tmp_path / "servers"
    folder.mkdir()
    (folder / "hello.py").write_text('def hello() -> str:\n    return "hello"\n')
    with running(tmp_path, "--workers", workers) as hub:
        for number in range(CHANGES):
            uri = f"count://{number}"
            entry = {"auto_discover": True, "resources": {"count": {"uri": uri, "text": "x", "mimeType": "text/plain"}}}
            cid = orjson.loads(send(hub, "POST", "/cid", entry)[1])["cid"]
            status, body = send(hub, "PUT", "/variables/mcps", {"hello": {"config_cid": cid}})
            assert status in (200, 201), body
            assert [list_uris(hub) for _ in range(LOOKS)] == [[uri]] * LOOKS
            pages = [send(hub, "GET", "/servers/hello.json")[1] for _ in range(LOOKS)]
            assert all(uri.encode() in page for page in pages)
