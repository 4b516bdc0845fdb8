"""Plays a conversation against a hub in this process, over HTTP or over a pipe, or against the hub of a HubStage.

An answer over HTTP is read as it comes, in this thread; nothing here waits longer than the bound of all tests.
Over a pipe there are no statuses and headers, so they are left out; messages of several channels share it, so each
expectation takes the first message that fits, in order within one answer, and none may be left over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from tests.hubs import BOTH, modern_request, path
from tests.waiting import BOUND
from tests.wire.happenings import Stage
from tests.wire.patterns import Mismatch, Words, fill, match
from tests.wire.scripts import Expected, Happening, Opened, Said, Script
from tests.wire.talks import Talk

_NEVER = threading.Event()
CLIENT = {"name": "wire", "version": "1"}


class Unexpected(AssertionError):
    """The hub did not say what the conversation expects."""

    def __init__(self, line: int, sentence: object) -> None:
        super().__init__(f"line {line}: {sentence}")


@dataclass(frozen=True)
class Event:
    """One message, alone or as an event of a stream."""

    message: Any = None
    id: str | None = None
    retry: str | None = None


@dataclass
class Client:
    """What the client of a conversation knows: the words that are bound, whom it talks to, its revision."""

    server: str
    words: Words = field(default_factory=dict)
    version: str | None = None
    session: str | None = None

    def message(self, said: Said) -> tuple[Any, dict[str, str]]:
        """The JSON value and the headers of a request that is not given in bytes."""
        words = fill(said.words, self.words)
        if said.kind == "modern":
            meta, capabilities = fill(said.meta, self.words), fill(said.capabilities, self.words)
            return modern_request(words[1], words[2], capabilities, meta, id=words[0])
        headers = {"MCP-Protocol-Version": self.version} if self.version else {}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if said.kind == "reply":
            return {"jsonrpc": "2.0", "id": words[0], "result": words[1]}, headers
        id = {"id": words[0]} if said.kind == "legacy" else {}
        method, params = words[-2:]
        return {"jsonrpc": "2.0", **id, "method": method} | ({} if params is None else {"params": params}), headers

    def initialize(self, opened: Opened) -> dict[str, Any]:
        """The request that opens a session."""
        params = {"protocolVersion": opened.version, "capabilities": opened.capabilities, "clientInfo": CLIENT}
        return {"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params}

    def expect(self, line: int, pattern: Any, value: Any, exactly: bool = False) -> None:
        """Match, and keep what was bound. Raises Unexpected."""
        try:
            self.words = match(pattern, value, self.words, exactly)
        except Mismatch as problem:
            raise Unexpected(line, f"{problem}; all of it: {value!r}") from problem


class Answer:
    """One answer over HTTP. `line` is that of its request.

    `checked` says that something was expected of it, `heard` that something was of its body, and `skipping` that
    anything may come before the next message that is expected.
    """

    def __init__(self, response: Any, line: int) -> None:
        self.status: int = response.status_code
        self.headers = response.headers
        self.line = line
        self.checked = self.heard = self.skipping = False
        self._response = response
        self._events = self._streamed() if response.mimetype == "text/event-stream" else self._whole()

    def take(self) -> Event | None:
        """The next event, None at the end. Raises Unexpected when none comes."""
        return next(self._events, None)

    def text(self) -> str:
        return str(self._response.get_data(as_text=True))

    def close(self) -> None:
        self._response.close()

    def _whole(self) -> Iterator[Event]:
        body = self._response.get_data()
        if body:
            yield Event(orjson.loads(body) if self._response.mimetype == "application/json" else body.decode())

    def _streamed(self) -> Iterator[Event]:
        end = time.monotonic() + BOUND
        held = ""
        for frame in self._response.response:
            *blocks, held = (held + frame.decode()).split("\n\n")
            for block in blocks:
                event = _event(block)
                if event is not None:
                    end = time.monotonic() + BOUND
                    yield event
            if time.monotonic() > end:
                raise Unexpected(self.line, f"waited {BOUND} s in vain for the next message")


def _event(block: str) -> Event | None:
    """One block of a stream; None for a comment."""
    fields = dict(line.partition(": ")[::2] for line in block.split("\n") if not line.startswith(":"))
    data = fields.get("data", "").strip()
    return Event(orjson.loads(data) if data else None, fields.get("id"), fields.get("retry")) if fields else None


class HttpStage(Protocol):
    """The hub of a conversation over HTTP."""

    def request(self, address: str, verb: str, headers: list[tuple[str, str]], data: bytes | None) -> Any:
        """Send a request; return the answer as Werkzeug's test client does, before its body is read."""

    def happen(self, words: list[str], bound: Words) -> None:
        """Let something happen at the hub."""


