"""Answers over HTTP: status, headers, and a body that is bytes or a stream of frames.

Flask's request and response objects cost more than a tool call does; below /mcp nothing needs them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast

from patchbay.cid import cid_of
from patchbay.errors import InvalidRequest, PatchbayError
from patchbay.events import Wait, wait_blocking
from patchbay.jsonrpc import Failure, Message, Rendered, Result, encode, failure
from patchbay.threads.server_shares import ThreadPlace
from patchbay.wire.replies.accept import JSON, STREAM

StartResponse = Callable[..., Any]

Later = Generator[Wait | None, None, "Reply"]
"""The steps to an answer: at a Wait the thread may be left, and at None the client may have left."""


@dataclass(slots=True)
class Reply:
    """One answer. `at_close` is always called when the server is done with it.

    With `later`, the answer is known only after these steps: `settle` returns it. It has the headers of this one, too.
    The steps end when the client has left, if there is a `leave`: it cancels the call, from any thread.
    """

    status: int = 200
    body: bytes | Iterable[bytes] = b""
    kind: str | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    at_close: Callable[[], None] | None = None
    later: Later | None = None
    leave: Callable[[], None] | None = None

    @property
    def head(self) -> list[tuple[str, str]]:
        """All headers of the answer."""
        headers = [("X-Content-Type-Options", "nosniff"), *self.headers]
        if self.kind is not None:
            headers.append(("Content-Type", self.kind))
        # RFC 9110, 8.6: a 204 has no Content-Length.
        if isinstance(self.body, bytes) and self.status != 204:
            headers.append(("Content-Length", str(len(self.body))))
        return headers

    @property
    def status_line(self) -> str:
        """The status and its phrase."""
        return _line(self.status)

    @property
    def holds_thread(self) -> bool:
        """Whether sending the body takes a thread until its end: a stream that does not wait on the event loop."""
        return not isinstance(self.body, (bytes, ListeningBody))

    def call_at_close(self, callback: Callable[[], None]) -> None:
        """Add a function that is called when the web server is done with this reply."""
        earlier = self.at_close

        def close() -> None:
            try:
                if earlier is not None:
                    earlier()
            finally:
                callback()

        self.at_close = close

    def settle(self) -> Later:
        """Return the answer that can be sent. At each Wait the thread may be left until its end."""
        if self.later is None:
            return self
        reply = yield from self.later
        reply.headers += self.headers
        return reply

    def settle_on_thread(self) -> Reply:
        """Return the answer that can be sent; this thread waits until it is known."""
        steps = self.settle()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return cast(Reply, end.value)

    def send(self, start_response: StartResponse) -> Iterable[bytes]:
        """Begin an answer that is known; return the body for the server."""
        start_response(self.status_line, self.head)
        body = (self.body,) if isinstance(self.body, bytes) else self.body
        return body if self.at_close is None else ClosingBody(body, self.at_close)


class ListeningBody:
    """The body of a listening stream: frames, and a Wait when there is nothing to send.

    A WSGI server iterates over it and holds a thread for it; the front runs its `steps` without a thread.
    """

    def __init__(self, steps: Iterator[bytes | Wait]) -> None:
        self.steps = steps

    def __iter__(self) -> Iterator[bytes]:
        return wait_blocking(self.steps)

    def close(self) -> None:
        closing = getattr(self.steps, "close", None)
        if closing is not None:
            closing()


class CallBody:
    """The body of the stream of a call: frames, and a Wait where the call may leave its thread.

    A WSGI server iterates over the frames and holds a thread until the end. The front takes the steps on one thread
    after the other, and gives up the `place` while it waits.
    """

    place: ThreadPlace | None = None
    leave: Callable[[], None] | None = None
    """Cancels the call, from any thread; the front calls it when the client has left. Without it the call goes on."""
    rest: Callable[[Wait, Callable[[], None]], None] | None = None
    """Calls back after a Wait, from any thread; set by the front, for a body that goes on without its reader."""

    @abstractmethod
    def next_step(self) -> bytes | Wait | None:
        """Return the next frame or Wait; None at the end."""

    @abstractmethod
    def close(self) -> None:
        """End the body, where it is not at its end yet."""

    def __iter__(self) -> Iterator[bytes]:
        while (step := self.next_step()) is not None:
            if step and not isinstance(step, Wait):
                yield step


class ClosingBody:
    """A body with a callback at its end."""

    def __init__(self, body: Iterable[bytes], at_close: Callable[[], None]) -> None:
        self.body = body
        self._at_close = at_close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.body)

    def close(self) -> None:
        try:
            closing = getattr(self.body, "close", None)
            if closing is not None:
                closing()
        finally:
            self._at_close()


def listening_part(body: Iterable[bytes]) -> ListeningBody | None:
    """Return the ListeningBody that a body is or contains, or None."""
    inner = _inner(body)
    return inner if isinstance(inner, ListeningBody) else None


def call_part(body: Iterable[bytes]) -> CallBody | None:
    """Return the CallBody that a body is or contains, or None."""
    inner = _inner(body)
    return inner if isinstance(inner, CallBody) else None


def _inner(body: Iterable[bytes]) -> Iterable[bytes]:
    while isinstance(body, ClosingBody):
        body = body.body
    return body


@lru_cache(maxsize=64)
def _line(status: int) -> str:
    return f"{status} {HTTPStatus(status).phrase}"


def json_reply(answer: Message, status: int = 200) -> Reply:
    """Return one message as JSON; a rendered list has its CID as ETag, and 503 has a Retry-After header."""
    reply = Reply(status, encode(answer), JSON)
    retry_after = answer.retry_after if isinstance(answer, (Result, Failure)) else None
    if status == 503 or retry_after is not None:
        reply.headers.append(("Retry-After", str(retry_after or 5)))
    if isinstance(answer, Result) and isinstance(answer.result, Rendered):
        reply.headers.append(("ETag", f'"{_list_cid(answer.result.data)}"'))
    return reply


@lru_cache(maxsize=512)
def _list_cid(rendered: bytes) -> str:
    """Return the CID of a rendered list, from its exact bytes."""
    return cid_of(rendered)


def stream_reply(body: Iterable[bytes], kind: str = STREAM) -> Reply:
    """Return a stream, by default of events, with headers that tell proxies not to buffer it."""
    return Reply(200, body, kind, [("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")])


def refusal(status: int, sentence: str, *headers: tuple[str, str]) -> Reply:
    """Return the answer to a request that is refused before its message is read."""
    reply = json_reply(failure(None, InvalidRequest(sentence)), status)
    reply.headers += headers
    return reply


def busy(id: Any) -> Reply:
    """Return the answer for too many open streams."""
    return json_reply(failure(id, PatchbayError("too many open streams; try again later")), 503)
