"""An HTTP endpoint that speaks OpenAI's chat completions, as far as the tests need it, and that can fail.

What it does depends on the last message: its answer, or one of the ways in which such an endpoint breaks.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-canary-1234"
REFUSALS = {"limit": 429, "broken": 500, "moved": 302}


class Endpoint:
    """A running endpoint. `asked` has the bodies it got; `gone` is set when a client left in the middle."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.gone = threading.Event()
        self.held = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"endpoint": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.held.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    endpoint: Endpoint
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        if self._is_known():
            self._json(200, {"object": "list", "data": [{"id": "small"}, {"id": "large"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._is_known():
            return
        self.endpoint.asked.append(body)
        told = body["messages"][-1]["content"].split(" ")[0]
        if told in REFUSALS:
            self._json(REFUSALS[told], {"error": {"message": f"no, {told}"}})
        elif told == "whole":
            message = {"role": "assistant", "content": "all at once"}
            self._json(200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"total_tokens": 2}})
        else:
            self._stream(told, body)

    def _is_known(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {KEY}":
            return True
        self._json(401, {"error": {"message": f"Incorrect API key provided: {self.headers.get('Authorization')}"}})
        return False

    def _stream(self, told: str, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        words = [one["content"] for one in body["messages"]] if told == "recall" else ["Hello", ", ", "world"]
        for word in words:
            self._piece({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]})
        if told == "cut":
            self.close_connection = True
            return
        if told == "short":
            self._chunk(b"")
            return
        if told == "fault":
            self._piece({"error": {"message": "the model fell over"}})
        if told == "noise":
            self._chunk(b"data: {not json\n\n")
        if told == "slow":
            self._wait()
            return
        self._piece({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self._piece({"choices": [], "usage": {"total_tokens": 7}})
        self._chunk(b": a comment\n\ndata: [DONE]\n\n")
        self._chunk(b"")

    def _wait(self) -> None:
        """Say nothing until the client is gone, or the test is over."""
        self.connection.settimeout(0.02)
        while not self.endpoint.held.is_set():
            try:
                if not self.connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.endpoint.gone.set()
        self.close_connection = True

    def _piece(self, value: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _json(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status == 429:
            self.send_header("Retry-After", "20")
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.end_headers()
        self.wfile.write(data)