class OverHttp:
    """Plays over HTTP."""

    def __init__(self, stage: HttpStage, script: Script) -> None:
        self._stage = stage
        self._script = script
        self._client = Client(script.server)
        self._answers: dict[str, Answer] = {}

    @property
    def words(self) -> Words:
        """The words that the conversation has bound so far."""
        return self._client.words

    def play(self) -> None:
        """Play it all. Raises Unexpected at the first line that is not as it should be."""
        try:
            for step in self._script.steps:
                if isinstance(step, Happening):
                    self._complete("")
                    self._stage.happen(step.words, self._client.words)
                elif isinstance(step, Opened):
                    self._open(step)
                elif isinstance(step, Said):
                    self._say(step)
                else:
                    self._expect(step, self._answers[step.channel])
            self._complete("")
        finally:
            for answer in self._answers.values():
                answer.close()

    def _open(self, opened: Opened) -> None:
        self._complete("")
        # Read here and now, so nothing is left to be expected of it.
        answer = self._send(opened.line, "POST", self._client.server, {}, self._client.initialize(opened))
        event = answer.take()
        answer.close()
        if answer.status != 200 or event is None or "result" not in event.message:
            raise Unexpected(opened.line, f"initialize was answered by {answer.status}: {event}")
        self._client.version = event.message["result"]["protocolVersion"]
        self._client.session = self._client.words[opened.name] = answer.headers["Mcp-Session-Id"]

    def _say(self, said: Said) -> None:
        if said.kind == "close":
            self._answers.pop(said.channel).close()
            return
        self._complete("")
        self._complete(said.channel)
        server = self._client.server if said.server is None else said.server
        if said.kind in ("modern", "legacy", "note", "reply"):
            body, headers = self._client.message(said)
            verb, where = "POST", server
        else:
            body, headers, verb, where = said.body, {}, said.kind, fill(said.words[0], self._client.words)
        given = [
            (name, fill(value, self._client.words) if value != "<absent>" else value) for name, value in said.headers
        ]
        self._answers[said.channel] = self._send(said.line, verb, where, headers, body, given)

    def _send(
        self,
        line: int,
        verb: str,
        where: str,
        headers: dict[str, str],
        body: Any,
        given: list[tuple[str, str]] | None = None,
    ) -> Answer:
        if verb == "POST":
            headers = {"Content-Type": "application/json", "Accept": BOTH} | headers
        given = given or []
        named = {name.lower() for name, _ in given}
        kept = [(name, value) for name, value in {"Host": "localhost", **headers}.items() if name.lower() not in named]
        sent = kept + [(name, str(value)) for name, value in given if value != "<absent>"]
        # What was written as text goes out as it is; what was put together goes out as JSON.
        data = fill(body, self._client.words).encode() if isinstance(body, str) else body and orjson.dumps(body)
        address = where if where.startswith("/") else path("" if where == "*" else where)
        return Answer(self._stage.request(address, verb, sent, data), line)

    def _expect(self, expected: Expected, answer: Answer) -> None:
        client, kind = self._client, expected.kind
        answer.checked = True
        answer.heard |= kind not in ("status", "header")
        if kind == "status":
            if answer.status != expected.value:
                event = answer.take()
                raise Unexpected(expected.line, f"the status is {answer.status}: {event}")
        elif kind == "header":
            found = answer.headers.get(expected.name)
            client.expect(expected.line, {"h": expected.value}, {} if found is None else {"h": found})
        elif kind == "text":
            client.expect(expected.line, expected.value, answer.text())
        elif kind in ("nothing", "end"):
            event = answer.take()
            if event is not None:
                raise Unexpected(expected.line, f"expected nothing more, found {event}")
        elif kind == "...":
            answer.skipping = True
        else:
            self._next(expected, answer)

    def _next(self, expected: Expected, answer: Answer) -> None:
        """The next event has to fit or, after `...`, one that comes later."""
        while True:
            event = answer.take()
            if event is None:
                raise Unexpected(expected.line, f"nothing came any more (status {answer.status})")
            try:
                self._fits(expected, event)
            except Unexpected:
                if not answer.skipping:
                    raise
            else:
                answer.skipping = False
                return

    def _fits(self, expected: Expected, event: Event) -> None:
        if expected.kind == "message":
            if event.message is None:
                raise Unexpected(expected.line, f"an event without a message: {event}")
            self._client.expect(expected.line, expected.value, event.message, expected.exactly)
            return
        wanted = {name: "<absent>" if value is None else value for name, value in expected.value.items()}
        found = {"id": event.id, "retry": event.retry, "message": event.message}
        there = {name: value for name, value in found.items() if value is not None}
        self._client.expect(expected.line, wanted, there)

    def _complete(self, channel: str) -> None:
        """Be done with the answer on a channel; one without a name is complete, with nothing unexpected in it."""
        answer = self._answers.pop(channel, None)
        if answer is None:
            return
        event = None if channel else answer.take()
        if answer.heard and event is not None and not answer.skipping:
            raise Unexpected(answer.line, f"more came than was expected: {event}")
        # Where only the status was looked at, the body has to agree with it.
        failed = event is not None and isinstance(event.message, dict) and "error" in event.message
        if not answer.heard and answer.status < 300 and failed:
            raise Unexpected(answer.line, f"the answer is an error: {event}")
        if not answer.checked and answer.status >= 300:
            raise Unexpected(answer.line, f"the status is {answer.status}: {event}")
        answer.close()


