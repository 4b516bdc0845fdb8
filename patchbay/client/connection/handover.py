"""The HTTP transport of the official client, which continues an exchange that a caller has begun.

The caller's thread has sent a request directly (`direct_http.py`). When the answer is not plain, the official client
makes the same request and gets the answer of that exchange: no request is sent twice.

Source: MCP specification, basic/transports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from urllib.request import getproxies

import httpx2

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.direct_http import READ_BYTES, HttpExchange
from patchbay.client.connection.requests import CURRENT_RUN
from patchbay.client.http_messages import BadMessage


class UnreadAnswer(httpx2.AsyncByteStream):
    """The part of an answer that the caller has not read; read on the event loop."""

    def __init__(self, exchange: HttpExchange) -> None:
        self._exchange = exchange

    async def make_response(self) -> httpx2.Response:
        """Wait for the head of the answer and make a response. Raises httpx2.TransportError."""
        exchange = self._exchange
        if exchange.head is None:
            await self._read_until(lambda: exchange.head is not None)
        if exchange.head is None:
            raise httpx2.RemoteProtocolError("the server closed the connection without an answer")
        return httpx2.Response(
            exchange.head.status_code,
            headers=exchange.head.raw,
            stream=self,
            extensions={"reason_phrase": exchange.head.reason},
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        exchange = self._exchange
        while True:
            await self._read_until(lambda: bool(exchange.pieces))
            if not exchange.pieces:
                return
            pieces, exchange.pieces = exchange.pieces, []
            yield b"".join(pieces)

    async def _read_until(self, enough: Callable[[], bool]) -> None:
        """Read until `enough` returns True or the answer ends."""
        loop, exchange, connection = asyncio.get_running_loop(), self._exchange, self._exchange.line
        try:
            if exchange.failure is not None:
                raise exchange.failure
            if exchange.unsent:
                unsent, exchange.unsent = exchange.unsent, b""
                await loop.sock_sendall(connection.socket, unsent)
            while not enough() and not exchange.complete:
                exchange.receive(await loop.sock_recv(connection.socket, READ_BYTES))
        except (OSError, BadMessage) as problem:
            raise httpx2.ReadError(str(problem) or type(problem).__name__) from problem

    async def aclose(self) -> None:
        self._exchange.close()


class _NoAnswer(httpx2.AsyncByteStream):
    """The body of an answer that did not come."""

    def __init__(self, problem: httpx2.TransportError) -> None:
        self._problem = problem

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        raise self._problem


class HandoverTransport(httpx2.AsyncHTTPTransport):
    """Sends requests, except one that a caller has begun: it returns the answer of that exchange."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        run = CURRENT_RUN.get()
        exchange = run.exchange if run is not None and request.method == "POST" else None
        if run is None or not isinstance(exchange, HttpExchange):
            return await super().handle_async_request(request)
        run.exchange = None
        if exchange.closed:
            return httpx2.Response(202)  # the caller has left: the answer is not used
        try:
            return await UnreadAnswer(exchange).make_response()
        except httpx2.TransportError as problem:
            # Only this request fails: others of the same session may run on, over their own connections.
            exchange.close()
            return httpx2.Response(200, headers={"Content-Type": "application/json"}, stream=_NoAnswer(problem))
        except BaseException:
            exchange.close()
            raise


def is_direct_http_possible(target: Http) -> bool:
    """Whether a server may be called directly, as far as its URL tells."""
    url = httpx2.URL(target.url)
    has_proxy = target.is_proxied and bool(getproxies())
    return url.scheme == "http" and not url.userinfo and not target.public and not has_proxy
