"""The transport of the official client's HTTP requests that goes on with an exchange which a caller has begun.

The caller's thread has sent a request by the short way (`direct.py`). When what comes of it is not plain, the official
client makes the same request, and gets the answer of the exchange that has begun: nothing is sent twice.
Sources: issue 5 part 7 (mount overhead); MCP specification, basic/transports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from urllib.request import getproxies

import h11
import httpx2

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.direct_http import READ_BYTES, HttpExchange
from patchbay.client.connection.requests import CURRENT_RUN


class UnreadAnswer(httpx2.AsyncByteStream):
    """What the caller has not read of an exchange, read on the loop."""

    def __init__(self, post: HttpExchange) -> None:
        self._exchange = post

    async def make_response(self) -> httpx2.Response:
        """The answer, once its head is here. Raises httpx2.TransportError."""
        post = self._exchange
        await self._read_until(lambda: post.head is not None)
        if post.head is None:
            raise httpx2.RemoteProtocolError("the server closed the connection without an answer")
        headers = [(name, value) for name, value in post.head.headers.raw_items()]
        return httpx2.Response(
            post.head.status_code, headers=headers, stream=self, extensions={"reason_phrase": bytes(post.head.reason)}
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        post = self._exchange
        while True:
            await self._read_until(lambda: bool(post.pieces))
            if not post.pieces:
                return
            pieces, post.pieces = post.pieces, []
            yield b"".join(pieces)

    async def _read_until(self, enough: Callable[[], bool]) -> None:
        """Read until there is enough or nothing more comes."""
        loop, post, line = asyncio.get_running_loop(), self._exchange, self._exchange.line
        try:
            if post.failure is not None:
                raise post.failure
            if post.unsent:
                unsent, post.unsent = post.unsent, b""
                await loop.sock_sendall(line.socket, unsent)
            while not enough() and not post.complete:
                if not post.process_event():
                    line.http.receive_data(await loop.sock_recv(line.socket, READ_BYTES))
        except (OSError, h11.ProtocolError) as problem:
            raise httpx2.ReadError(str(problem) or type(problem).__name__) from problem

    async def aclose(self) -> None:
        self._exchange.close()


class HandoverTransport(httpx2.AsyncHTTPTransport):
    """Sends requests, but for one that has begun: of that the answer is passed on."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        run = CURRENT_RUN.get()
        post = run.exchange if run is not None and request.method == "POST" else None
        if run is None or not isinstance(post, HttpExchange):
            return await super().handle_async_request(request)
        run.exchange = None
        if post.closed:
            return httpx2.Response(202)  # its caller has left: nobody waits for what is said here
        try:
            return await UnreadAnswer(post).make_response()
        except BaseException:
            post.close()
            raise


def is_direct_http_possible(target: Http) -> bool:
    """Whether a server may be spoken to in this way, as far as can be known before it was spoken to."""
    url = httpx2.URL(target.url)
    return url.scheme == "http" and not url.userinfo and not target.public and not getproxies()
