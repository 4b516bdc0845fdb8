"""A request as bytes and headers: the body by our own reader, the headers that decide how it is read and answered.

A server in front may hand over an empty body where it was cut, or exactly the limit where there was more;
so the lengths are compared here: never more than the limit, never less than was announced.
The worker bounds how many bodies are read at once (`UPLOADS`): those that arrive slowly cannot hold every thread.
One that arrives too slowly is cut off with its connection (`peers.py`), and reads as one that ends too early.
Sources: DESIGN section 11; THREATS 0.2 (M10, M11, M13, M17); REQUIREMENTS V-C7.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from threading import Semaphore
from typing import Any

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from patchbay.errors import InvalidRequest, PatchbayError, TooLarge
from patchbay.transports.peers import AT_WORK, AtWork

UPLOADS = "patchbay.uploads"
"""Name in the environ of the semaphore that bounds how many bodies are read at once; without one there is no bound."""

PATIENCE = 1.0
"""Seconds that a request waits for its turn to be read."""


class Unsupported(InvalidRequest):
    """A body of another kind than is taken here."""

    status = 415


class TooManyUploads(PatchbayError):
    """Too many bodies are on their way that do not arrive."""

    status = 503

    def __init__(self) -> None:
        super().__init__("too many requests are being sent here slowly; try again later")


class TooSlow(InvalidRequest):
    """A body was cut off because it did not arrive in time."""

    status = 408


@lru_cache(maxsize=256)
def accepted(accept: str) -> tuple[bool, bool]:
    """Whether an `Accept` header takes JSON and whether it takes a stream.

    A wildcard takes JSON; a stream has to be named (V-C7). Nothing sent takes nothing.
    """
    qualities = dict(parse_accept_header(accept, MIMEAccept))
    json = any(qualities.get(kind, 0) > 0 for kind in ("application/json", "application/*", "*/*"))
    return json, qualities.get("text/event-stream", 0) > 0


@lru_cache(maxsize=256)
def media_type(content_type: str) -> str:
    """The media type of a `Content-Type` header, in lower case, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def check_json(environ: Mapping[str, Any]) -> None:
    """Let a request pass whose body says that it is plain JSON; raises Unsupported (415)."""
    kind = environ.get("CONTENT_TYPE") or ""
    if media_type(kind) != "application/json":
        raise Unsupported(f"Content-Type has to be application/json; it is {kind or 'missing'}")
    if environ.get("HTTP_CONTENT_ENCODING", "identity") != "identity":
        raise Unsupported("Content-Encoding is not served: send the body as it is")


def headers_of(environ: Mapping[str, Any]) -> dict[str, str]:
    """The `Mcp-*` headers of a request: lower-case names, values without the blanks and tabs around them."""
    return {
        name[5:].replace("_", "-").lower(): value.strip(" \t")
        for name, value in environ.items()
        if name.startswith("HTTP_MCP_")
    }


def read_body(environ: Mapping[str, Any], limit: int) -> bytes:
    """The body of a request, at most `limit` bytes.

    Raises TooLarge (413), InvalidRequest (400) when the body is shorter than its Content-Length says, TooSlow (408)
    when that is because it was cut off, and TooManyUploads (503).
    """
    announced = _announced(environ.get("CONTENT_LENGTH"))
    if announced is not None and announced > limit:
        raise TooLarge(f"the body has {announced} bytes; {limit} are the most (setting body_limit)")
    if announced is None and not _chunked(environ):
        return b""
    wanted = limit + 1 if announced is None else announced
    begun = time.monotonic()
    body = _in_turn(environ, wanted)
    if len(body) > limit:
        raise TooLarge(f"the body has more than {limit} bytes, which are the most (setting body_limit)")
    if announced is not None and len(body) < announced:
        at_work: AtWork | None = environ.get(AT_WORK)
        if at_work is not None and time.monotonic() - begun >= at_work.patience:
            raise TooSlow(f"the body did not arrive in time: {len(body)} of {announced} bytes (setting idle_timeout)")
        raise InvalidRequest(f"the body ends after {len(body)} bytes; Content-Length says {announced}")
    return body


def _announced(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidRequest(f"Content-Length has to be a whole number; it is {text[:40]!r}")
    return int(text)


def _chunked(environ: Mapping[str, Any]) -> bool:
    return bool(environ.get("wsgi.input_terminated") or environ.get("HTTP_TRANSFER_ENCODING"))


def _in_turn(environ: Mapping[str, Any], wanted: int) -> bytes:
    turns: Semaphore | None = environ.get(UPLOADS)
    if turns is None:
        return _read(environ, wanted)
    # Without a timeout first: it is the quicker way, and the usual one.
    if not (turns.acquire(blocking=False) or turns.acquire(timeout=PATIENCE)):
        raise TooManyUploads
    try:
        return _read(environ, wanted)
    finally:
        turns.release()


def _read(environ: Mapping[str, Any], wanted: int) -> bytes:
    at_work: AtWork | None = environ.get(AT_WORK)
    stream = environ["wsgi.input"]
    return _pieces(stream, wanted) if at_work is None else at_work.apart(_pieces, stream, wanted)


def _pieces(stream: Any, wanted: int) -> bytes:
    pieces: list[bytes] = []
    while wanted > 0:
        piece = stream.read(wanted)
        if not piece:
            break
        pieces.append(piece)
        wanted -= len(piece)
    return b"".join(pieces)
