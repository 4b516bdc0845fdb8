"""Everything that one caller of a running hub can hold open, and whether it is open still."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import orjson
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.hubs import BOTH, modern_request
from tests.serving.running import Hub
from tests.waiting import BOUND, until

STREAM = "text/event-stream"
OLD = "2025-11-25"

DESK = '''"""A server with events, and with calls that end only when they are cancelled."""

import time
from typing import TypedDict


class Saying(TypedDict):
    """Something was said."""

    text: str


EVENTS = {"said": Saying}


def say(context, text: str) -> str:
    """Emit an event."""
    return context.emit("said", {"text": text})


def work(context) -> str:
    """Report progress until it is cancelled."""
    for step in range(1, 1_000_000):
        context.progress(step)
        time.sleep(0.05)
    return "done"


def toil(context) -> str:
    """Work in the background until it is cancelled."""
    context.background(required=True)
    return work(context)


def labour(context) -> str:
    """Work as a job until it is cancelled."""
    return work(context)


def rest() -> str:
    """Wait until it is cancelled."""
    time.sleep(1000)
    return "done"
'''
PATIENT = '{"auto_discover": true, "timeout": 1000, "tools": {"labour": {"job": true}}}'
ROOM = "demo"
CALL = {"name": "work", "arguments": {}, "_meta": {"progressToken": "one"}}


class OpenStream:
    """An answer of a hub that goes on. A thread reads it to its end."""

    def __init__(self, hub: Hub, method: str, path: str, headers: Mapping[str, str], body: Any = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", hub.port)
        self._connection.request(method, path, None if body is None else orjson.dumps(body), dict(headers))
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.headers = {name.lower(): value for name, value in self._answer.getheaders()}
        self.text = ""
        self.has_ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError, http.client.HTTPException, ValueError, AttributeError):  # it was cut off, or closed here
            while found := self._answer.read1(65536):
                self.text += found.decode()
        self.has_ended.set()

    def close(self) -> None:
        """Close the connection."""
        if self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(2)
        self._thread.join(BOUND)
        self._connection.close()


class OpenSocket:
    """A WebSocket of a room that has said hello, or is silent."""

    def __init__(self, hub: Hub, headers: Mapping[str, str], is_silent: bool = False) -> None:
        own = dict(headers)
        url = f"ws://{own.pop('Host', f'127.0.0.1:{hub.port}')}/rooms/{ROOM}/ws"
        self._stack = ExitStack()
        reached = socket.create_connection(("127.0.0.1", hub.port))
        opening = connect(url, sock=reached, additional_headers=own, ping_interval=None)
        self._socket: ClientConnection = self._stack.enter_context(opening)
        hello = {"type": "hello", "payload": {"proto": "ENSO-1", "caps": ["can.speak"]}}
        if not is_silent:
            self._socket.send(orjson.dumps(hello).decode())
        self.text = ""
        self.has_ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                self.text += str(self._socket.recv())
        self.has_ended.set()

    def close(self) -> None:
        """Close the connection."""
        self._stack.close()
        self._thread.join(BOUND)


Open = OpenStream | OpenSocket
OpenFor = Callable[[Hub, Mapping[str, str]], Open]


def _modern(method: str, params: Mapping[str, Any], begun: str) -> tuple[OpenFor, str]:
    def open_for(hub: Hub, headers: Mapping[str, str]) -> Open:
        message, own = modern_request(method, params, meta=params.get("_meta"))
        sent = {"Content-Type": "application/json", "Accept": BOTH, **own, **headers}
        return OpenStream(hub, "POST", "/mcp/desk", sent, message)

    return open_for, begun


def _get(path: str, begun: str) -> tuple[OpenFor, str]:
    return (lambda hub, headers: OpenStream(hub, "GET", path, {"Accept": STREAM, **headers})), begun


def begin_old_session(hub: Hub, headers: Mapping[str, str]) -> dict[str, str]:
    """Begin a session of 2025-11-25; return the headers of its requests."""
    params = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    sent = {"Content-Type": "application/json", "Accept": BOTH, **headers}
    opening = OpenStream(
        hub, "POST", "/mcp/desk", sent, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    )
    assert opening.status == 200, opening.text
    assert opening.has_ended.wait(BOUND)
    opening.close()
    return {**sent, "Mcp-Session-Id": opening.headers["mcp-session-id"], "MCP-Protocol-Version": OLD}


def _old_changes(hub: Hub, headers: Mapping[str, str]) -> Open:
    return OpenStream(hub, "GET", "/mcp/desk", {**begin_old_session(hub, headers), "Accept": STREAM})


def _old_call(hub: Hub, headers: Mapping[str, str]) -> OpenStream:
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": CALL}
    return OpenStream(hub, "POST", "/mcp/desk", begin_old_session(hub, headers), message)


def _resumed_call(hub: Hub, headers: Mapping[str, str]) -> Open:
    session = begin_old_session(hub, headers)
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": CALL}
    first = OpenStream(hub, "POST", "/mcp/desk", session, message)
    until(lambda: "id: " in first.text, "the first event of the call")
    found = re.search(r"id: (\S+)", first.text)
    assert found is not None
    first.close()
    return OpenStream(hub, "GET", "/mcp/desk", {**session, "Accept": STREAM, "Last-Event-ID": found[1]})


def _native(hub: Hub, headers: Mapping[str, str]) -> Open:
    sent = {"Content-Type": "application/json", "Accept": STREAM, **headers}
    return OpenStream(hub, "POST", "/rpc", sent, {"jsonrpc": "2.0", "id": 1, "method": "desk.rest", "params": []})


STREAMS: Mapping[str, tuple[OpenFor, str]] = {
    "events/stream": _modern("events/stream", {"name": "said"}, "notifications/events/active"),
    "subscriptions/listen": _modern(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "subscriptions/acknowledged"
    ),
    "a call with progress": _modern("tools/call", CALL, "notifications/progress"),
    "a native call": (_native, "\n"),
    "the changes of an older session": (_old_changes, "\n"),
    "a call of an older session": (_old_call, "notifications/progress"),
    "a resumed call of an older session": (_resumed_call, ""),
    "a stream of 2024-11-05": _get("/mcp/desk/sse", "endpoint"),
    "/activity/events": _get("/activity/events", "running"),
    "the changes of a room": _get(f"/rooms/{ROOM}/changes", "entries"),
    "the events of a room": _get(f"/rooms/{ROOM}/events", "presence.join"),
    "a WebSocket": (OpenSocket, "presence.join"),
    "a silent WebSocket": (partial(OpenSocket, is_silent=True), ""),
}
"""What a caller can hold open, and what says that it has begun."""


@contextmanager
def everything_open(hub: Hub, headers: Mapping[str, str], *names: str) -> Iterator[dict[str, Open]]:
    """Open the streams of these names, all without any, at one hub; each has begun."""
    with ExitStack() as stack:
        found: dict[str, Open] = {}
        for name in names or STREAMS:
            open_for, begun = STREAMS[name]
            one = found[name] = open_for(hub, headers)
            stack.callback(one.close)
            until(lambda one=one, begun=begun: begun in one.text or one.has_ended.is_set(), f"{name} begins")  # type: ignore[misc]
        yield found


def list_ended(streams: Mapping[str, Open]) -> dict[str, str]:
    """Return what has ended, with the end of its text."""
    return {name: one.text[-300:] for name, one in streams.items() if one.has_ended.is_set()}


def list_open(streams: Mapping[str, Open]) -> list[str]:
    """Return the names of what is open still."""
    return [name for name, one in streams.items() if not one.has_ended.is_set()]
