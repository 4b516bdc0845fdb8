"""Reads the body of a request, and the headers that decide how it is read and answered.

A message that is not complete is never processed. A proxy may pass an empty body in place of a truncated one, or
exactly the limit in place of a longer one; so this module compares the lengths: never more than the limit, never less
than announced. A chunked body has to end as it says; it is refused with trailers, because the web server shows them
and a cut in the same way. The worker limits the bodies that are
read at once (`body_budget.py`), so that slow ones cannot hold every thread. Large bodies share a budget of bytes
while they arrive, and another until their request has ended or only listens. A body that arrives too slowly ends
with its connection (`front/slow_clients.py`).
Source: RFC 9110, section 8.6; RFC 9112, sections 6, 7.1 and 8.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from patchbay import jsonrpc
from patchbay.access.principals import LOCAL_ID
from patchbay.errors import InvalidRequest, PatchbayError, TooLarge
from patchbay.text_cache import cached_by_text
from patchbay.wire.requests.body_budget import SMALL_BYTES, Bodies, Budget, parsed_size
from patchbay.wire.requests.request import Readable, Request

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


def check_json(request: Request) -> None:
    """Check that a request declares its body as plain JSON. Raises Unsupported (415)."""
    kind = request.headers.get("content-type") or ""
    if media_type(kind) != "application/json":
        raise Unsupported(f"Content-Type has to be application/json; it is {kind or 'missing'}")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Unsupported("Content-Encoding is not served: send the body as it is")


def mcp_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the `Mcp-*` headers: lower-case names, values without the spaces and tabs around them."""
    return {name: headers[name].strip(" \t") for name in _mcp_names("\n".join(headers))}


@cached_by_text(256)
def _mcp_names(names: str) -> tuple[str, ...]:
    """Return the names of `Mcp-*` headers among names, each on its own line."""
    return tuple(name for name in names.split("\n") if name.startswith("mcp-"))


