"""The requests of HTTP that a proxy gets: CONNECT for a tunnel, and URLs of plain HTTP, each checked by itself.

Each request of a connection is read to its end and sent anew: what follows it is another request, whose host is checked
like that of the first one. `Host` is made from the URL, fields of the connection are left out, and each request to a
host has a connection of its own. A request whose length could be read in two ways is refused.

Sources: RFC 9110 sections 7.6.1 (fields of the connection), 9.3.6 (CONNECT) and 15.2 (interim answers); RFC 9112
sections 3.2 and 6.3; RFC 9209 (`Proxy-Status`).
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus

import h11

from patchbay.client.egress.destinations import Destinations, EgressFailed, EgressRefused
from patchbay.client.egress.limits import BUFFER_BYTES, EgressLimits
from patchbay.client.egress.relaying import Ends, opened, relay
from patchbay.processes.egress.egress_list import EgressEntryError, parse_port

MAX_HEAD_BYTES = 65536
"""Bytes of the line and the fields of one request or answer."""

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\s]+)(?::([0-9]*))?", re.ASCII)
_URL = re.compile(r"http://([^/?#]*)(/[^#]*|\?[^#]*|)", re.IGNORECASE)
CONNECTION_FIELDS = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"proxy-authorization", b"te", b"upgrade", b"host")
)
"""Fields that are for this proxy, or that it makes itself; beside those that `Connection` names."""

Headers = list[tuple[bytes, bytes]]


class _Answered(Exception):
    """A request is answered with an error, and the connection ends."""

    def __init__(self, status: int, message: str, error: str) -> None:
        super().__init__(message)
        self.status, self.message, self.error = status, message, error


async def serve_http(program: Ends, destinations: Destinations, first: bytes, limits: EgressLimits) -> None:
    """Serve a connection, whose first byte is read, until one side ends it."""
    own = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
    own.receive_data(first)
    seconds = limits.request
    try:
        while True:
            async with asyncio.timeout(seconds):
                event = await _next_event(own, program)
            if not isinstance(event, h11.Request):
                return
            if event.method == b"CONNECT":
                return await _tunnel(own, event, program, destinations, limits)
            await _forward(own, event, program, destinations, limits)
            if own.our_state is not h11.DONE or own.their_state is not h11.DONE:
                return
            own.start_next_cycle()
            seconds = limits.between
    except h11.RemoteProtocolError as problem:
        answer = _Answered(problem.error_status_hint, f"this is no request of HTTP: {problem}", "http_request_error")
        await _answer(own, program, answer)
    except _Answered as answer:
        await _answer(own, program, answer)


async def _next_event(own: h11.Connection, peer: Ends) -> object:
    """Return the next event of a connection. Raises RemoteProtocolError for what is not HTTP."""
    while (event := own.next_event()) is h11.NEED_DATA:
        own.receive_data(await peer[0].read(BUFFER_BYTES))
    return event


async def _tunnel(
    own: h11.Connection, request: h11.Request, program: Ends, destinations: Destinations, limits: EgressLimits
) -> None:
    if any(name in (b"content-length", b"transfer-encoding") for name, _ in request.headers):
        raise _Answered(400, "a request CONNECT has no content", "http_request_error")
    host, port = _split_authority(request.target.decode("ascii"), None)
    connection = await _connect(destinations, host, port)
    async with opened(connection) as host_streams:
        program[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        host_streams[1].write(own.trailing_data[0])
        await relay(program, host_streams, limits)


async def _forward(
    own: h11.Connection, request: h11.Request, program: Ends, destinations: Destinations, limits: EgressLimits
) -> None:
    """Send one request of plain HTTP to the host of its URL, and its answer back."""
    found = _URL.fullmatch(request.target.decode("ascii"))
    if found is None:
        raise _Answered(
            400, "this is a proxy: expected CONNECT HOST:PORT, or a URL that begins with http://", "http_request_error"
        )
    host, port = _split_authority(found[1], 80)
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise _Answered(400, "expected one length of the content, not two", "http_request_error")
    path = found[2] if found[2].startswith("/") else f"/{found[2]}"
    headers = [(b"Host", found[1].encode()), *_without_connection_fields(request.headers), (b"Connection", b"close")]
    connection = await _connect(destinations, host, port)
    async with opened(connection) as host_streams:
        theirs = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        sent = theirs.send(h11.Request(method=request.method, target=path, headers=headers))
        host_streams[1].write(sent or b"")
        body = asyncio.create_task(_send_body(own, theirs, program, host_streams, limits.idle))
        body.add_done_callback(partial(_end_after_failure, host_streams))
        try:
            await _send_answer(own, theirs, program, host_streams, limits.idle)
        except h11.RemoteProtocolError as problem:
            if own.our_state is h11.SEND_RESPONSE:
                words = f"{host} sent no answer of HTTP: {problem}"
                raise _Answered(502, words, "http_protocol_error") from None
            program[1].transport.abort()  # the answer is cut: its end must not look like one
        finally:
            if not body.done():
                body.cancel()
            await asyncio.gather(body, return_exceptions=True)


def _end_after_failure(host: Ends, body: asyncio.Task[None]) -> None:
    """End the connection to a host that waits for the rest of a content that does not come."""
    if not body.cancelled() and body.exception() is not None:
        host[1].transport.abort()


async def _send_body(own: h11.Connection, theirs: h11.Connection, program: Ends, host: Ends, idle: float) -> None:
    """Send the content of a request to the host. Raises RemoteProtocolError for one that ends too early."""
    while True:
        async with asyncio.timeout(idle):
            event = await _next_event(own, program)
        if isinstance(event, h11.Data):
            host[1].write(theirs.send(h11.Data(data=event.data)) or b"")
            await host[1].drain()
        elif isinstance(event, h11.EndOfMessage):
            host[1].write(theirs.send(h11.EndOfMessage()) or b"")
            return
        else:
            return


async def _send_answer(own: h11.Connection, theirs: h11.Connection, program: Ends, host: Ends, idle: float) -> None:
    """Send the answer of a host to the program. Raises RemoteProtocolError for what is not an answer of HTTP."""
    while True:
        async with asyncio.timeout(idle):
            event = await _next_event(theirs, host)
        if isinstance(event, h11.InformationalResponse):
            if event.status_code == 101:
                raise h11.RemoteProtocolError("it changes the protocol, which was not asked for")
            if own.their_http_version == b"1.0":  # such a program takes it for the final answer
                continue
            sent = own.send(h11.InformationalResponse(status_code=event.status_code, headers=_plain(event.headers)))
        elif isinstance(event, h11.Response):
            headers = _plain(event.headers)
            sent = own.send(h11.Response(status_code=event.status_code, headers=headers, reason=event.reason))
        elif isinstance(event, h11.Data):
            sent = own.send(h11.Data(data=event.data))
        elif isinstance(event, h11.EndOfMessage):
            program[1].write(own.send(h11.EndOfMessage()) or b"")
            return
        else:
            raise h11.RemoteProtocolError("it ended the connection")
        program[1].write(sent or b"")
        await program[1].drain()


def _plain(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    return [*_without_connection_fields(headers)]


def _without_connection_fields(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the fields that are passed on."""
    found = [*headers]
    named = {word.strip().lower() for name, value in found if name == b"connection" for word in value.split(b",")} - {
        b"content-length",
        b"transfer-encoding",
    }
    return [(name, value) for name, value in found if name not in CONNECTION_FIELDS and name not in named]


