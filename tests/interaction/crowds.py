"""Many listeners in one thread: raw sockets in a selector loop, each counts its notifications.

A listener is one POST of `subscriptions/listen` or one GET of a session's stream; it reads for as long as it is open.
"""

from __future__ import annotations

import http.client
import json
import selectors
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.descriptors import list_descriptors
from tests.hubs import modern_request
from tests.waiting import BOUND, until

CLIENT = {"name": "crowd", "version": "1"}
NOTICE = b"/list_changed"
BEGUN = (b"notifications/subscriptions/acknowledged", b"retry: ")
"""What a stream begins with, in either era."""


@dataclass(eq=False)
class Listener:
    """One open stream; `told` counts the notices of a changed list."""

    server: str
    connection: socket.socket
    told: int = 0
    begun: bool = False
    ended: bool = False
    _tail: bytes = field(default=b"", repr=False)

    def read(self) -> None:
        """Read the available bytes."""
        piece = self.connection.recv(65536)
        self.ended = self.ended or not piece
        seen = self._tail + piece
        self.begun = self.begun or any(mark in seen for mark in BEGUN)
        self.told += seen.count(NOTICE) - self._tail.count(NOTICE)
        # Long enough for a mark that is cut in two, too short to be counted twice.
        self._tail = seen[-64:]


class Crowd:
    """Listeners to one hub; a waiting test reads from them."""

    def __init__(self, url: str) -> None:
        self._address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
        self._selector = selectors.DefaultSelector()
        self.listeners: list[Listener] = []

    def listen(self, server: str) -> Listener:
        """Open a stream of 2026-07-28 that hears of tools."""
        body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        return self._open(server, "POST", headers, json.dumps(body).encode())

    def get(self, server: str) -> Listener:
        """Open a session of 2025-11-25 and its GET stream."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
        _, headers = self.post(server, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, {})
        return self._open(server, "GET", {"Mcp-Session-Id": headers["Mcp-Session-Id"]}, b"")

    def post(self, server: str, message: Any, headers: dict[str, str]) -> tuple[Any, Any]:
        """POST a message that is answered in JSON; body and headers of the answer."""
        connection = http.client.HTTPConnection(*self._address, timeout=BOUND)
        known = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        try:
            connection.request("POST", f"/mcp/{server}", json.dumps(message), known)
            answer = connection.getresponse()
            return json.loads(answer.read()), answer.headers
        finally:
            connection.close()

    def call(self, server: str, tool: str) -> Any:
        """The result of a tool."""
        answer, _ = self.post(server, *modern_request("tools/call", {"name": tool}))
        return answer["result"]

    def tools(self, server: str) -> list[str]:
        """The names of a server's tools."""
        answer, _ = self.post(server, *modern_request("tools/list"))
        return [tool["name"] for tool in answer["result"]["tools"]]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Read from all listeners until a condition is true."""
        until(lambda: condition() or self._read_ready(), what)

    def _read_ready(self) -> bool:
        """Read from the listeners that have data; returns False, so that a wait goes on."""
        for key, _ in self._selector.select(0.05):
            listener: Listener = key.data
            listener.read()
            if listener.ended:
                self._selector.unregister(listener.connection)
        return False

    def read_all(self) -> None:
        """Take what has arrived already, until there is nothing."""
        while ready := self._selector.select(0):
            for key, _ in ready:
                key.data.read()

    def close(self) -> None:
        """Go away, without a word."""
        for listener in self.listeners:
            listener.connection.close()
        self._selector.close()

    def _open(self, server: str, verb: str, headers: dict[str, str], body: bytes) -> Listener:
        known = {"Host": f"{self._address[0]}:{self._address[1]}", "Accept": "text/event-stream", **headers}
        if body:
            known |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in known.items())
        connection = socket.create_connection(self._address, BOUND)
        connection.sendall(f"{verb} /mcp/{server} HTTP/1.1\r\n{head}\r\n".encode() + body)
        connection.setblocking(False)
        listener = Listener(server, connection)
        self.listeners.append(listener)
        self._selector.register(connection, selectors.EVENT_READ, listener)
        return listener


def everyone(listeners: Iterable[Listener], told: int) -> bool:
    """Whether each stream got at least so many notifications."""
    return all(listener.told >= told for listener in listeners)


def descriptors_of(pid: int) -> int:
    """Open descriptors, without those of the database: it keeps up to a fixed number of connections for later."""
    return sum("patchbay.sqlite3" not in each for each in list_descriptors(pid))
