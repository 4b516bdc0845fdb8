"""A server at a URL: Streamable HTTP or the older pair of GET and POST, with bounds on what a server may send.

Redirects are followed within the server's own origin only (the SDK's rule), so that no header and no token goes
elsewhere. Bodies beyond the limit and compressed bodies end the connection. A request that leaves the server's origin,
as sign-in metadata can cause, goes to a public address only, and to the very one that was checked: the host is looked
up once. Excepted are the origins that a person or an operator named (`issuer`).
Sources: SPEC-DIGEST 2.1 to 2.4; THREATS 1.8, X19, X20; MCP specification, basic/transports, backwards compatibility.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import anyio.to_thread
import httpx2
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from patchbay.client.addresses.targets import ANY_ISSUER, Http
from patchbay.client.connection.direct_http import DirectHttp, HttpTarget
from patchbay.client.connection.handover import HandoverTransport, is_possible
from patchbay.client.connection.plan import Adopted
from patchbay.client.connection.requests import CURRENT
from patchbay.client.public_hosts import public_address
from patchbay.client.rate_limit import text_pace, text_units

CONNECT = 30.0
"""Seconds to connect, and to write a piece. Reading has no bound of its own: every request has a deadline."""

_ASKED = "patchbay.asked"
"""Extension of a request: its URL before the address took the place of the host."""

GET_INSTEAD = frozenset({400, 404, 405, 406, 415})
"""Statuses of a POST after which a server of 2024-11-05 is tried."""


@cache
def _certificates() -> ssl.SSLContext:
    """What is trusted: read once, because that takes longer than opening a connection."""
    return httpx2.create_ssl_context()


class _Paced(httpx2.AsyncByteStream):
    """An event stream that is read no faster than `pace.py` says."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pace = text_pace()
        async for piece in self._inner:
            yield piece
            await pace.take(text_units(piece))

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """A body that fails when it grows too large."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, url: str) -> None:
        self._inner = inner
        self._limit = limit
        self._url = url

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            size += len(piece)
            if size > self._limit:
                raise httpx2.ReadError(f"{self._url} sent more than {self._limit} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class HttpConnection:
    """How one server is spoken to over HTTP; `status` is that of the last refused request."""

    def __init__(
        self, reach: Http, auth: httpx2.Auth | None, limit: int, adopted: Adopted | None = None, issuer: str = ""
    ) -> None:
        """`adopted` is what a plain session has agreed on with the server.

        `issuer` is the authorization server that the way of signing in names, where it names one.
        """
        self.reach = reach
        self.status: int | None = None
        self._session_id = adopted.session_id if adopted is not None else None
        self._begun = {"mcp-session-id": self._session_id} if self._session_id else {}
        self._hands_over = adopted is not None
        self._headers: Mapping[str, str] = {}
        self._direct = auth is None and is_possible(reach)
        self._auth = auth
        self._limit = limit
        self._anywhere = reach.issuer == ANY_ISSUER
        urls = (reach.url, "" if self._anywhere else reach.issuer, issuer)
        self._named = {_origin(httpx2.URL(url)) for url in urls if url}

    def client(
        self,
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """An HTTP client that keeps the rules of this file. The arguments are those the SDK gives its factories."""
        return httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", **self._begun, **self.reach.headers, **(headers or {})},
            timeout=timeout or httpx2.Timeout(CONNECT, read=None),
            auth=auth or self._auth,
            verify=_certificates(),
            mounts={self._origin: HandoverTransport(verify=_certificates())}
            if self._direct or self._hands_over
            else None,
            event_hooks={"request": [self._sending], "response": [self._received]},
        )

    @property
    def _origin(self) -> str:
        url = httpx2.URL(self.reach.url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}"

    def direct(self, session: ClientSession, modern: bool) -> DirectHttp | None:
        """The short way for plain calls, where there is one, once a revision is agreed on."""
        if not self._direct:
            return None
        session_id = None if modern else self._session_id
        url = httpx2.URL(self.reach.url)
        place = HttpTarget(url.host, url.port or 80, url.netloc.decode("ascii"), url.raw_path)
        return DirectHttp(
            place, self._headers, lambda data, options: session._stamp(data, options), session_id, self._limit
        )

    @property
    def in_session(self) -> bool:
        """Whether the server has begun a session."""
        return self._session_id is not None

    @asynccontextmanager
    async def streamable(self) -> AsyncIterator[Any]:
        """The two streams of Streamable HTTP."""
        async with (
            self.client() as client,
            streamable_http_client(self.reach.url, http_client=client, max_sse_event_size=self._limit) as streams,
        ):
            self._headers = client.headers
            yield streams

    @asynccontextmanager
    async def pair(self) -> AsyncIterator[Any]:
        """The two streams of HTTP+SSE, as of 2024-11-05."""
        self._direct = False
        url, day = self.reach.url, 24 * 3600.0
        async with sse_client(url, None, CONNECT, day, self.client, self._auth) as streams:
            yield streams

    async def _sending(self, request: httpx2.Request) -> None:
        origin = _origin(request.url)
        if origin not in self._named and not self._anywhere:
            scheme, host, port = origin
            remedy = (
                f"to allow it, name it with launch.issuer={scheme}://{host}:{port}" if not self.reach.public else ""
            )
            await _pinned(request, self.reach.described, remedy)
            request.headers["Connection"] = "close"  # a kept connection would serve another name at this address
        elif self.reach.public:
            await _pinned(request, self.reach.described)

    async def _received(self, response: httpx2.Response) -> None:
        asked = response.request
        asked.url = asked.extensions.get(_ASKED, asked.url)  # the rest reads the URL as it was written
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise httpx2.ReadError(f"{response.request.url} sent a compressed body, which was not asked for")
        self._session_id = response.headers.get("mcp-session-id", self._session_id)
        self._direct = self._direct and "set-cookie" not in response.headers
        refused = response.status_code >= 400
        if refused:
            self.status = response.status_code
        run = CURRENT.get()
        if run is not None:  # what is answered in the end counts: before that a sign-in may have been refused something
            run.refused = f"HTTP {response.status_code} {response.reason_phrase}".rstrip() if refused else None
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Paced(response.stream)
        else:
            response.stream = _Bounded(response.stream, self._limit, str(response.request.url.copy_with(query=None)))


async def _pinned(request: httpx2.Request, who: str, remedy: str = "") -> None:
    """Let a request go to the very address that was checked; names and certificates stay those of the host.

    Raises Unreachable when the host is not, or may not be, a public one.
    """
    _, host, port = _origin(request.url)
    address = await anyio.to_thread.run_sync(public_address, host, port, who, remedy)
    request.extensions = {**request.extensions, "sni_hostname": host, _ASKED: request.url}
    request.url = request.url.copy_with(host=address)


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    """Scheme, host and port of a URL."""
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)