def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request, at most `limit` bytes.

    Raises TooLarge (413), InvalidRequest (400) for a body that is cut off or has trailers, TooSlow (408) for one that
    did not arrive in time, LengthRequired (411), TooManyUploads and TooManyBytes (503).
    """
    announced = _checked_length(request, limit, "body_limit")
    if announced is None and not request.body.has_end:
        return b""
    wanted = limit + 1 if announced is None else announced
    begun = time.monotonic() if request.body.since is None else request.body.since
    try:
        body = request.body.stream.read(wanted) if request.body.is_whole else _in_turn(request, wanted)
    except (OSError, ValueError) as problem:
        raise _incomplete(request, begun) from problem
    _check_size(request, len(body), announced, (limit, "body_limit"), begun)
    return body


def pass_on_body(request: Request, limit: int, setting: str, take: Callable[[bytes], None]) -> int:
    """Give the body of a request to `take` in pieces of at most PIECE_BYTES; return the number of its bytes.

    The whole body is never in memory. `limit` is in bytes, and `setting` is its name. A body that announces more is
    refused before any of it is read. When this raises, `take` has a part of the body, which is worth nothing.
    Raises what `read_body` raises for a bad body, and what `take` raises.
    """
    announced = _checked_length(request, limit, setting)
    if announced is None and not request.body.has_end:
        return 0
    wanted = limit + 1 if announced is None else announced
    begun = time.monotonic() if request.body.since is None else request.body.since
    limits, turn = request.body.limits, None
    if limits is not None and not request.body.is_whole and (turn := limits.turns.acquire(request.address)) is None:
        raise TooManyUploads
    size = 0
    try:
        while size < wanted:
            try:
                piece = _apart(request, min(wanted - size, PIECE_BYTES), _pieces)
            except (OSError, ValueError) as problem:
                raise _incomplete(request, begun) from problem
            if not piece:
                break
            size += len(piece)
            if size <= limit:
                take(piece)
    finally:
        if limits is not None and turn is not None:
            limits.turns.give_back(turn)
    _check_size(request, size, announced, (limit, setting), begun)
    return size


def _checked_length(request: Request, limit: int, setting: str) -> int | None:
    """Return the announced length of a body, None for a chunked one. Raises TooLarge and LengthRequired."""
    announced = _announced(request.headers.get("content-length"))
    if announced is not None and announced > limit:
        raise TooLarge(f"the body has {announced} bytes; expected at most {limit} (setting {setting})")
    if announced is None and request.body.has_end and not request.body.shows_cuts:
        raise LengthRequired
    return announced


def _incomplete(request: Request, begun: float) -> InvalidRequest:
    """Return why a body could not be read: WSGI servers raise for a chunk that is cut off or malformed."""
    if _is_cut_off(request, begun):
        return TooSlow("the body did not arrive in time (setting idle_timeout)")
    return InvalidRequest(
        "the body is cut off, has a chunk that cannot be read, or has trailers: send it whole, without trailers"
    )


def _check_size(request: Request, size: int, announced: int | None, most: tuple[int, str], begun: float) -> None:
    """Check that a body is as long as announced, and within a limit of bytes, given with the name of its setting."""
    limit, setting = most
    if size > limit:
        raise TooLarge(f"the body has more than {limit} bytes; expected at most {limit} (setting {setting})")
    if announced is not None and size < announced:
        if _is_cut_off(request, begun):
            raise TooSlow(f"the body did not arrive in time: {size} of {announced} bytes (setting idle_timeout)")
        raise InvalidRequest(f"the body ends after {size} bytes; Content-Length says {announced}")


def drop_body(request: Request, limit: int) -> None:
    """Read and drop a body that nothing needs, so that a request whose body is cut off is refused like any other.

    Raises what read_body raises; does nothing for a request without a body.
    """
    headers = request.headers
    if headers.get("content-length", "0") not in ("", "0") or "transfer-encoding" in headers:
        read_body(request, limit)
        request.body.release()


def _is_cut_off(request: Request, begun: float) -> bool:
    """Whether the hub ended a body that was too slow; otherwise its client did. `begun`: when the hub awaited it.

    The time alone does not show it: on a busy machine the thread of a request can begin to wait long after the bytes
    arrived from which the limit counts.
    """
    at_work = request.body.at_work
    if at_work is None:
        return False
    return request.connection in at_work.cut_off or time.monotonic() - begun >= at_work.patience


def without_padding(request: jsonrpc.Request) -> jsonrpc.Request:
    """Return the request of a stream without the members of `_meta` that no stream uses, which may be long."""
    meta = request.params.get("_meta")
    if not isinstance(meta, Mapping):
        return request
    used = {
        name: value for name, value in meta.items() if name in LISTENING_META or name.startswith(LISTENING_PREFIXES)
    }
    return jsonrpc.Request(request.id, request.method, {**request.params, "_meta": used})


def is_small(request: jsonrpc.Request) -> bool:
    """Whether a request that stays in memory for long needs no part of the budget."""
    return len(jsonrpc.encode(request)) <= SMALL_BYTES


def _announced(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidRequest(f"Content-Length has to be a whole number; it is {text[:40]!r}")
    return int(text)


def _in_turn(request: Request, wanted: int) -> bytes:
    limits = request.body.limits
    if limits is None:
        return _apart(request, wanted, _pieces)
    turn = limits.turns.acquire(request.address)
    if turn is None:
        raise TooManyUploads
    try:
        return _read(request, wanted, limits)
    finally:
        limits.turns.give_back(turn)


def _read(request: Request, wanted: int, limits: Bodies) -> bytes:
    if wanted <= SMALL_BYTES:
        return _apart(request, wanted, _pieces)
    taken: list[int] = []
    caller = "" if request.sender.id == LOCAL_ID else request.sender.id
    try:
        body = _apart(request, wanted, lambda stream, size: _counted(stream, size, limits.arriving, taken))
        if len(body) > SMALL_BYTES:
            size = parsed_size(body)
            limits.parsed.acquire(size, caller)
            request.body.held = (size, caller)
        return body
    finally:
        limits.arriving.give_back(sum(taken))


def _apart(request: Request, wanted: int, read: Callable[[Readable, int], bytes]) -> bytes:
    body = request.body
    return read(body.stream, wanted) if body.at_work is None else body.at_work.apart(read, body.stream, wanted)


def _counted(stream: Readable, wanted: int, budget: Budget, taken: list[int]) -> bytes:
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


def _pieces(stream: Readable, wanted: int) -> bytes:
    pieces: list[bytes] = []
    while wanted > 0:
        piece = stream.read(wanted)
        if not piece:
            break
        pieces.append(piece)
        wanted -= len(piece)
    return b"".join(pieces)
