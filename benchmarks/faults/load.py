"""A steady load on three hubs: writes, calls, streams and listeners at each of them.

Every value is written once: after an answer that leaves it open whether a value was stored, the client goes on with the
next one. So a value that is stored twice was doubled by the hub.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import orjson

from benchmarks.faults.log import BROKEN, DONE, ENDLESS, LIMIT_SECONDS, REFUSED, Log
from patchbay.cid import cid_of
from patchbay.client.rooms.connection import make_envelope
from tests.hubs import modern_request
from tests.serving.running import Hub

ROOM = "/rooms/kept"
PAUSE_SECONDS = 0.1
STEPS = 8
LARGE_BYTES = 1_500_000
"""Bytes of a content that goes to a bucket, where there is one."""


class Refusal(Exception):
    """A hub answered with an error."""


class Client:
    """One connection of the operator to a node, opened again after a failure."""

    def __init__(self, hub: Hub, node: int, log: Log, ending: threading.Event) -> None:
        self.hub = hub
        self.node = node
        self.log = log
        self.ending = ending
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._token = hub.token()

    def ask(self, server: str, method: str, params: dict[str, Any], **more: Any) -> http.client.HTTPResponse:
        """Send a request of 2026-07-28; return the answer, whose body is not read yet. Raises as `open` does."""
        message, headers = modern_request(method, params, **more)
        known = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
        return self.open("POST", f"/mcp/{server}", orjson.dumps(message), **known)

    def open(self, method: str, path: str, body: bytes = b"", **headers: str) -> http.client.HTTPResponse:
        """Send a request; return the answer, whose body is not read yet. Raises OSError, HTTPException."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.hub.port, timeout=LIMIT_SECONDS)
        known = {"Authorization": f"Bearer {self._token}"} | {n.replace("_", "-"): v for n, v in headers.items()}
        self._connection.request(method, path, body, known)
        self._socket = self._connection.sock
        return self._connection.getresponse()

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
        """Send a request; return the body of its answer. Raises Refusal, OSError, HTTPException."""
        answer = self.open(method, path, body, **headers)
        data = answer.read()
        if answer.status not in (200, 201, 303):
            raise Refusal(f"{method} {path}: {answer.status} {data[:300]!r}")
        return data

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool; return its result. Raises as `send` does."""
        answer = self.ask("keeper", "tools/call", {"name": tool, "arguments": arguments})
        data = answer.read()
        frames = [data] if data.startswith(b"{") else list(data_of(data.splitlines()))
        found = orjson.loads(frames[-1]) if frames and frames[-1].startswith(b"{") else {}
        if "result" not in found or found["result"].get("isError"):
            raise Refusal(f"{tool}: {answer.status} {data[:300]!r}")
        return found["result"]

    def attempt(self, kind: str, work: Callable[[], object]) -> bool:
        """Do one operation and note how it ended; whether it was done."""
        begun = time.monotonic()
        try:
            work()
        except TimeoutError as problem:
            outcome, reason = ENDLESS, str(problem)
        except Refusal as problem:
            outcome, reason = REFUSED, str(problem)
        except (OSError, http.client.HTTPException) as problem:
            outcome, reason = BROKEN, f"{type(problem).__name__}: {problem}"
        else:
            outcome, reason = DONE, ""
        if outcome in (ENDLESS, BROKEN):
            self.close()
        if outcome == DONE or not self.ending.is_set():
            self.log.note(self.node, kind, begun, outcome, reason)
        return outcome == DONE

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            connection.close()

    def interrupt(self) -> None:
        """End what is read now."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def data_of(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the data of server-sent events, one line each."""
    return (
        line.removeprefix(b"data:").strip() for line in lines if line.startswith(b"data:") and line.strip() != b"data:"
    )


class SteadyClient(Client, ABC):
    """A client that does one operation after the other until the end of the load."""

    pause_seconds = PAUSE_SECONDS

    def run(self) -> None:
        """Do operations until the end of the load."""
        while not self.ending.wait(self.pause_seconds):
            self.step()
        self.close()

    @abstractmethod
    def step(self) -> None:
        """Do the next operations."""


