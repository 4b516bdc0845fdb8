"""A server at a URL: Streamable HTTP or the older HTTP+SSE pair, with limits on the size and rate of answers.

Redirects are followed within the server's own origin only (the SDK's rule), so that headers and tokens go to no other
server. A body beyond the limit ends its request, a compressed body ends the connection. A request to another origin, as
sign-in metadata can cause, goes to a public address only, and to the address that was checked: the host is looked up
once. Origins that a person or an operator named (`issuer`) are excepted.

Sources: MCP specification, basic/transports, backwards compatibility; SEP-1699; RFC 9110 section 10.2.3 (Retry-After);
CWE-918 (server-side request forgery).
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any

import anyio.to_thread
import httpx2
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from patchbay.client.addresses.targets import ANY_ISSUER, Http
from patchbay.client.certificates import load_certificates
from patchbay.client.connection.direct_http import DirectHttp, HttpTarget
from patchbay.client.connection.handover import HandoverTransport, is_direct_http_possible
from patchbay.client.connection.plan import AgreedSession
from patchbay.client.connection.refusals import MAX_REFUSAL_BYTES, complete_refusal, find_refusal_words
from patchbay.client.connection.requests import CURRENT_RUN, RequestRun
from patchbay.client.public_hosts import resolve_public_address
from patchbay.client.rate_limit import count_text_units, make_text_limiter
from patchbay.events import Detach

CONNECT_SECONDS = 30.0
"""Seconds to connect, and to write a piece. Reading has no limit here: every request has a deadline."""

_EVENT_ID = re.compile(rb"[\r\n]id:")
"""A line of an event stream that gives an event an id."""

_ORIGINAL_URL = "patchbay.asked"
"""Extension of a request: its URL before the address replaced the host."""

OLD_TRANSPORT_STATUSES = frozenset({400, 404, 405, 406, 415})
"""Statuses of a POST after which a server of 2024-11-05 is tried."""


class _RateLimitedStream(httpx2.AsyncByteStream):
    """An event stream that is read no faster than `rate_limit.py` allows.

    `run` gets a Detach when the server ends the stream before the answer, after an event with an id (SEP-1699).
    """

    def __init__(self, inner: httpx2.AsyncByteStream, run: RequestRun | None) -> None:
        self._inner = inner
        self._run = run if run is not None and run.wants_detach else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        limiter, end, has_id = make_text_limiter(), b"\n", False
        async for piece in self._inner:
            if self._run is not None and not has_id:
                has_id = _EVENT_ID.search(end + piece) is not None
                end = (end + piece)[-len(b"\nid:") :]
            yield piece
            await limiter.acquire(count_text_units(piece))
        # The official client reads no further than the answer.
        if self._run is not None and has_id:
            self._run.wants_detach = False
            await self._run.deliver(Detach())

    async def aclose(self) -> None:
        await self._inner.aclose()


class _SizeLimitedStream(httpx2.AsyncByteStream):
    """A body that fails when it is larger than the limit or cut off. Only the request of this answer fails then.

    `announced` is its size by the header Content-Length; None without one.
    """

    def __init__(
        self, inner: httpx2.AsyncByteStream, limit: int, announced: int | None, run: RequestRun | None
    ) -> None:
        self._inner = inner
        self._limit = limit
        self._announced = announced
        self._run = run

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        if (self._announced or 0) > self._limit:
            raise self._fail(f"its answer is too large: {self._announced} bytes; the limit is {self._limit} bytes")
        try:
            async for piece in self._inner:
                size += len(piece)
                if size > self._limit:
                    raise self._fail(
                        f"its answer is too large: more than {self._limit} bytes; the limit is {self._limit} bytes"
                    )
                yield piece
        except httpx2.TransportError as problem:
            cut = f"its answer was cut off after {size} bytes" if size else "it closed the connection without an answer"
            raise self._fail(cut) from problem

    def _fail(self, words: str) -> httpx2.StreamError:
        """Record the reason for the request, and return an exception that the official client takes as its failure."""
        if self._run is not None:
            self._run.unusable_answer = words
        return httpx2.StreamError(words)

    async def aclose(self) -> None:
        await self._inner.aclose()


class HttpConnection:
    """The HTTP side of one connection.

    `status` is that of the last refused request, `refusal` the message of the JSON-RPC error of the first one.
    """

    def __init__(
        self, target: Http, auth: httpx2.Auth | None, limit: int, adopted: AgreedSession | None = None, issuer: str = ""
    ) -> None:
        """Prepare a connection.

        `agreed` is the session that a plain session has agreed on with the server. `issuer` is the authorization server
        of the configured way to sign in, "" without one.
        """
        self.target = target
        self.status: int | None = None
        self.refusal = ""
        self._session_id = adopted.session_id if adopted is not None else None
        self._session_headers = {"mcp-session-id": self._session_id} if self._session_id else {}
        self._resumes_session = adopted is not None
        self._is_old_pair = False
        self._headers: Mapping[str, str] = {}
        self._can_be_direct = auth is None and is_direct_http_possible(target)
        self._auth = auth
        self._limit = limit
        self._allows_any_issuer = target.issuer == ANY_ISSUER
        urls = (target.url, "" if self._allows_any_issuer else target.issuer, issuer)
        self._named_origins = {get_origin(httpx2.URL(url)) for url in urls if url}

    def make_client(
        self,
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """Make an HTTP client that keeps the rules of this module.

        The arguments are those that the SDK gives its factories.
        """
        return httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", **self._session_headers, **self.target.headers, **(headers or {})},
            timeout=timeout or httpx2.Timeout(CONNECT_SECONDS, read=None),
            auth=auth or self._auth,
            verify=load_certificates(),
            trust_env=self.target.is_proxied,
            mounts={self._origin: HandoverTransport(verify=load_certificates())}
            if self._can_be_direct or self._resumes_session
            else None,
            event_hooks={"request": [self._prepare_request], "response": [self._check_response]},
        )

    @property
    def _origin(self) -> str:
        url = httpx2.URL(self.target.url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}"

    def make_direct(self, session: ClientSession, modern: bool) -> DirectHttp | None:
        """Make the object for direct calls, once a revision is agreed on; None when they are not possible."""
        if not self._can_be_direct:
            return None
        session_id = None if modern else self._session_id
        url = httpx2.URL(self.target.url)
        place = HttpTarget(url.host, url.port or 80, url.netloc.decode("ascii"), url.raw_path)
        return DirectHttp(
            place, self._headers, lambda data, options: session._stamp(data, options), session_id, self._limit
        )

    @property
    def has_session(self) -> bool:
        """Whether the server has begun a session."""
        return self._session_id is not None

    @property
    def keeps_state(self) -> bool:
        """Whether the server may keep state for this connection; with HTTP+SSE, a connection is a session."""
        return self.has_session or self._is_old_pair

    @asynccontextmanager
    async def open_streamable(self) -> AsyncIterator[Any]:
        """Open the two streams of Streamable HTTP."""
        async with (
            self.make_client() as client,
            streamable_http_client(self.target.url, http_client=client, max_sse_event_size=self._limit) as streams,
        ):
            self._headers = client.headers
            yield streams

    @asynccontextmanager
    async def open_sse(self) -> AsyncIterator[Any]:
        """Open the two streams of HTTP+SSE, as of 2024-11-05."""
        self._can_be_direct, self._is_old_pair = False, True
        url, day = self.target.url, 24 * 3600.0
        async with sse_client(url, None, CONNECT_SECONDS, day, self.make_client, self._auth) as streams:
            yield streams

    async def _prepare_request(self, request: httpx2.Request) -> None:
        origin = get_origin(request.url)
        if origin not in self._named_origins and not self._allows_any_issuer:
            scheme, host, port = origin
            remedy = (
                f"to allow it, name it with launch.issuer={scheme}://{host}:{port}" if not self.target.public else ""
            )
            await _pin_to_public_address(request, self.target.label, remedy)
            request.headers["Connection"] = "close"  # a kept connection could be used for another host at this address
        elif self.target.public:
            await _pin_to_public_address(request, self.target.label)

    async def _check_response(self, response: httpx2.Response) -> None:
        asked = response.request
        asked.url = asked.extensions.get(_ORIGINAL_URL, asked.url)  # the SDK reads the original URL
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise httpx2.ReadError(f"{response.request.url} sent a compressed body, which was not asked for")
        self._session_id = response.headers.get("mcp-session-id", self._session_id)
        self._can_be_direct = self._can_be_direct and "set-cookie" not in response.headers
        refused = response.status_code >= 400
        if refused:
            self.status = response.status_code
        run = CURRENT_RUN.get()
        if run is not None:  # the last answer counts: requests of a sign-in may have been refused before it
            run.http_refusal = f"HTTP {response.status_code} {response.reason_phrase}".rstrip() if refused else None
            run.http_status = response.status_code if refused else None
            run.retry_after = parse_retry_after(response.headers.get("retry-after", "")) if refused else None
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _RateLimitedStream(response.stream, run if asked.method == "POST" else None)
        else:
            length = response.headers.get("content-length", "")
            announced = int(length) if length.isascii() and length.isdecimal() else None
            response.stream = _SizeLimitedStream(response.stream, self._limit, announced, run)
        has_words = 400 <= response.status_code < 500 and response.status_code != 429
        if run is not None and has_words and self._is_message(asked):
            read = await _complete_refusal(response)
            self.refusal = self.refusal or find_refusal_words(read)

    def _is_message(self, request: httpx2.Request) -> bool:
        """Whether a request carries a message to the server; those of a sign-in do not."""
        return request.method == "POST" and request.url == httpx2.URL(self.target.url)


class _ReadStream(httpx2.AsyncByteStream):
    """A body whose beginning is read already."""

    def __init__(self, read: bytes, rest: AsyncIterator[bytes] | None, inner: httpx2.AsyncByteStream) -> None:
        self._read = read
        self._rest = rest
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._read
        if self._rest is not None:
            async for piece in self._rest:
                yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _complete_refusal(response: httpx2.Response) -> bytes:
    """Give a short refusal the form of a JSON-RPC error, so that the official client passes its words on.

    Return the body that was read; empty for one that was not.

    For 429 and for failures of the server the status and the seconds to wait say more than its words.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    stream = response.stream
    if kind not in ("", "text/plain", "application/problem+json", "application/json"):
        return b""
    if response.status_code in (401, 403) or not isinstance(stream, _SizeLimitedStream):
        return b""  # the sign-in reads these
    pieces, read = aiter(stream), b""
    try:
        async for piece in pieces:
            read += piece
            if len(read) > MAX_REFUSAL_BYTES:
                response.stream = _ReadStream(read, pieces, stream)
                return b""
    except httpx2.StreamError:
        response.stream = _ReadStream(b"", None, stream)
        return b""
    completed = complete_refusal(read)
    if completed is not None:
        response.headers["content-type"] = "application/json"
    response.stream = _ReadStream(completed or read, None, stream)
    return read


async def _pin_to_public_address(request: httpx2.Request, who: str, remedy: str = "") -> None:
    """Send a request to the address that was checked; the Host header and the certificate stay those of the host.

    Raises Unreachable when the host is not public.
    """
    _, host, port = get_origin(request.url)
    address = await anyio.to_thread.run_sync(resolve_public_address, host, port, who, remedy)
    request.extensions = {**request.extensions, "sni_hostname": host, _ORIGINAL_URL: request.url}
    request.url = request.url.copy_with(host=address)


def parse_retry_after(text: str) -> int | None:
    """Return the seconds that a header Retry-After asks to wait: a number or a date; None for anything else."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return int(text[:9])
    try:
        return max(0, round(parsedate_to_datetime(text).timestamp() - time.time()))
    except (TypeError, ValueError, OverflowError):
        return None


def get_origin(url: httpx2.URL) -> tuple[str, str, int]:
    """Scheme, host and port of a URL."""
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)
