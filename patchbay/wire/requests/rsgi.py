"""A request of the web server's native interface (RSGI) as a WSGI environ, and its body as a file.

Granian describes the interface: https://github.com/emmett-framework/granian/blob/master/docs/spec/RSGI.md; the environ
is that of PEP 3333, with the same joined headers that Granian's own WSGI interface makes.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from patchbay.text_cache import cached_by_text

COLLECTED_BYTES = 16 * 1024
"""Bodies that announce at most this size are awaited before their request takes a thread."""

ARRIVED_SINCE = "patchbay.arriving_since"
"""Name in the environ of the monotonic time at which the wait for a collected body began."""

CLIENT = "patchbay.client"
"""Name in the environ of the other end of the connection: `127.0.0.1:4711` or `::1:4711`, of a proxy too."""

WAITING = "patchbay.waiting"
"""Name in the environ of the runner of waiting streams (`waiting_streams.py`); absent under other WSGI servers."""

AMBIGUOUS = "patchbay.ambiguous"
"""Name in the environ of the reason why a proxy could read the head in another way; absent for a good head."""

_UNDERSCORED = "patchbay.underscored"
_IGNORED = "patchbay.ignored"

_TRUSTED = (
    *("accept", "access-control-", "cf-", "content-", "enso-", "fly-", "if-", "last-event-", "mcp-", "sec-"),
    *("transfer-", "true-client-", "user-agent", "x-client-", "x-envoy-", "x-forwarded-", "x-original-", "x-real-"),
)
"""Beginnings of the names of the headers that decide something in the hub, of those with several words."""

_SINGLE = frozenset(
    f"HTTP_{name}" for name in ("AUTHORIZATION", "DPOP", "ENSO_SESSION", "HOST", "LAST_EVENT_ID", "ORIGIN")
) | {"CONTENT_TYPE"}
"""Headers that a request has once, beside `Mcp-*` and `Sec-Fetch-*`."""

_CONSTANT: Mapping[str, Any] = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "Granian",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,
    "wsgi.multiprocess": False,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}


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


class HttpProtocol(Protocol):
    """One request and its answer."""

    def __call__(self) -> Future: ...
    def __aiter__(self) -> Any: ...
    def __anext__(self) -> Any: ...
    def client_disconnect(self) -> Future: ...
    def response_empty(self, status: int, headers: list[tuple[str, str]]) -> None: ...
    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...
    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Stream: ...


def environ_of(scope: Scope, headers: Headers, body: io.IOBase) -> dict[str, Any]:
    """The WSGI environ of a request. `headers` are those of its scope.

    A header with an underscore in its name is left out, because WSGI has one name for it and for the one with hyphens.
    """
    server, port = address(scope.server)
    path, query = scope.path, scope.query_string
    environ = {
        **_CONSTANT,
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "SERVER_NAME": server,
        "SERVER_PORT": port,
        "REMOTE_ADDR": address(scope.client)[0],
        "REQUEST_METHOD": scope.method,
        "PATH_INFO": path if path.isascii() else path.encode().decode("latin-1"),
        "QUERY_STRING": query if query.isascii() else query.encode().decode("latin-1"),
        "wsgi.url_scheme": scope.scheme,
        "wsgi.input": body,
    }
    plain = len(environ)
    for header, value in headers.items():
        name = variable(header)
        if name in environ:
            if name in _SINGLE or name.startswith(("HTTP_MCP_", "HTTP_SEC_FETCH_")):
                environ[AMBIGUOUS] = f"the request has several {header} headers: expected one at most"
            value = f"{environ[name]}{';' if name == 'HTTP_COOKIE' else ','}{value}"
        environ[name] = value
    if len(environ) - plain < len(headers):
        # The web server leaves out a value that is not ASCII; checks of headers must see that one was sent.
        for header in headers.keys():  # noqa: SIM118
            environ.setdefault(variable(header), "")
    authority = scope.authority
    if authority is not None and environ.setdefault("HTTP_HOST", authority).lower() != authority.lower():
        environ[AMBIGUOUS] = "the request names two hosts: expected the same one in its target and in Host"
    if environ.get("HTTP_TRANSFER_ENCODING", "chunked").lower() != "chunked":
        environ[AMBIGUOUS] = "the body has an unknown Transfer-Encoding: expected chunked, once"
    if _UNDERSCORED in environ:
        environ[AMBIGUOUS] = "a header has an underscore in its name: expected hyphens, as in Content-Type"
    environ.setdefault("HTTP_HOST", "")
    return environ


@lru_cache(maxsize=4096)
def address(text: str) -> tuple[str, str]:
    """Host without brackets, and port, of `127.0.0.1:80` or `[::1]:80`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), port


@cached_by_text(1024)
def variable(header: str) -> str:
    """The name of a header in an environ."""
    if "_" in header:
        return _UNDERSCORED if header.replace("_", "-").startswith(_TRUSTED) else _IGNORED
    name = header.upper().replace("-", "_")
    return name if header in ("content-type", "content-length") else f"HTTP_{name}"


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
