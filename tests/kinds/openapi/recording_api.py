"""A real HTTP API in this process for tests: it serves a document that tests change, answers as told, and records."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Recorded:
    """One request as it arrived."""

    method: str
    target: str
    headers: Message
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)


@dataclass(frozen=True)
class Reply:
    """An answer: a JSON value or bytes."""

    value: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        if self.value is None:
            return b""
        return self.value if isinstance(self.value, bytes) else json.dumps(self.value).encode()


Answering = Callable[[Recorded], Reply]


class RecordingApi:
    """`answer` decides every answer but that to a request for the document."""

    def __init__(self, document: Any, answer: Answering) -> None:
        self.document, self.answer = document, answer
        self.requests: list[Recorded] = []
        self.document_requests: list[Recorded] = []
        self.files: dict[str, Any] = {}
        self.release = threading.Event()
        self.hung_up = threading.Event()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                seen = Recorded(self.command, self.path, self.headers, self.rfile.read(size))
                if seen.path == "/openapi.json" or seen.path in api.files:
                    api.document_requests.append(seen)
                    self._give(Reply(api.document if seen.path == "/openapi.json" else api.files[seen.path]))
                    return
                api.requests.append(seen)
                self._give(api.answer(seen))

            def _give(self, told: Reply) -> None:
                body = told.body
                self.send_response(told.status)
                for name, value in {"Content-Type": "application/json", **told.headers}.items():
                    self.send_header(name, value)
                if "Transfer-Encoding" in told.headers:
                    self.end_headers()
                    self._stream(body)
                    return
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def _stream(self, body: bytes) -> None:
                """Send the first line of a body, wait until the test goes on, and send the rest."""
                first, _, rest = body.partition(b"|")
                try:
                    for piece in (first, rest):
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                        self.wfile.flush()
                        while piece is first and not api.release.wait(0.01):
                            self.wfile.write(b"1\r\n\n\r\n")
                            self.wfile.flush()
                    self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    api.hung_up.set()

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _serve

            def log_message(self, *words: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def recording_api(document: Any, answer: Answering = lambda seen: Reply({})) -> Iterator[RecordingApi]:
    """An API that runs until the end of the block."""
    api = RecordingApi(document, answer)
    thread = threading.Thread(target=api.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.release.set()
        api.server.shutdown()
        api.server.server_close()
        thread.join()
