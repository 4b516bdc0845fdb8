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
from patchbay.client.connection.direct_http import PIECE, HttpExchange
from patchbay.client.connection.requests import CURRENT


class Rest(httpx2.AsyncByteStream):
    """What the caller has not read of an exchange, read on the loop."""

    def __init__(self, post: HttpExchange) -> None:
        self._post = post

    async def response(self) -> httpx2.Response:
        """The answer, once its head is here. Raises httpx2.TransportError."""
        post = self._post
        await self._go_on(lambda: post.head is not None)
        if post.head is None:
            raise httpx2.RemoteProtocolError("the server closed the connection without an answer")
        headers = [(name, value) for name, value in post.head.headers.raw_items()]
        return httpx2.Response(
            post.head.status_code, headers=headers, stream=self, extensions={"reason_phrase": bytes(post.head.reason)}
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        post = self._post
        while True:
            await self._go_on(lambda: bool(post.pieces))
            if not post.pieces:
                return
            pieces, post.pieces = post.pieces, []
            yield b"".join(pieces)

    async def _go_on(self, enough: Callable[[], bool]) -> None:
        """Read until there is enough or nothing more comes."""
        loop, post, line = asyncio.get_running_loop(), self._post, self._post.line
        try:
            if post.problem is not None:
                raise post.problem
            if post.unsent:
                unsent, post.unsent = post.unsent, b""
                await loop.sock_sendall(line.socket, unsent)
            while not enough() and not post.whole:
                if not post.advance():
                    line.http.receive_data(await loop.sock_recv(line.socket, PIECE))
        except (OSError, h11.ProtocolError) as problem:
            raise httpx2.ReadError(str(problem) or type(problem).__name__) from problem

    async def aclose(self) -> None:
        self._post.close()


class HandoverTransport(httpx2.AsyncHTTPTransport):
    """Sends requests, but for one that has begun: of that the answer is passed on."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        run = CURRENT.get()
        post = run.begun if run is not None and request.method == "POST" else None
        if run is None or not isinstance(post, HttpExchange):
            return await super().handle_async_request(request)
        run.begun = None
        if post.closed:
            return httpx2.Response(202)  # its caller has left: nobody waits for what is said here
        try:
            return await Rest(post).response()
        except BaseException:
            post.close()
            raise


def is_possible(reach: Http) -> bool:
    """Whether a server may be spoken to in this way, as far as can be known before it was spoken to."""
    url = httpx2.URL(reach.url)
    return url.scheme == "http" and not url.userinfo and not reach.public and not getproxies()
