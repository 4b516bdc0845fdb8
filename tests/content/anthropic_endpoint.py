"""An HTTP endpoint that speaks the Anthropic Messages API, as far as `cone` and `claude` need it.

It answers "Hello, world" in pieces, or asks once for the tool that it was told to, and then answers "done".
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-ant-canary-5678"
Json = dict[str, Any]


class MessagesEndpoint(ThreadingHTTPServer):
    """A running endpoint; `asked` has the bodies of the messages it got, with the headers beside them."""

    daemon_threads = True

    def __init__(self, tool: str = "", arguments: Json | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.tool, self.arguments = tool, arguments or {}
        self.asked: list[tuple[Json, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: MessagesEndpoint
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def do_HEAD(self) -> None:
        self._send(200, b"")

    def do_GET(self) -> None:
        if self._is_known():
            self._json(200, {"data": [{"id": "claude-small"}, {"id": "claude-large"}], "has_more": False})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._is_known():
            return
        if "count_tokens" in self.path:
            self._json(200, {"input_tokens": 1})
            return
        self.server.asked.append((body, {name.lower(): value for name, value in self.headers.items()}))
        last = body["messages"][-1]["content"]
        if last == "limit":
            self._json(429, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}})
            return
        events = [{"type": "error", "error": {"message": "Overloaded"}}] if last == "fault" else self._answer(body)
        if last == "cut":
            events = events[:-2]
        text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
        self._send(200, text.encode(), "text/event-stream")

    def _answer(self, body: Json) -> list[Json]:
        blocks = [part for one in body["messages"] if isinstance(one["content"], list) for part in one["content"]]
        used = any(block.get("type") == "tool_result" for block in blocks)
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
        start = {"type": "message_start", "message": {**message, "usage": {"input_tokens": 5, "output_tokens": 1}}}
        if self.server.tool and not used:
            block: Json = {"type": "tool_use", "id": "toolu_1", "name": self.server.tool, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(self.server.arguments)}]
        else:
            block = {"type": "text", "text": ""}
            words = ["done"] if self.server.tool else ["Hello", ", ", "world"]
            deltas = [{"type": "text_delta", "text": word} for word in words]
        reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
        return [
            start,
            {"type": "content_block_start", "index": 0, "content_block": block},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}},
            {"type": "message_stop"},
        ]

    def _is_known(self) -> bool:
        if KEY in (self.headers.get("x-api-key"), (self.headers.get("Authorization") or "").removeprefix("Bearer ")):
            return True
        self._json(401, {"type": "error", "error": {"message": f"invalid x-api-key {self.headers.get('x-api-key')}"}})
        return False

    def _json(self, status: int, value: Json) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, data: bytes, media_type: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def messages_endpoint(tool: str = "", arguments: Json | None = None) -> Iterator[MessagesEndpoint]:
    """An endpoint while the block runs; with `tool`, its first answer uses that tool."""
    server = MessagesEndpoint(tool, arguments)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
