"""Requests of attackers to a running hub, and its answers: plain HTTP, and MCP of 2026-07-28."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson

from tests.hubs import BOTH, modern_request, sse_messages
from tests.serving.running import Hub
from tests.waiting import BOUND

NEVER_SENT: Mapping[str, str] = {}


@dataclass(frozen=True)
class Got:
    """An answer over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def last_message(self) -> dict[str, Any]:
        """The last JSON-RPC message, from JSON or from a stream."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return sse_messages(self.body)[-1]
        return dict(self.json)


def send(hub: Hub, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NEVER_SENT) -> Got:
    """Send one request to a hub, as a program on the same machine."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    try:
        connection.request(method, path, body or None, dict(headers))
        answer = connection.getresponse()
        return Got(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def send_request(
    hub: Hub,
    server: str,
    method: str,
    params: Mapping[str, Any],
    capabilities: Mapping[str, Any] = NEVER_SENT,
    headers: Mapping[str, str] = NEVER_SENT,
) -> Got:
    """Send a request of MCP 2026-07-28 to a server; empty for the aggregate."""
    message, own = modern_request(method, params, capabilities, headers=headers)
    sent = {"Content-Type": "application/json", "Accept": BOTH} | own
    return send(hub, "POST", f"/mcp/{server}" if server else "/mcp", orjson.dumps(message), sent)


def call(hub: Hub, server: str, tool: str, arguments: Mapping[str, Any] = NEVER_SENT, **more: Any) -> dict[str, Any]:
    """Call a tool and return its result."""
    got = send_request(hub, server, "tools/call", {"name": tool, "arguments": dict(arguments)}, **more)
    assert "result" in got.last_message, got.body
    return dict(got.last_message["result"])


def fill_in(hub: Hub, path: str, **fields: str) -> Got:
    """Submit a form of a page, as the operator's program."""
    sent = {"Content-Type": "application/x-www-form-urlencoded"} | hub.as_operator()
    return send(hub, "POST", path, urlencode(fields).encode(), sent)
