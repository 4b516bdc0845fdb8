"""Requests to an HTTP API whose answers arrive piece by piece, on the event loop of this process.

Closing an exchange cancels its request and closes its connection at once. No cookie of an answer is stored, so that
callers share nothing.

Sources: RFC 9110; RFC 6265 section 5.3 (a client may ignore cookies).
"""

from __future__ import annotations

import asyncio
import zlib
from concurrent.futures import Future
from http.cookiejar import CookieJar, DefaultCookiePolicy
from queue import SimpleQueue

import httpx2

from patchbay.client.addresses.targets import mask_url, mask_urls
from patchbay.client.connection.event_loop import get_shared_loop
from patchbay.client.errors import ServerTimeout, Unreachable
from patchbay.client.openapi.http_client import MAX_REDIRECTS, RedirectRefused, Reply, RequestRules
from patchbay.client.openapi.requests import HttpRequest
from patchbay.errors import PatchbayError

DECODED = ("identity", "gzip", "deflate")
"""Content encodings that are decoded; a body in another one is bytes of an unknown type."""

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
            following = self._find_redirect(call, answer)
            if following is None:
                encoding = answer.headers.get("content-encoding", "identity").strip().lower()
                headers = answer.headers.copy()
                if encoding not in DECODED:
                    headers["content-type"] = "application/octet-stream"
                exchange.pieces.put(Reply(call.url, answer.status_code, headers, b""))
                await self._hand_body_over(answer, encoding, exchange, mask_url(call.url))
            return following
        finally:
            await answer.aclose()

    def _find_redirect(self, call: HttpRequest, answer: httpx2.Response) -> HttpRequest | None:
        """Return the request that follows a redirect. A redirect that is not followed is an answer like others."""
        try:
            return self.rules.find_redirect(call, answer.status_code, answer.headers.get("location"))
        except RedirectRefused:
            return None

    async def _hand_body_over(self, answer: httpx2.Response, encoding: str, exchange: ApiExchange, shown: str) -> None:
        """Hand a body over, decoded up to the limit: some servers compress what was not asked for."""
        decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32) if encoding in ("gzip", "deflate") else None
        left = self._limit
        async for piece in answer.aiter_raw():
            try:
                plain = decoder.decompress(piece, left + 1) if decoder is not None else piece
            except zlib.error as problem:
                raise Unreachable(f"{shown} sent a body that is not {encoding}: {problem}") from problem
            left -= len(plain)
            if left < 0 or (decoder is not None and decoder.unconsumed_tail):
                raise Unreachable(f"{shown} sent more than {self._limit} bytes")
            exchange.pieces.put(plain)

    def _get_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            stores_nothing = CookieJar(DefaultCookiePolicy(allowed_domains=()))
            self._client = httpx2.AsyncClient(cookies=stores_nothing, follow_redirects=False)
        return self._client
