"""A server at a URL that behaves as a test requires, and records its requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
INFO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "bad", "version": "1"}}


class Bad(ThreadingHTTPServer):
    """A server with one endpoint; `tool` answers a call. It records the requests that it received."""

    daemon_threads = True

    def __init__(self, tool: Callable[[Handler, Json], None], first: Callable[[Handler, Json], bool]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.tool = tool
        self.first = first
        self.got: list[tuple[str, str, dict[str, str]]] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection: these tests cause that."""


class Handler(BaseHTTPRequestHandler):
    """Answers the handshake, and leaves the rest to the server's `tool`."""

    server: Bad
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.append(("POST", self.path, {key.lower(): value for key, value in self.headers.items()}))
        if self.server.first(self, body):
            return
        if body.get("method") == "initialize":
            self.send_json({"jsonrpc": "2.0", "id": body["id"], "result": INFO})
        elif "id" not in body:
            self.send_json(None, 202)
        elif body["method"] == "tools/call":
            self.server.tool(self, body)
        else:
            self.send_json({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": "no"}})

    def do_GET(self) -> None:
        self.server.got.append(("GET", self.path, dict(self.headers.items())))
        self.send_json(None, 405)

    do_DELETE = do_GET

    def send_json(self, value: Any, status: int = 200, **headers: str) -> None:
        data = b"" if value is None else json.dumps(value).encode()
        self.send_bytes(data, status, **{"Content-Type": "application/json"} | headers)

    def send_bytes(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(data))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def begin_stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()

    def event(self, message: Json) -> None:
        self.wfile.write(b"data: " + json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def never(handler: Handler, body: Json) -> bool:
    return False


def echo(handler: Handler, body: Json) -> None:
    result = {"content": [{"type": "text", "text": "hello"}]}
    handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result})


@contextmanager
def serving() -> Iterator[Callable[..., Bad]]:
    """A function that starts a bad server; all of them end with this."""
    servers: list[Bad] = []

    def start(tool: Callable[[Handler, Json], None] = echo, first: Callable[[Handler, Json], bool] = never) -> Bad:
        server = Bad(tool, first)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    try:
        yield start
    finally:
        for server in servers:
            server.over.set()
            server.shutdown()
            server.server_close()
