"""A call that waits for a mounted server, or for an HTTP API, holds no thread of the hub.

Requirement: issue 38 item 4.
"""

from __future__ import annotations

import http.client
import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.checkout import ROOT
from tests.hubs import BOTH
from tests.interaction.mounts import until_tools_are_listed
from tests.interaction.programs import Hub, free_port, running, running_hub
from tests.waiting import BOUND, until

SERVER = ROOT / "tests" / "interaction" / "waiting_server.py"
API = ROOT / "tests" / "interaction" / "waiting_api.py"
THREADS = 4
CALLS = 12
QUICK = '"""Quick."""\n\n\ndef say(text: str) -> str:\n    """Return the text."""\n    return text\n'


class Caller:
    """One connection to a server of the hub. Its requests may have `further` headers."""

    def __init__(self, hub: Hub, server: str, accept: str, further: dict[str, str] | None = None) -> None:
        parts = urlsplit(hub.endpoint(server))
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=BOUND)
        self._path = parts.path
        self._headers = {"Content-Type": "application/json", "Accept": accept, **(further or {})}

    def send(self, tool: str, arguments: dict[str, Any] | None = None) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        params = {"name": tool, "arguments": arguments or {}}
        self._connection.request("POST", self._path, json.dumps({**message, "params": params}), self._headers)

    def receive(self) -> str:
        """Return the text of the result, from JSON or from the last event of a stream."""
        answer = self._connection.getresponse()
        body = answer.read().decode()
        if answer.headers.get_content_type() == "text/event-stream":
            body = body.rpartition("data: ")[2]
        return str(json.loads(body)["result"]["content"][0]["text"])

    def call(self, tool: str, arguments: dict[str, Any] | None = None) -> str:
        self.send(tool, arguments)
        return self.receive()

    def close(self) -> None:
        self._connection.close()


@contextmanager
def running_upstream(transport: str, folder: Path) -> Iterator[dict[str, str]]:
    """Run the waiting server or API; yield the configuration of its mount."""
    if transport == "stdio":
        yield {"kind": "upstream", "address": f"mcp+stdio:{shlex.join([sys.executable, str(SERVER)])}"}
        return
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    program, ready = (SERVER, f"{url}/mcp") if transport == "http" else (API, f"{url}/count")
    folder.mkdir()
    with running([sys.executable, str(program), str(port)], ready, folder, range(200, 500), (0, -15)):
        if transport == "http":
            yield {"kind": "upstream", "address": ready}
        else:
            yield {"kind": "openapi", "document": f"{url}/openapi.json"}


@pytest.fixture(params=["http", "stdio", "api"])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    """A hub with few threads that mounts the waiting server."""
    files = [tmp_path / "waiting.json", tmp_path / "quick.py"]
    files[1].write_text(QUICK)
    with running_upstream(request.param, tmp_path / "upstream") as configuration:
        files[0].write_text(json.dumps(configuration))
        with running_hub(tmp_path / "hub", files, options=["--threads", str(THREADS)]) as hub:
            until_tools_are_listed(hub.endpoint("waiting"))
            yield hub


@pytest.mark.process
@pytest.mark.parametrize(
    ("accept", "further"),
    [
        pytest.param("application/json", {}, id="json"),
        pytest.param(BOTH, {}, id="stream"),
        pytest.param(BOTH, {"X-Unknown": "1"}, id="stream-by-wsgi"),
    ],
)
def test_more_calls_than_threads_wait_for_a_mounted_server(hub: Hub, accept: str, further: dict[str, str]) -> None:
    """Each of them is answered, and meanwhile the hub answers calls of other servers and of the mounted one."""
    asking, quick = Caller(hub, "waiting", "application/json"), Caller(hub, "quick", "application/json")
    callers: list[Caller] = []
    for number in range(CALLS):
        caller = Caller(hub, "waiting", accept, further)
        caller.send("wait")
        callers.append(caller)
        until(lambda: asking.call("count") == str(number + 1), "the server has the call")  # noqa: B023
        assert quick.call("say", {"text": "hello"}) == "hello"
    assert asking.call("end") == "all"
    assert [caller.receive() for caller in callers] == ["ended"] * CALLS
    for caller in (asking, quick, *callers):
        caller.close()
