"""Requests to an HTTP API whose answers arrive piece by piece, on the event loop of this process.

Closing an exchange cancels its request and closes its connection at once. No cookie of an answer is stored, so that
callers share nothing. A request with a safe method is sent once more when the server closed the kept connection before
it answered.

Sources: RFC 9110 (section 9.2.2: methods that may be retried); RFC 6265 section 5.3 (a client may ignore cookies).
"""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections import deque
from concurrent.futures import Future
from http.cookiejar import CookieJar, DefaultCookiePolicy
from queue import Empty
from typing import Any

import httpx2

from patchbay.callback_mailbox import CallbackMailbox
from patchbay.client.addresses.targets import mask_url
from patchbay.client.certificates import load_certificates
from patchbay.client.connection.event_loop import get_shared_loop
from patchbay.client.errors import ServerTimeout, Unreachable
from patchbay.client.network_failures import CLOSED_EARLY, describe_failure
from patchbay.client.openapi.http_client import MAX_REDIRECTS, RedirectRefused, Reply, RequestRules
from patchbay.client.openapi.requests import HttpRequest
from patchbay.errors import PatchbayError

DECODED = ("identity", "gzip", "deflate")
"""Content encodings that are decoded; a body in another one is bytes of an unknown type."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods of requests that change nothing on the server."""

MAX_CONNECTIONS, MAX_KEPT_CONNECTIONS = 100, 20
"""Connections to one API at once, and those that are kept between requests."""

Piece = Reply | bytes | PatchbayError | None
"""The head of an answer (a Reply without its body), bytes of its body, the error that ends it, or None at its end."""


class ApiExchange(CallbackMailbox):
    """One request that runs: a mailbox that receives its head, the pieces of its body, and its end."""

    closed = False

    def __init__(self) -> None:
        super().__init__()
        self._pieces: deque[Piece] = deque()
        self._changed = threading.Condition(self._lock)
        self.running: Future[None] | None = None
        self.has_connected = False
        """Whether the last attempt to send the request opened a connection; else it used a kept one."""
        self.has_answered = False
        """Whether the head of an answer arrived."""

    async def trace(self, event: str, _: object) -> None:
        """Receive an event of httpcore (its extension `trace`)."""
        if event.endswith("connect_tcp.complete"):
            self.has_connected = True

    def put(self, piece: Piece) -> None:
        """Add a piece; from any thread."""
        with self._changed:
            self._pieces.append(piece)
            self._changed.notify_all()
            call_back = self._take_callback()
        if call_back is not None:
            call_back()

    def get(self, seconds: float) -> Piece:
        """Return the next piece. Raises queue.Empty when none arrives within so many seconds."""
        self.wait(seconds)
        with self._changed:
            if not self._pieces:
                raise Empty
            return self._pieces.popleft()

    def wait(self, timeout: float) -> None:
        """Wait for a piece, no longer than `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._pieces, timeout)

    def _is_ready(self) -> bool:
        return bool(self._pieces)

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
        self._unkept_client: httpx2.AsyncClient | None = None
        self._running = 0
        self._is_retired = False

    def start(self, call: HttpRequest, timeout: float) -> ApiExchange:
        """Start a request; each of its steps may take `timeout` seconds."""
        exchange = ApiExchange()
        exchange.running = get_shared_loop().start(self._run(call, timeout, exchange))
        return exchange

    def close(self) -> None:
        """Close the kept connections."""
        clients = self._client, self._unkept_client
        self._client = self._unkept_client = None
        for client in filter(None, clients):
            get_shared_loop().start(client.aclose())

    def close_when_idle(self) -> None:
        """Close the kept connections once no request runs."""
        get_shared_loop().start(self._retire())

    async def _retire(self) -> None:
        self._is_retired = True
        if not self._running:
            self.close()

    async def _run(self, call: HttpRequest, timeout: float, exchange: ApiExchange) -> None:
        self._running += 1
        try:
            await self._exchange(call, timeout, exchange)
        finally:
            self._running -= 1
            if self._is_retired and not self._running:
                self.close()

    async def _exchange(self, call: HttpRequest, timeout: float, exchange: ApiExchange) -> None:
        shown = mask_url(call.url)
        try:
            await self._follow_redirects(call, timeout, exchange)
            exchange.put(None)
        except PatchbayError as problem:
            exchange.put(problem)
        except httpx2.TimeoutException:
            exchange.put(ServerTimeout(f"{shown} did not answer within {timeout:g} s"))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as problem:
            reason = describe_failure(problem, exchange.has_answered)
            exchange.put(Unreachable(f"{shown} cannot be reached: {reason}"))

    async def _follow_redirects(self, call: HttpRequest, timeout: float, exchange: ApiExchange) -> None:
        for _ in range(MAX_REDIRECTS):
            following = await self._send_once(call, timeout, exchange)
            if following is None:
                return
            call = following
        raise Unreachable(f"{mask_url(call.url)} redirects more than {MAX_REDIRECTS} times")

    async def _send_once(self, call: HttpRequest, timeout: float, exchange: ApiExchange) -> HttpRequest | None:
        """Send a request and hand its answer over; for a redirect, return the request that follows it."""
        prepared = await asyncio.to_thread(self.rules.prepare, call) | {"timeout": timeout}
        answer = await self._get_answer(prepared, exchange)
        try:
            following = self._find_redirect(call, answer)
            if following is None:
                encoding = answer.headers.get("content-encoding", "identity").strip().lower()
                headers = answer.headers.copy()
                if encoding not in DECODED:
                    headers["content-type"] = "application/octet-stream"
                exchange.put(Reply(call.url, answer.status_code, headers, b""))
                await self._hand_body_over(answer, encoding, exchange, mask_url(call.url))
            return following
        finally:
            await answer.aclose()

    async def _get_answer(self, prepared: dict[str, Any], exchange: ApiExchange) -> httpx2.Response:
        """Return the head of an answer. The second attempt, if there is one, opens a connection."""
        try:
            return await _send(self._get_client(), prepared, exchange)
        except CLOSED_EARLY:
            if exchange.has_connected or prepared["method"] not in SAFE_METHODS:
                raise
        return await _send(self._get_unkept_client(), prepared, exchange)

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
            exchange.put(plain)

    def _get_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = _make_client(MAX_KEPT_CONNECTIONS)
        return self._client

    def _get_unkept_client(self) -> httpx2.AsyncClient:
        """Return the client that opens a connection for each request, because the server may close all kept ones."""
        if self._unkept_client is None:
            self._unkept_client = _make_client(0)
        return self._unkept_client


def _make_client(kept: int) -> httpx2.AsyncClient:
    """Make a client that keeps so many connections between requests."""
    stores_nothing = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=kept)
    return httpx2.AsyncClient(cookies=stores_nothing, follow_redirects=False, limits=limits, verify=load_certificates())


async def _send(client: httpx2.AsyncClient, prepared: dict[str, Any], exchange: ApiExchange) -> httpx2.Response:
    """Send a request and return the head of its answer."""
    exchange.has_connected = exchange.has_answered = False
    extensions = {**(prepared["extensions"] or {}), "trace": exchange.trace}
    answer = await client.send(client.build_request(**{**prepared, "extensions": extensions}), stream=True)
    exchange.has_answered = True
    return answer
