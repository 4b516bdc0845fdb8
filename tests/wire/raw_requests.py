"""Requests as a web server reads them: usual ones, and those of which a part is wrong, unusual or missing.

`raw_answers.json` has the answers to them that were recorded when the hub had two ways for requests, one for plain
heads and one for all others: each answer once, and for each kind of hub the names of its requests by the number of
their answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from tests.hubs import BOTH, modern_request
from tests.wire.front.sent_headers import Pairs, SentScope

ECHO = '"""Gives back what it gets."""\n\n\ndef echo(message: str = "") -> str:\n    """Give the message."""\n'
ECHO += '    return message\n\n\ndef fail() -> str:\n    """Fail."""\n    raise SystemExit\n'


def request_of(method: str, params: dict[str, Any] | None = None) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}})


CALL = request_of("tools/call", {"name": "echo", "arguments": {"message": "hello"}})
REQUIRED = {"host": "127.0.0.1:8000", "content-type": "application/json", "accept": BOTH}


def head(body: bytes, **further: str) -> Pairs:
    """A plain head; the names of further headers have underscores in place of hyphens."""
    given = {name.replace("_", "-"): value for name, value in further.items()}
    return list((REQUIRED | {"content-length": str(len(body))} | given).items())


META = modern_request("ping")[0]["params"]["_meta"]
BODIES = [
    CALL,
    request_of("tools/call", {"name": "echo", "arguments": {"message": "é" * 20}}),
    request_of("tools/call", {"name": "echo", "arguments": {"message": 1}}),
    request_of("tools/call", {"name": "echo", "_meta": {"progressToken": "t"}}),
    request_of("tools/call", {"name": "fail"}),
    request_of("tools/call", {"name": "none"}),
    request_of("tools/call", {"name": "echo", "arguments": {}, "_meta": META}),
    request_of("tools/list"),
    request_of("tools/list", {"_meta": META}),
    request_of("server/discover", {"_meta": META}),
    request_of("resources/read", {"uri": "file:///none"}),
    request_of("ping"),
    request_of("none"),
    orjson.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    orjson.dumps([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]),
    orjson.dumps({"jsonrpc": "1.0", "id": 1, "method": "ping"}),
    b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}',
    b"[" * 200,
    b"{",
    b"",
    b"null",
    b"\xff",
]

VALUES: dict[str, list[str]] = {
    "host": ["127.0.0.1:8000", "localhost", "evil.example", "127.0.0.1:8000,localhost", ""],
    "content-type": ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "text/plain", ""],
    "accept": [BOTH, "application/json", "*/*", "text/event-stream", "text/html", ""],
    "mcp-protocol-version": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01", "é"],
    "mcp-method": ["tools/call", "tools/list", ""],
    "mcp-name": ["echo", " echo\t", "none"],
    "mcp-session-id": ["none", ""],
    "mcp-param-a": ["b"],
    "mcp_name": ["echo"],
    "authorization": ["Bearer none", "Basic YTpi"],
    "sec-fetch-mode": ["cors", "navigate"],
    "sec-fetch-site": ["cross-site", "same-origin"],
    "origin": ["http://127.0.0.1:8000", "https://evil.example"],
    "x-forwarded-for": ["192.0.2.1"],
    "via": ["1.1 proxy"],
    "transfer-encoding": ["chunked", "gzip, chunked"],
    "content-encoding": ["gzip"],
    "content-length": ["0", "1", "9999999", "x", "5,5"],
    "cookie": ["a=b"],
    "user-agent": ["x"],
    "x-unknown": ["1"],
    "x_forwarded_for": ["192.0.2.1"],
    "content_type": ["text/plain"],
    "upgrade": ["websocket"],
}
METHODS = ["POST", "GET", "DELETE", "PUT", "OPTIONS", "HEAD"]
PATHS = [
    *("/mcp/echo", "/mcp/echo/", "/mcp", "/mcp/", "/mcp/none", "/mcp/echo@none", "/mcp//echo", "/mcp/server-card"),
    *("/mcp/écho", "/mcpecho", "/mcp/echo/more", "/rpc", "/rpc/", "/mcp/echo/messages", "/ws", "none"),
    *("/mcp/none/sse", "/rooms/none", "/rooms/none/log", "/rooms/none/ws", "/rooms/none/fork", "/healthz", "/readyz"),
    *(
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp/echo",
        "/login",
        "/static/none",
    ),
]
"""Paths of each endpoint, and of none of them."""

REPEATED = ("host", "accept", "content-type", "authorization", "mcp-name", "origin", "cookie")


def raw_requests() -> Iterator[tuple[str, SentScope, bytes]]:
    """Give each request with its name, which says what is not as usual."""
    for number, body in enumerate(BODIES):
        yield f"body {number}", SentScope(head(body), "/mcp/echo"), body
        yield f"body {number} to all servers", SentScope(head(body), "/mcp"), body
        yield f"body {number} to /rpc", SentScope(head(body), "/rpc"), body
    for name, values in VALUES.items():
        for value in values:
            pairs = list((dict(head(CALL)) | {name: value}).items())
            for path, method in (("/mcp/echo", "POST"), ("/mcp/echo", "GET"), ("/rpc", "POST"), ("/healthz", "GET")):
                yield f"{name}: {value} at {method} {path}", SentScope(pairs, path, method), CALL
    for name in dict(head(CALL)):
        yield f"no {name}", SentScope([pair for pair in head(CALL) if pair[0] != name], "/mcp/echo"), CALL
    for name in REPEATED:
        pairs = list((dict(head(CALL)) | {name: "a"}).items()) if name not in REQUIRED else head(CALL)
        yield f"{name} twice", SentScope([*pairs, (name, dict(pairs)[name])], "/mcp/echo"), CALL
    for path in PATHS:
        for method in METHODS:
            yield f"{method} {path}", SentScope(head(CALL), path, method), CALL
            empty = [("host", "127.0.0.1:8000"), ("accept", "application/json")]
            yield f"{method} {path} without a body", SentScope(empty, path, method), b""
            evil = [("host", "evil.example"), ("accept", "application/json")]
            yield f"{method} {path} of another host", SentScope(evil, path, method), b""
    yield "another machine", SentScope(head(CALL), "/mcp/echo", client="192.0.2.1:4711"), CALL
    yield "a host in the target", SentScope(head(CALL), "/mcp/echo", authority="127.0.0.1:8000"), CALL
    yield "another host in the target", SentScope(head(CALL), "/mcp/echo", authority="localhost:8000"), CALL
    yield "a body that ends early", SentScope(head(CALL + b" "), "/mcp/echo"), CALL
    yield "a page whose body ends early", SentScope([*head(CALL + b" ")], "/mcp/echo/more", "GET"), CALL
    for client in ("127.0.0.1:4711", "192.0.2.1:4711"):
        asked = [*head(b""), ("origin", "http://127.0.0.1:8000"), ("access-control-request-method", "POST")]
        asked.append(("access-control-request-headers", "mcp-param-a, x-b"))
        yield f"a preflight from {client}", SentScope(asked, "/mcp/echo", "OPTIONS", client=client), b""
