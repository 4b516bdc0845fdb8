"""Requests to an HTTP API whose answers arrive piece by piece, on the event loop of this process.

Closing an exchange cancels its request and closes its connection at once. No cookie of an answer is stored, so that
callers share nothing.

Sources: RFC 9110; RFC 6265 section 5.3 (a client may ignore cookies).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from http.cookiejar import CookieJar, DefaultCookiePolicy
from queue import SimpleQueue

import httpx2

from patchbay.client.addresses.targets import mask_url, mask_urls
from patchbay.client.connection.event_loop import get_shared_loop
from patchbay.client.errors import ServerTimeout, Unreachable
from patchbay.client.openapi.http_client import MAX_REDIRECTS, Reply, RequestRules
from patchbay.client.openapi.requests import HttpRequest
from patchbay.errors import PatchbayError

Piece = Reply | bytes | PatchbayError | None
"""The head of an answer (a Reply without its body), bytes of its body, the error that ends it, or None at its end."""


class ApiExchange:
    """One request that runs. `pieces` receives its head, its body and its end."""

    def __init__(self) -> None:
        self.pieces: SimpleQueue[Piece] = SimpleQueue()
        self.running: Future[None] | None = None

    def get(self, seconds: float) -> Piece:
        """Return the next piece. Raises queue.Empty when none arrives within so many seconds."""
        return self.pieces.get(timeout=seconds)

    def close(self) -> None:
        """Cancel the request if it still runs."""
        if self.running is not None:
            self.running.cancel()


class ApiConnection:
    """Kept connections to one API. `limit` is bytes of one answer."""

    def __init__(self, rules: RequestRules, limit: int) -> None:
        self.rules = rules
        self._limit = limit
        self._client: httpx2.AsyncClient | None = None

    def start(self, call: HttpRequest, timeout: float) -> ApiExchange:
        """Start a request; each of its steps may take `timeout` seconds."""
        exchange = ApiExchange()
        exchange.running = get_shared_loop().start(self._run(call, timeout, exchange))
        return exchange

    def close(self) -> None:
        """Close the kept connections."""
        client, self._client = self._client, None
        if client is not None:
            get_shared_loop().start(client.aclose())

    async def _run(self, call: HttpRequest, timeout: float, exchange: ApiExchange) -> None:
        shown = mask_url(call.url)
        try:
            await self._follow_redirects(call, timeout, exchange)
            exchange.pieces.put(None)
        except PatchbayError as problem:
            exchange.pieces.put(problem)
        except httpx2.TimeoutException:
            exchange.pieces.put(ServerTimeout(f"{shown} did not answer within {timeout:g} s"))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as problem:
            exchange.pieces.put(Unreachable(f"{shown} cannot be reached: {mask_urls(str(problem))}"))

    async def _follow_redirects(self, call: HttpRequest, timeout: float, exchange: ApiExchange) -> None:
        for _ in range(MAX_REDIRECTS):
            following = await self._send_once(call, timeout, exchange)
            if following is None:
                return
            call = following
        raise Unreachable(f"{mask_url(call.url)} redirects more than {MAX_REDIRECTS} times")

    async def _send_once(self, call: HttpRequest, timeout: float, exchange: ApiExchange) -> HttpRequest | None:
        """Send a request and hand its answer over; for a redirect, return the request that follows it."""
        prepared = await asyncio.to_thread(self.rules.prepare, call)
        client = self._get_client()
        answer = await client.send(client.build_request(**prepared, timeout=timeout), stream=True)
        try:
            following = self.rules.find_redirect(call, answer.status_code, answer.headers.get("location"))
            if following is None:
                exchange.pieces.put(Reply(call.url, answer.status_code, answer.headers, b""))
                await self._hand_body_over(answer, exchange, mask_url(call.url))
            return following
        finally:
            await answer.aclose()

    async def _hand_body_over(self, answer: httpx2.Response, exchange: ApiExchange, shown: str) -> None:
        if answer.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise Unreachable(f"{shown} sent a compressed body, which was not asked for")
        size = 0
        async for piece in answer.aiter_raw():
            size += len(piece)
            if size > self._limit:
                raise Unreachable(f"{shown} sent more than {self._limit} bytes")
            exchange.pieces.put(piece)

    def _get_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            stores_nothing = CookieJar(DefaultCookiePolicy(allowed_domains=()))
            self._client = httpx2.AsyncClient(cookies=stores_nothing, follow_redirects=False)
        return self._client
