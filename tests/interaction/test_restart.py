"""The hub is killed and started again on the same data, and a session of 2025-11-25 goes on where it was.

The hub stores each message before sending it, so that a client that lost some of it gets it by its last event id, from
whichever process. A call that the hub took with it is gone; what it had said until then is not.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mcp
import mcp_types
import pytest
from mcp.shared.message import ClientMessageMetadata

from tests.interaction.peers import texts
from tests.interaction.programs import free_port, running, status_of
from tests.serving.running import workers_of
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

REVISION = "2025-11-25"
WORK = '''"""Work that is seen while it goes on."""

import time


def work(context, steps: int, last: bool = True) -> str:
    """Report a number of steps, then end, or continue without end."""
    for step in range(1, steps + 1):
        context.progress(step, steps)
    while not last:
        time.sleep(0.05)
    return f"{steps} steps are done"
'''
INLINE = '{"auto_discover": true, "isolation": "inline"}'
Event = tuple[str, Any]
"""Id and message; an event without a message has None."""


@dataclass
class Place:
    """Folders and a port on which one hub after the other runs."""

    folder: Path
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.servers = self.folder / "servers"
        self.servers.mkdir()
        (self.servers / "work.py").write_text(WORK, "utf-8")
        (self.servers / "work.mcp.json").write_text(INLINE, "utf-8")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def hub(self, *options: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """A hub here, which may be killed."""
        command = [sys.executable, "-m", "patchbay", "serve", "--port", str(self.port)]
        command += ["--data", str(self.folder / "data"), "--servers", str(self.servers), "--keepalive", "1"]
        command += options
        return running(command, f"{self.url}/readyz", self.folder, ends=(0, -signal.SIGKILL))

    def kill(self, hub: subprocess.Popen[bytes]) -> None:
        """Kill all of a hub at once, without a chance to say or write anything."""
        for process in (hub.pid, *workers_of(hub.pid)):
            os.kill(process, signal.SIGKILL)
        hub.wait(BOUND)
        until(lambda: status_of(f"{self.url}/readyz") is None, "the hub does not answer any more")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@dataclass
class Client:
    """A client of the session, in raw HTTP. Its connections are open until it is closed."""

    place: Place
    session: str = ""
    _connections: list[http.client.HTTPConnection] = field(default_factory=list)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        for connection in self._connections:
            connection.close()

    def send(self, method: str, params: Any, id: int = 1) -> http.client.HTTPResponse:
        """POST a request."""
        return self._ask("POST", {}, {"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def open(self) -> None:
        """Initialize."""
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        self.session = self.send("initialize", params).headers["Mcp-Session-Id"]

    def work(self, steps: int, last: bool = True) -> Iterator[Event]:
        """The events of a call of the tool; only so many as are taken are read."""
        arguments = {"steps": steps, "last": last}
        params = {"name": "work", "arguments": arguments, "_meta": {"progressToken": "t"}}
        return events(self.send("tools/call", params))

    def listen(self, last: str = "") -> Iterator[Event]:
        """The events of a GET stream, after the last that was read."""
        answer = self.get(last)
        assert answer.status == 200, answer.read()
        return events(answer)

    def get(self, last: str = "") -> http.client.HTTPResponse:
        """The answer to a GET."""
        return self._ask("GET", {"Last-Event-ID": last} if last else {})

    def _ask(self, verb: str, headers: dict[str, str], body: Any = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(urlsplit(self.place.url).netloc, timeout=BOUND)
        self._connections.append(connection)
        accept = "text/event-stream" if verb == "GET" else "application/json, text/event-stream"
        known = {"Accept": accept, "MCP-Protocol-Version": REVISION, **headers}
        if self.session:
            known["Mcp-Session-Id"] = self.session
        if body is None:
            connection.request(verb, "/mcp/work", headers=known)
        else:
            connection.request(verb, "/mcp/work", json.dumps(body), {"Content-Type": "application/json", **known})
        return connection.getresponse()


@pytest.fixture
def client(place: Place) -> Iterator[Client]:
    with Client(place) as client:
        yield client


def events(answer: http.client.HTTPResponse) -> Iterator[Event]:
    """Event id and message, None for an event without one, as they come."""
    fields: dict[str, str] = {}
    while line := answer.readline():
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "id" in fields:
            data = fields.get("data", "").strip()
            yield fields["id"], json.loads(data) if data else None
            fields = {}


def progress(found: list[Event]) -> list[int]:
    """The steps that events tell of."""
    return [message["params"]["progress"] for _, message in found if message and message.get("method")]


def text(event: Event) -> str:
    return str(event[1]["result"]["content"][0]["text"])


def test_lost_messages_of_an_ended_call_are_replayed_after_a_restart(place: Place, client: Client) -> None:
    """X-10, V-C1, V-C14: the same session id, the events after the last that was read, then the end."""
    with place.hub() as hub:
        client.open()
        whole = list(client.work(4))
        place.kill(hub)
    assert progress(whole) == [1, 2, 3, 4]
    with place.hub():
        for read in range(len(whole)):
            assert list(client.listen(whole[read][0])) == whole[read + 1 :]
        assert text(list(client.work(1))[-1]) == "1 steps are done"


def test_messages_of_a_call_before_the_kill_of_the_hub_are_replayed(place: Place, client: Client) -> None:
    """X-10: the middle of a stream; the call itself went with the hub."""
    with place.hub() as hub:
        client.open()
        stream = client.work(5, last=False)
        heard = [next(stream) for _ in range(6)]
        place.kill(hub)
    with place.hub():
        again = client.listen(heard[2][0])
        assert [next(again) for _ in range(3)] == heard[3:]
        assert text(list(client.work(2))[-1]) == "2 steps are done"


def test_a_replay_that_waits_for_more_does_not_hold_up_the_end_of_the_hub(place: Place, client: Client) -> None:
    """THREATS X22: every stream ends when the hub gets a stop signal, well before the drain is over."""
    with place.hub() as hub:
        client.open()
        stream = client.work(1, last=False)
        begin, _ = next(stream)
        next(stream)
        place.kill(hub)
    # A hub that waited for its stream would go on for longer than this test waits.
    with place.hub("--drain", str(10 * BOUND)) as hub:
        again = client.listen(begin)
        next(again)
        hub.terminate()
        # A machine that is busy for seconds may see the killed call as lost before the end; its stream says so.
        assert [message["error"]["code"] for _, message in again] in ([], [-32603])
        assert hub.wait(BOUND) == 0


def test_a_resuming_listener_gets_changes_from_before_the_restart(place: Place, client: Client) -> None:
    """V-C14, T9.8: the definition changes while the hub is stopped."""
    with place.hub() as hub:
        client.open()
        begin, nothing = next(client.listen())
        assert nothing is None
        place.kill(hub)
    with (place.servers / "work.py").open("a", encoding="utf-8") as file:
        file.write('\n\ndef more() -> str:\n    """More."""\n    return "more"\n')
    with place.hub():
        after = next(event for event in client.listen(begin) if event[1] is not None)
        assert after[1] == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        assert after[0] != begin


def test_another_session_gets_nothing_of_it_after_a_restart(place: Place, client: Client) -> None:
    """THREATS 1.3: which session an event belongs to is not forgotten."""
    with Client(place) as other:
        with place.hub() as hub:
            client.open()
            other.open()
            whole = list(client.work(1))
            place.kill(hub)
        with place.hub():
            assert other.get(whole[0][0]).status == 400
            client.session += "x"
            assert client.get(whole[0][0]).status == 404


def test_the_official_sdk_goes_on_in_its_session_and_resumes_a_call(place: Place) -> None:
    """SUB-30: the client's own resumption, by the token of the first event of the call."""
    tokens: list[str] = []

    async def keep(token: str) -> None:
        tokens.append(token)

    params = mcp_types.CallToolRequestParams(name="work", arguments={"steps": 3})
    request = mcp_types.CallToolRequest(params=params)

    async def ask(client: mcp.Client, metadata: ClientMessageMetadata, heard: list[float]) -> str:
        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            heard.append(progress)

        result = await client.session.send_request(
            request, mcp_types.CallToolResult, metadata=metadata, progress_callback=progressed
        )
        return texts(result.content)

    async def conversation() -> None:
        heard: list[float] = []
        with place.hub() as hub:
            client = mcp.Client(f"{place.url}/mcp/work", mode="legacy", read_timeout_seconds=BOUND)
            await client.__aenter__()
            assert client.protocol_version == REVISION
            first = await ask(client, ClientMessageMetadata(on_resumption_token_update=keep), heard)
            place.kill(hub)
        with place.hub():
            again = await ask(client, ClientMessageMetadata(resumption_token=tokens[0]), [])
            assert again == first == "3 steps are done"
            assert texts((await client.call_tool("work", {"steps": 1})).content) == "1 steps are done"
            await client.__aexit__(None, None, None)
        assert heard == [1, 2, 3]

    asyncio.run(conversation())