class Writer(SteadyClient):
    """Writes the state of a tool, a variable, a content and a message in a room, each with a value of its own."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._number = 0
        self._session = ""

    def step(self) -> None:
        self._number += 1
        self._write(f"variables/w{self.node}", self._set_variable)
        self._write(f"state/keeper/k{self.node}", self._write_state)
        self.attempt("large content" if self._number % 10 == 0 else "content", self._write_content)
        self.attempt("message", self.post)
        self.attempt("reading", self._read_own)

    def _write(self, name: str, work: Callable[[str], object]) -> None:
        number = self._number
        self.log.tried.setdefault(name, []).append(number)
        if self.attempt(name.partition("/")[0], lambda: work(name)):
            self.log.written.setdefault(name, []).append(number)

    def _set_variable(self, name: str) -> None:
        self.send("PUT", f"/{name}", b"%d" % self._number, Content_Type="text/plain")

    def _write_state(self, name: str) -> None:
        found = self.call("remember", {"key": name.rpartition("/")[2], "number": self._number})
        if found["content"][0]["text"] != str(self._number):
            self.log.note_wrong(f"remember answered {found}")

    def _write_content(self) -> None:
        size = LARGE_BYTES if self._number % 10 == 0 else 1000
        content = f"{self.node} {self._number} ".encode().ljust(size, b".")
        self.send("POST", "/cid", content, Content_Type="application/octet-stream")
        with self.log.lock:
            self.log.contents[cid_of(content)] = size

    def post(self) -> None:
        """Post a message in the room. Raises as `send` does."""
        if not self._session:
            self._join()
        parts = [{"kind": "text", "mime": "text/plain", "text": f"{self.node} {self._number}"}]
        said = make_envelope("content.post", {"room": "kept", "message": {"role": "human", "parts": parts}})
        try:
            answer = orjson.loads(self._post(said, Enso_Session=self._session))
        except Refusal as problem:
            if ": 403 " in str(problem) or ": 404 " in str(problem):
                self._session = ""
            raise
        receipts = answer if isinstance(answer, list) else [answer]
        if not any(receipt.get("seq") is not None for receipt in receipts):
            raise Refusal(f"message: {answer}")
        with self.log.lock:
            self.log.envelopes[said["id"]] = time.monotonic()

    def _join(self) -> None:
        hello = make_envelope("hello", {"proto": "ENSO-1", "caps": ["can.speak"], "agent": {"name": f"w{self.node}"}})
        answer = self.open("POST", ROOM, orjson.dumps(hello), Content_Type="application/json")
        data = answer.read()
        self._session = answer.headers.get("Enso-Session", "")
        if answer.status not in (200, 201) or not self._session:
            raise Refusal(f"hello: {answer.status} {data[:300]!r}")

    def _post(self, said: dict[str, Any], **headers: str) -> bytes:
        return self.send("POST", ROOM, orjson.dumps(said), Content_Type="application/json", **headers)

    def _read_own(self) -> None:
        """Read the variable at the node that wrote it: it has the last acknowledged number, or one sent after it."""
        name = f"variables/w{self.node}"
        least = max(self.log.written.get(name, [0]))
        if not least:
            return
        found = int(orjson.loads(self.send("GET", f"/{name}.json"))["value"])
        if not least <= found <= self._number:
            self.log.note_wrong(f"{name} at the node that wrote {least}: {found}")


class Caller(SteadyClient):
    """Calls a tool, and reads a variable that another node writes."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._number = 0
        self._seen = 0

    def step(self) -> None:
        self._number += 1
        self.attempt("call", self._call)
        self.attempt("reading", self._read_other)

    def _call(self) -> None:
        text = f"{self.node}: {self._number}"
        found = self.call("say", {"text": text})
        if found["content"] != [{"type": "text", "text": text}]:
            self.log.note_wrong(f"say {text} answered {found}")
        with self.log.lock:
            self.log.audited.append((self.node, text))

    def _read_other(self) -> None:
        """Read what the next node writes: it never goes back, and is never what was not sent."""
        name = f"variables/w{(self.node + 1) % 3}"
        if not self.log.written.get(name):
            return
        found = int(orjson.loads(self.send("GET", f"/{name}.json"))["value"])
        if found < self._seen or found > self.log.tried[name][-1]:
            self.log.note_wrong(f"{name} at node {self.node}: {found} after {self._seen}")
        self._seen = max(self._seen, found)


class Streamer(SteadyClient):
    """Calls a tool that reports its progress, and reads its stream."""

    def step(self) -> None:
        self.attempt("stream", self._stream)

    def _stream(self) -> None:
        params = {"name": "work", "arguments": {"steps": STEPS}}
        answer = self.ask("keeper", "tools/call", params, meta={"progressToken": "t"})
        data = answer.read()
        if answer.status != 200:
            raise Refusal(f"stream: {answer.status} {data[:300]!r}")
        frames = [orjson.loads(one) for one in data_of(data.splitlines())]
        if not frames or "id" not in frames[-1]:
            raise ConnectionError("the stream ended without a result")
        if "result" not in frames[-1] or frames[-1]["result"].get("isError"):
            raise Refusal(f"stream: {frames[-1]}")
        steps = [frame["params"]["progress"] for frame in frames[:-1] if frame.get("method", "").endswith("progress")]
        if steps != sorted(set(steps)) or not set(steps) <= set(range(1, STEPS + 1)):
            self.log.note_wrong(f"the progress of a stream was {steps}")


class RoomListener(SteadyClient):
    """Reads the events of the room at a node, and after the end of the stream goes on behind the last event."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._last = "0"

    def step(self) -> None:
        self.attempt("room stream", self._listen)
        self.close()

    def _listen(self) -> None:
        answer = self.open("GET", f"{ROOM}/events", Last_Event_ID=self._last, Accept="text/event-stream")
        if answer.status != 200:
            raise Refusal(f"events: {answer.status} {answer.read()[:300]!r}")
        identifier = ""
        while not self.ending.is_set():
            line = answer.readline()
            if not line:
                raise ConnectionError("the stream of events ended")
            if line.startswith(b"id:"):
                identifier = line.removeprefix(b"id:").strip().decode()
            elif line.startswith(b"data:"):
                self._hear(orjson.loads(line.removeprefix(b"data:")), identifier)

    def _hear(self, envelope: dict[str, Any], identifier: str) -> None:
        if identifier:
            if int(identifier) <= int(self._last) and envelope.get("type") == "content.post":
                self.log.note_wrong(f"event {identifier} came after event {self._last}")
            self._last = identifier
        if envelope.get("type") == "content.post":
            self.log.heard[self.node].setdefault(envelope["id"], []).append(time.monotonic())
