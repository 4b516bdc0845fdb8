"""Reads the body of a request, and the headers that decide how it is read and answered.

A message that is not complete is never processed. A proxy may pass an empty body in place of a truncated one, or
exactly the limit in place of a longer one; so this module compares the lengths: never more than the limit, never less
than announced. A chunked body has to end as it says; it is refused with trailers, because the web server shows them
and a cut in the same way. The worker limits the bodies that are
read at once (`BODIES`), so that slow ones cannot hold every thread. Large bodies share a budget of bytes (`BODIES`)
while they arrive, and another until their request has ended or only listens. A body that arrives too slowly ends
with its connection (`front/slow_clients.py`).
Source: RFC 9110, section 8.6; RFC 9112, sections 6, 7.1 and 8.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import lru_cache
from typing import Any

from patchbay.access.principals import LOCAL_ID, PRINCIPAL, Principal
from patchbay.errors import InvalidRequest, PatchbayError, TooLarge
from patchbay.jsonrpc import Request, encode
from patchbay.text_cache import cached_by_text
from patchbay.wire.requests.at_work import AT_WORK, AtWork
from patchbay.wire.requests.body_budget import SMALL_BYTES, Bodies, Budget, parsed_size
from patchbay.wire.requests.rsgi import ARRIVED_SINCE, CLIENT

BODIES = "patchbay.bodies"
"""Name in the environ of the limits on bodies, and bytes, that are read at once; absent without limits."""

HELD = "patchbay.body_held"
"""Name in the environ of the bytes of the budget for parsed bodies that this request took, and of its caller; absent
for small bodies.
"""

LISTENING_META, LISTENING_PREFIXES = (
    frozenset(("progressToken", "traceparent", "tracestate", "baggage")),
    (
        "io.modelcontextprotocol/",
        "io.patchbay/",
    ),
)
"""The members of `_meta` that a stream keeps."""

PIECE_BYTES = 256 * 1024
"""Bytes of a large body in one read."""


METHODS_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))
"""Methods whose requests are read where they are answered; the body of others has no meaning (RFC 9110, 9.3)."""

BLIND_SERVER = "Granian"
"""SERVER_SOFTWARE of the web server whose WSGI interface shows a chunked body that is cut off as whole."""


class Unsupported(InvalidRequest):
    """A body of an unsupported media type or encoding."""

    status = 415


class LengthRequired(InvalidRequest):
    """The web server does not show whether a chunked body is whole."""

    status = 411

    def __init__(self) -> None:
        super().__init__("this web server does not say whether a chunked body is whole: send Content-Length")


class TooManyUploads(PatchbayError):
    """Too many slow bodies are arriving."""

    status = 503

    def __init__(self) -> None:
        super().__init__("too many requests are being sent here slowly; try again later")


class TooSlow(InvalidRequest):
    """A body did not arrive in time."""

    status = 408


@cached_by_text(256)
def media_type(content_type: str) -> str:
    """Return the media type of a `Content-Type` header, in lower case, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def check_json(environ: Mapping[str, Any]) -> None:
    """Check that a request declares its body as plain JSON. Raises Unsupported (415)."""
    kind = environ.get("CONTENT_TYPE") or ""
    if media_type(kind) != "application/json":
        raise Unsupported(f"Content-Type has to be application/json; it is {kind or 'missing'}")
    if environ.get("HTTP_CONTENT_ENCODING", "identity") != "identity":
        raise Unsupported("Content-Encoding is not served: send the body as it is")


