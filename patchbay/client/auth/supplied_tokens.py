"""Authenticates requests with tokens that another part of the program keeps and refreshes.

The token goes to the origin of the server only. After a 401 the source is asked once for another token.
Source: RFC 6750, section 2.1 and 3.1.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio.to_thread
import httpx2

from patchbay.client.addresses.targets import mask_url
from patchbay.client.auth.methods import TokenSource
from patchbay.client.connection.http import get_origin
from patchbay.client.errors import SignInNeeded

UNAUTHORIZED = 401


class SuppliedTokenAuth(httpx2.Auth):
    """Adds the token of a source to the requests of one connection to the server at `url`."""

    def __init__(self, url: str, source: TokenSource) -> None:
        self._url = mask_url(url)
        self._origin = get_origin(httpx2.URL(url))
        self._source = source

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with a token, and once more with another one after a 401 (the contract of `httpx2.Auth`)."""
        if get_origin(request.url) != self._origin:
            yield request
            return
        token = await anyio.to_thread.run_sync(self._source.get_token)
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code != UNAUTHORIZED:
            return
        fresh = await anyio.to_thread.run_sync(self._source.get_token, token)
        request.headers["Authorization"] = f"Bearer {fresh}"
        response = yield request
        if response.status_code == UNAUTHORIZED:
            raise SignInNeeded(f"{self._url} refuses a token that its authorization server has just issued")
