"""Serves every animal over HTTP in one process: `python -S over_http.py PORT`.

POST /NAME/mcp, GET /NAME/mcp    Streamable HTTP; POST /direct/NAME/mcp is the same, without the log
GET /NAME/sse, POST /NAME/post   HTTP+SSE of 2024-11-05
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, cycle
from queue import Empty, Queue
from typing import Any

from tests.zoo.animals import ANIMALS, CHATTER, POLL_SECONDS, Animal, AnswersInAnotherOrder, Json, note

_NUMBERS = count(1)
_SESSIONS: dict[str, int] = {}
"""The number of messages of each session."""

_STREAMS: dict[str, Queue[Json]] = {}
_ANIMALS = {name: kind() for name, kind in ANIMALS.items()}
_LOCKS = {name: threading.Lock() for name in ANIMALS}
HOLD_SECONDS = 0.02
SILENT_SECONDS = 100.0
"""How long a request without an answer keeps its connection open."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def parts(self) -> tuple[str, str, bool]:
        """Return the animal, the last part of the path, and whether the caller is not the hub."""
        path, _, _ = self.path.partition("?")
        words = path.strip("/").split("/")
        is_direct = words[0] == "direct"
        return words[-2], words[-1], is_direct

    def log_message(self, *_: Any) -> None:
        """Write nothing."""

    def answers(self, name: str, message: Json) -> list[Json]:
        """Return what the animal sends for a message."""
        animal = _ANIMALS[name]
        if not animal.is_one_at_a_time:
            return list(animal.answer(message))
        with _LOCKS[name]:
            return list(animal.answer(message))

    def do_POST(self) -> None:
        name, place, is_direct = self.parts()
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        animal = _ANIMALS[name]
        transport = "http" if place == "mcp" else "sse"
        if not is_direct:
            note(name, transport, message.get("method", "answer"))
        if transport == "sse":
            self.send(202, b"")
            for found in self.answers(name, message):
                _STREAMS[self.path.partition("session=")[2]].put(found)
            return
        if animal.accept and self.headers["Accept"] != animal.accept:
            self.send(406, b'{"error": "Not Acceptable: send ' + animal.accept.encode() + b'"}')
            return
        session = self.session(animal, message)
        if session is None:
            self.send(404, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}')
            return
        if isinstance(animal, AnswersInAnotherOrder) and next(_NUMBERS) % 2:
            threading.Event().wait(HOLD_SECONDS)
        answers = self.answers(name, message)
        if not answers and "id" in message and "method" in message:
            threading.Event().wait(SILENT_SECONDS)
            self.close_connection = True
            return
        self.reply(animal, answers, session)

    def session(self, animal: Animal, message: Json) -> str | None:
        """Return the session of a message; None for one that is forgotten."""
        if message.get("method") == "initialize":
            found = f"s{next(_NUMBERS)}"
            _SESSIONS[found] = 1
            return found
        found = self.headers.get("Mcp-Session-Id", "")
        _SESSIONS[found] = _SESSIONS.get(found, 0) + 1
        return None if animal.messages_of_session and _SESSIONS[found] > animal.messages_of_session else found

    def reply(self, animal: Animal, found: list[Json], session: str) -> None:
        """Send the answer of a POST: JSON, or a stream of events where the animal has its own way with these."""
        headers = {"Mcp-Session-Id": session} if session else {}
        if not found:
            self.send(202, b"", headers)
        elif animal.closes_connections or animal.newline != "\n":
            body = "".join(self.event(one, animal.newline) for one in found).encode()
            self.send(200, body, headers | {"Content-Type": "text/event-stream"}, animal.closes_connections)
        else:
            self.send(200, json.dumps(found[0]).encode(), headers | {"Content-Type": "application/json"})

    def event(self, message: Json, newline: str) -> str:
        """Return a message as an event."""
        return f"event: message{newline}data: {json.dumps(message)}{newline}{newline}"

    def do_GET(self) -> None:
        name, place, is_direct = self.parts()
        animal = _ANIMALS[name]
        if place == "mcp" and not animal.is_chatty:
            self.send(405, b"")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        stream: Queue[Json] = Queue()
        if place == "sse":
            number = str(next(_NUMBERS))
            _STREAMS[number] = stream
            start = "/direct" if is_direct else ""
            self.push(f"event: endpoint\ndata: {start}/{name}/post?session={number}\n\n".replace("\n", animal.newline))
        chatter = cycle(CHATTER)
        try:
            while True:
                try:
                    found = stream.get(timeout=POLL_SECONDS * 5 if animal.is_chatty else 1.0)
                    self.push(self.event(found, animal.newline))
                except Empty:
                    said = {"jsonrpc": "2.0", **next(chatter)} if animal.is_chatty else None
                    self.push(self.event(said, animal.newline) if said else f": quiet{animal.newline}{animal.newline}")
        except OSError:
            return

    def do_DELETE(self) -> None:
        self.send(200, b"")

    def push(self, words: str) -> None:
        """Send a part of a stream."""
        self.wfile.write(words.encode())
        self.wfile.flush()

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None, is_last: bool = False) -> None:
        """Send a whole response; `is_last` closes the connection without saying so."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection |= is_last


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    server.serve_forever()