async def _connect(destinations: Destinations, host: str, port: int) -> socket.socket:
    """Return a connection. Raises _Answered."""
    try:
        return await destinations.connect(host, port)
    except EgressRefused as problem:
        raise _Answered(403, str(problem), "http_request_denied") from None
    except EgressFailed as problem:
        raise _Answered(502, str(problem), "destination_unavailable") from None


def _split_authority(text: str, default: int | None) -> tuple[str, int]:
    """Return the host and the port of a request. Raises _Answered; CONNECT (`default` None) needs a port."""
    found = _AUTHORITY.fullmatch(text)
    try:
        if found is None or (default is None and not found[2]):
            raise EgressEntryError("")
        return found[1], parse_port(found[2]) if found[2] else default or 0
    except EgressEntryError:
        raise _Answered(400, f"expected HOST:PORT without a user, not {text[:100]!r}", "http_request_error") from None


async def _answer(own: h11.Connection, program: Ends, answer: _Answered) -> None:
    """Send an error as text, if no answer has begun."""
    if own.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    body = f"{answer.message}\n".encode()
    headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Proxy-Status", f"patchbay; error={answer.error}"),
        ("Connection", "close"),
    ]
    reason = HTTPStatus(answer.status).phrase
    begin = h11.Response(status_code=answer.status, headers=headers, reason=reason)
    for event in (begin, h11.Data(data=body), h11.EndOfMessage()):
        program[1].write(own.send(event) or b"")
    await program[1].drain()