class McpHeaders(Mapping[str, str]):
    """The `Mcp-*` headers of a request: lower-case names, values without the spaces and tabs around them.

    A header is read from the environ at each access, because most requests have one or two of them.
    """

    __slots__ = ("_environ",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a header, by its name in lower case."""
        value = self._environ.get(_environ_name(name)) if name.startswith("mcp-") else None
        return default if value is None else value.strip(" \t")

    def __getitem__(self, name: str) -> str:
        value: str | None = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return (name[5:].replace("_", "-").lower() for name in self._environ if name.startswith("HTTP_MCP_"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=1024)
def _environ_name(name: str) -> str:
    """Return a header's name in the form of WSGI."""
    return f"HTTP_{name.upper().replace('-', '_')}"


def read_body(environ: MutableMapping[str, Any], limit: int) -> bytes:
    """Return the body of a request, at most `limit` bytes.

    Raises TooLarge (413), InvalidRequest (400) for a body that is cut off or has trailers, TooSlow (408) for one that
    did not arrive in time, LengthRequired (411), TooManyUploads and TooManyBytes (503).
    """
    announced = _announced(environ.get("CONTENT_LENGTH"))
    if announced is not None and announced > limit:
        raise TooLarge(f"the body has {announced} bytes; expected at most {limit} (setting body_limit)")
    if announced is None and not _chunked(environ):
        return b""
    if announced is None and environ.get("SERVER_SOFTWARE") == BLIND_SERVER and CLIENT not in environ:
        raise LengthRequired
    wanted = limit + 1 if announced is None else announced
    begun = environ.get(ARRIVED_SINCE) or time.monotonic()
    try:
        body = _in_turn(environ, wanted)
    except (OSError, ValueError) as problem:  # what WSGI servers raise for a chunk that is cut off or malformed
        if _is_cut_off(environ, begun):
            raise TooSlow("the body did not arrive in time (setting idle_timeout)") from problem
        raise InvalidRequest(
            "the body is cut off, has a chunk that cannot be read, or has trailers: send it whole, without trailers"
        ) from problem
    if len(body) > limit:
        raise TooLarge(f"the body has more than {limit} bytes; expected at most {limit} (setting body_limit)")
    if announced is not None and len(body) < announced:
        if _is_cut_off(environ, begun):
            raise TooSlow(f"the body did not arrive in time: {len(body)} of {announced} bytes (setting idle_timeout)")
        raise InvalidRequest(f"the body ends after {len(body)} bytes; Content-Length says {announced}")
    return body


def drop_body(environ: MutableMapping[str, Any], limit: int) -> None:
    """Read and drop a body that nothing needs, so that a request whose body is cut off is refused like any other.

    Raises what read_body raises; does nothing for a request without a body.
    """
    if environ.get("CONTENT_LENGTH", "0") not in ("", "0") or "HTTP_TRANSFER_ENCODING" in environ:
        read_body(environ, limit)
        release_body(environ)


def _is_cut_off(environ: Mapping[str, Any], begun: float) -> bool:
    """Whether the hub ended a body that was too slow; otherwise its client did. `begun`: when the hub awaited it.

    The time alone does not show it: on a busy machine the thread of a request can begin to wait long after the bytes
    arrived from which the limit counts.
    """
    at_work: AtWork | None = environ.get(AT_WORK)
    if at_work is None:
        return False
    return environ.get(CLIENT) in at_work.cut_off or time.monotonic() - begun >= at_work.patience


def release_body(environ: MutableMapping[str, Any]) -> None:
    """Give back the bytes that the request took of the budget for parsed bodies; a second time does nothing."""
    held = environ.pop(HELD, None)
    if held:
        environ[BODIES].parsed.give_back(*held)


def without_padding(request: Request) -> Request:
    """Return the request of a stream without the members of `_meta` that no stream uses, which may be long."""
    meta = request.params.get("_meta")
    if not isinstance(meta, Mapping):
        return request
    used = {
        name: value for name, value in meta.items() if name in LISTENING_META or name.startswith(LISTENING_PREFIXES)
    }
    return Request(request.id, request.method, {**request.params, "_meta": used})


def is_small(request: Request) -> bool:
    """Whether a request that stays in memory for long needs no part of the budget."""
    return len(encode(request)) <= SMALL_BYTES


def _announced(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidRequest(f"Content-Length has to be a whole number; it is {text[:40]!r}")
    return int(text)


def _chunked(environ: Mapping[str, Any]) -> bool:
    return bool(environ.get("wsgi.input_terminated") or environ.get("HTTP_TRANSFER_ENCODING"))


def _in_turn(environ: MutableMapping[str, Any], wanted: int) -> bytes:
    bodies: Bodies | None = environ.get(BODIES)
    if bodies is None:
        return _apart(environ, wanted, _pieces)
    turn = bodies.turns.acquire(environ.get("REMOTE_ADDR", ""))
    if turn is None:
        raise TooManyUploads
    try:
        return _read(environ, wanted, bodies)
    finally:
        bodies.turns.give_back(turn)


def _read(environ: MutableMapping[str, Any], wanted: int, bodies: Bodies) -> bytes:
    if wanted <= SMALL_BYTES:
        return _apart(environ, wanted, _pieces)
    taken: list[int] = []
    caller = _caller(environ)
    try:
        body = _apart(environ, wanted, lambda stream, size: _counted(stream, size, bodies.arriving, taken))
        if len(body) > SMALL_BYTES:
            size = parsed_size(body)
            bodies.parsed.acquire(size, caller)
            environ[HELD] = (size, caller)
        return body
    finally:
        bodies.arriving.give_back(sum(taken))


def _caller(environ: Mapping[str, Any]) -> str:
    """Return the id of the caller whose share counts; "" where all callers are one principal."""
    sender: Principal | None = environ.get(PRINCIPAL)
    return "" if sender is None or sender.id == LOCAL_ID else sender.id


def _apart(environ: Mapping[str, Any], wanted: int, read: Callable[[Any, int], bytes]) -> bytes:
    at_work: AtWork | None = environ.get(AT_WORK)
    stream = environ["wsgi.input"]
    return read(stream, wanted) if at_work is None else at_work.apart(read, stream, wanted)


def _counted(stream: Any, wanted: int, budget: Budget, taken: list[int]) -> bytes:
    """Return a large body; count each piece before reading it, and append the counts to `taken`."""
    pieces: list[bytes] = []
    while wanted > 0:
        size = min(wanted, PIECE_BYTES)
        budget.acquire(size)
        taken.append(size)
        piece = _pieces(stream, size)
        pieces.append(piece)
        wanted -= len(piece)
        if len(piece) < size:
            break
    return b"".join(pieces)


def _pieces(stream: Any, wanted: int) -> bytes:
    pieces: list[bytes] = []
    while wanted > 0:
        piece = stream.read(wanted)
        if not piece:
            break
        pieces.append(piece)
        wanted -= len(piece)
    return b"".join(pieces)
