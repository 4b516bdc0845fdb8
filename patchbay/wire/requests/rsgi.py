"""Makes a Request out of one that the hub's own web server took, and a file out of its body.

The interface between the two has the names of RSGI, which other web servers offer too:
https://github.com/emmett-framework/granian/blob/master/docs/spec/RSGI.md. Here alone the head is seen as it was sent:
each line of a repeated header, and underscores in names.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from patchbay.hosts.path_prefix import strip_prefix
from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.wire.requests.request import Background, Body, Request

COLLECTED_BYTES = 16 * 1024
"""Bodies that announce at most this size are awaited before their request takes a thread."""

_TRUSTED = (
    *("accept", "access-control-", "cf-", "content-", "enso-", "fly-", "if-", "last-event-", "mcp-", "sec-"),
    *("transfer-", "true-client-", "user-agent", "x-client-", "x-envoy-", "x-forwarded-", "x-original-", "x-real-"),
)
"""Beginnings of the names of the headers that decide something in the hub, of those with several words."""

_SINGLE = frozenset(("authorization", "content-type", "dpop", "enso-session", "host", "last-event-id", "origin"))
"""Headers that a request has once, beside `Mcp-*` and `Sec-Fetch-*`."""


UNDERSCORED = "a header has an underscore in its name: expected hyphens, as in Content-Type"


class Headers(Protocol):
    """The headers of a request: lower-case names. `get` returns the first line of a header, `get_all` each of them."""

    def __len__(self) -> int: ...
    def get(self, key: str, default: Any = None) -> Any: ...
    def get_all(self, key: str) -> list[str]: ...
    def keys(self) -> list[str]: ...
    def items(self) -> list[tuple[str, str]]: ...


class Scope(Protocol):
    """The head of a request. `client` and `server` are `address:port`. Each read of `headers` copies them."""

    proto: str
    http_version: str
    server: str
    client: str
    scheme: str
    method: str
    path: str
    query_string: str
    authority: str | None
    headers: Headers


class Future(Protocol):
    """A result of the web server that comes later; its callbacks run on a thread of the web server."""

    def add_done_callback(self, callback: Callable[[Future], None], context: Any) -> None: ...
    def result(self) -> Any: ...
    def cancel(self) -> bool: ...


class Stream(Protocol):
    """The open body of an answer. If data cannot be sent, the returned awaitable raises."""

    def send_bytes(self, data: bytes) -> Any: ...
    def cut(self) -> None: ...


class HttpProtocol(Protocol):
    """One request and its answer."""

    def __call__(self) -> Future: ...
    def __aiter__(self) -> Any: ...
    def __anext__(self) -> Any: ...
    def client_disconnect(self) -> Future: ...
    def response_empty(self, status: int, headers: list[tuple[str, str]]) -> None: ...
    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...
    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Stream: ...


@lru_cache(maxsize=4096)
def address(text: str) -> tuple[str, str]:
    """Host without brackets, and port, of `127.0.0.1:80` or `[::1]:80`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), port


@lru_cache(maxsize=4096)
def _ends(client: str) -> tuple[str, str]:
    """The address of the other end of a connection, and the connection as its `address:port` without brackets."""
    host, port = address(client)
    return host, f"{host}:{port}"


class RsgiRequests:
    """Makes the requests of one worker: behind these proxies, and below this prefix of the hub."""

    def __init__(self, proxies: TrustedProxies, prefix: str, background: Background | None) -> None:
        self._proxies = proxies
        self._prefix = prefix
        self._background = background

    def make(self, scope: Scope, lines: Headers, body: Body, may_upgrade: bool = False) -> Request:
        """Return the request of a scope. `lines` are the headers of the scope."""
        pairs = lines.items()
        headers, fault = dict(pairs), ""
        # The pairs have each line of a repeated header; they lack values that are not ASCII.
        if not len(headers) == len(pairs) == len(lines) or "_" in "".join(headers):
            headers, fault = _join(lines)
        authority = scope.authority
        if authority is not None or "transfer-encoding" in headers:
            found = _find_fault(authority, headers)
            fault = fault if fault == UNDERSCORED else found or fault
        headers.setdefault("host", "")
        path, query = scope.path, scope.query_string
        path = path if path.isascii() else path.encode().decode("latin-1")
        peer, connection = _ends(scope.client)
        return Request(
            scope.method,
            strip_prefix(self._prefix, path) if self._prefix else path,
            query if query.isascii() else query.encode().decode("latin-1"),
            headers,
            body,
            {},
            self._proxies.find_client(peer, headers.get("x-forwarded-for")),
            connection,
            scope.scheme,
            self._prefix,
            fault,
            self._background,
            may_upgrade,
        )


def _join(lines: Headers) -> tuple[dict[str, str], str]:
    """Return the headers with their lines joined, and the fault of such a head, "" for none.

    A header with an underscore in its name is left out, because WSGI has one name for it and for the one with hyphens.
    """
    headers: dict[str, str] = {}
    fault = ""
    for name, value in lines.items():
        if "_" in name:
            continue
        if name in headers:
            if name in _SINGLE or name.startswith(("mcp-", "sec-fetch-")):
                fault = f"the request has several {name} headers: expected one at most"
            value = f"{headers[name]}{';' if name == 'cookie' else ','}{value}"
        headers[name] = value
    for name in lines.keys():  # noqa: SIM118
        # The web server leaves out a value that is not ASCII; checks of headers must see that one was sent.
        if "_" not in name:
            headers.setdefault(name, "")
        elif name.replace("_", "-").startswith(_TRUSTED):
            fault = UNDERSCORED
    return headers, fault


def _find_fault(authority: str | None, headers: dict[str, str]) -> str:
    """Return why a proxy could read the target or the length in another way; add the host of the target."""
    fault = ""
    if authority is not None and headers.setdefault("host", authority).lower() != authority.lower():
        fault = "the request names two hosts: expected the same one in its target and in Host"
    if headers.get("transfer-encoding", "chunked").lower() != "chunked":
        fault = "the body has an unknown Transfer-Encoding: expected chunked, once"
    return fault


class IncompleteBody(OSError):
    """A body without a proper end: its connection ended, or a chunk or what follows the last chunk cannot be read."""


class ArrivingBody(io.RawIOBase):
    """A body that is read while it arrives. One thread reads it."""

    def __init__(self, protocol: HttpProtocol) -> None:
        self._protocol = protocol
        self._begun = self._ended = False
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with arrived bytes, and wait for the first ones if needed; return 0 at the end.

        Raises IncompleteBody.
        """
        if not self._rest and not self._ended:
            self._rest = memoryview(self._next() or self._end())
            self._ended = not self._rest
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def _end(self) -> bytes:
        """Return nothing at the end of a whole body, or the bytes after an empty piece. Raises IncompleteBody.

        The web server gives an empty piece at the end of a body, and in place of an error or of trailers. After the
        end alone it has no further piece.
        """
        try:
            piece = self._next()
        except StopAsyncIteration:
            return b""
        if piece:
            return piece
        raise IncompleteBody

    def _next(self) -> bytes:
        if not self._begun:
            self._begun = True
            self._protocol.__aiter__()
        arrived = threading.Lock()
        arrived.acquire()
        future = self._protocol.__anext__()
        future.add_done_callback(lambda _: arrived.release(), None)
        arrived.acquire()
        return bytes(future.result())
