"""One request over HTTP, the same whichever web server took it.

`rsgi.py` makes it for the front of `patchbay serve`, `wsgi.py` for every other web server. What the pipeline and the
endpoints know of a request is here.
Sources: RFC 9110, sections 5 and 6; PEP 3333.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from patchbay.access.principals import LOCAL, Principal
from patchbay.events import Wait
from patchbay.hosts.path_prefix import add_prefix
from patchbay.wire.requests.at_work import AtWork
from patchbay.wire.requests.body_budget import Bodies

Background = Callable[[Iterator[Wait]], None]
"""Runs steps to their end without a thread."""


class Readable(Protocol):
    """The bytes of a body: a file, or what arrives."""

    def read(self, size: int, /) -> bytes: ...


class Body:
    """The body of one request, which is read once (`bodies.py`), and what limits its reading.

    `stream` has its bytes. `since` is the monotonic time at which the wait for them began; None if it begins with the
    reading. `is_whole` says that all bytes have arrived that will arrive; `has_end` that the stream ends with the body,
    also without Content-Length; `shows_cuts` that a chunked body that is cut off raises an error. The pipeline sets
    `limits` and `at_work`. `held` are the bytes of the budget for parsed bodies that this request took, and whose.
    """

    __slots__ = ("at_work", "has_end", "held", "is_whole", "limits", "shows_cuts", "since", "stream")

    def __init__(
        self,
        stream: Readable | None = None,
        since: float | None = None,
        is_whole: bool = False,
        has_end: bool = True,
        shows_cuts: bool = True,
    ) -> None:
        self.stream: Readable = io.BytesIO() if stream is None else stream
        self.since = since
        self.is_whole = is_whole
        self.has_end = has_end
        self.shows_cuts = shows_cuts
        self.limits: Bodies | None = None
        self.at_work: AtWork | None = None
        self.held: tuple[int, str] | None = None

    def release(self) -> None:
        """Drop what was read, and give back its part of the budget for parsed bodies; a second time does nothing."""
        self.stream = io.BytesIO()
        held, self.held = self.held, None
        if held is not None and self.limits is not None:
            self.limits.parsed.give_back(*held)


class Request(NamedTuple):
    """A request. It never changes: `sent_by` returns another one. A tuple, because it is made quicker than a class.

    `path` begins with a slash, is decoded, has one character for each byte, and is without the `prefix` of the hub.
    `headers` has lower-case names; the lines of a repeated header are joined, those of `cookie` with `;`, others
    with `,`. `fault` says why a proxy could read this head in another way; "" for a good head. `address` is the IP
    address of the client, `connection` the other end of the connection (`address:port`), of a proxy too; each is "" if
    unknown. `sender` is the principal that sends the request, once it is authenticated.

    `background` runs what waits without a thread; None if the web server has no event loop for it. `may_upgrade` says
    that the request asks for a WebSocket and that the web server has WebSockets. `found` holds what was found out once
    about the request, such as a wrong token, which counts once.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Body
    found: dict[str, Any]
    address: str = ""
    connection: str = ""
    scheme: str = "http"
    prefix: str = ""
    fault: str = ""
    background: Background | None = None
    may_upgrade: bool = False
    sender: Principal = LOCAL

    def sent_by(self, sender: Principal) -> Request:
        """Return the request with its principal."""
        return self if sender is self.sender else self._replace(sender=sender)

    def link(self, path: str) -> str:
        """Return a path of the hub as the client of this request writes it."""
        return add_prefix(self.prefix, path)
