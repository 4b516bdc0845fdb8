"""Authenticates requests with a credential that another part of the program keeps: a token, a key or other headers.

The credential goes to the origin of the server only. After a 401 the source is asked once for another one.
Source: RFC 6750, section 2.1 and 3.1.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio.to_thread
import httpx2

from patchbay.client.addresses.targets import mask_url
from patchbay.client.auth.methods import CredentialSource, RequestParts
from patchbay.client.connection.http import get_origin
from patchbay.client.errors import SignInNeeded

UNAUTHORIZED = 401


class SuppliedAuth(httpx2.Auth):
    """Adds the credential of a source to the requests of one connection to the server at `url`."""

    def __init__(self, url: str, source: CredentialSource) -> None:
        self._url = mask_url(url)
        self._origin = get_origin(httpx2.URL(url))
        self._source = source

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with a credential, and once more with another one after a 401 (as `httpx2.Auth` says)."""
        if get_origin(request.url) != self._origin:
            yield request
            return
        bare = request.url
        parts = await anyio.to_thread.run_sync(self._source.get_parts)
        _add_parts(request, bare, parts)
        response = yield request
        if response.status_code != UNAUTHORIZED:
            return
        fresh = await anyio.to_thread.run_sync(self._source.get_parts, parts)
        _add_parts(request, bare, fresh)
        response = yield request
        if response.status_code == UNAUTHORIZED:
            raise SignInNeeded(f"{self._url} refuses a credential that was made just now")


def _add_parts(request: httpx2.Request, bare: httpx2.URL, parts: RequestParts) -> None:
    request.headers.update(parts.headers)
    request.url = bare.copy_merge_params(parts.query) if parts.query else bare