class OverPipe:
    """Plays over a pair of byte streams."""

    def __init__(self, stage: Stage, script: Script, seconds: float) -> None:
        self._stage = stage
        self._script = script
        self._seconds = seconds
        self._client = Client(script.server)
        self._talk = Talk(stage.hub, script.server)
        self._taken: list[int] = []
        self._open: dict[str, Any] = {}
        self._last: dict[str, int] = {}
        self._skipping: set[str] = set()

    def play(self) -> None:
        """Play it all. Raises Unexpected at the first line that is not as it should be."""
        try:
            for place, step in enumerate(self._script.steps):
                self._step(place, step)
            for id in self._open.values():
                self._talk.note("notifications/cancelled", requestId=id)
            assert self._talk.end(), "something is still being answered"
            left = [one for place, one in enumerate(self._talk.said) if place not in self._taken]
            if left:
                raise Unexpected(0, f"more came than was expected: {left}")
        finally:
            self._talk.close()

    def _step(self, place: int, step: Any) -> None:
        if isinstance(step, Happening):
            self._stage.happen(step.words, self._client.words)
        elif isinstance(step, Opened):
            self._talk.send(self._client.initialize(step))
            answer = self._next(step.line, {"id": "init", "result": "<any>"}, "")
            self._client.version = answer["result"]["protocolVersion"]
            self._talk.note("notifications/initialized")
        elif isinstance(step, Said):
            self._say(step)
            following = self._script.steps[place + 1 : place + 2]
            alone = not (following and isinstance(following[0], Expected) and following[0].channel == step.channel)
            if alone and step.kind in ("modern", "legacy"):
                self._next(step.line, {"id": step.words[0], "result": "<any>"}, step.channel)
        elif step.kind == "...":
            self._skipping.add(step.channel)
        elif step.kind in ("message", "event"):
            pattern = step.value if step.kind == "message" else step.value["message"]
            self._next(step.line, pattern, step.channel, step.exactly)

    def _say(self, said: Said) -> None:
        self._last[said.channel] = -1
        if said.kind == "close":
            self._talk.note("notifications/cancelled", requestId=self._open.pop(said.channel))
        elif said.kind == "POST":
            self._talk.raw(fill(said.body, self._client.words).encode() + b"\n")
        else:
            message, _ = self._client.message(said)
            self._talk.send(message)
            if said.channel:
                self._open[said.channel] = message.get("id")

    def _next(self, line: int, pattern: Any, channel: str, exactly: bool = False) -> Any:
        """Take the first message that fits and was not taken, after the one this channel took before."""

        def found() -> list[Any]:
            said = list(self._talk.said)
            for place in range(self._last.get(channel, -1) + 1, len(said)):
                if place not in self._taken and self._fits(pattern, said[place], exactly):
                    begin = self._last.get(channel, -1) + 1 if channel in self._skipping else place
                    self._skipping.discard(channel)
                    self._taken += range(begin, place + 1)
                    self._last[channel] = place
                    return [said[place]]
            return []

        end = time.monotonic() + self._seconds
        while not (taken := found()):
            if time.monotonic() > end:
                left = [one for place, one in enumerate(self._talk.said) if place not in self._taken]
                raise Unexpected(line, f"nothing fits {pattern!r}; there is {left}")
            _NEVER.wait(0.005)
        return taken[0]

    def _fits(self, pattern: Any, value: Any, exactly: bool) -> bool:
        try:
            self._client.words = match(pattern, value, self._client.words, exactly)
        except Mismatch:
            return False
        return True


def play(stage: Stage, script: Script, over: str, seconds: float = BOUND) -> None:
    """Play a conversation over `http` or `stdio`; each message on a pipe is waited for so many seconds."""
    if over == "http":
        OverHttp(stage, script).play()
    else:
        OverPipe(stage, script, seconds).play()
