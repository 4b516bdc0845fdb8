"""A client of the official Python SDK that a person signs in, with a browser of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import httpx2
import mcp
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl

from tests.access.empty_home import EmptyHome
from tests.person_at_browser import PersonAtBrowser

CALLBACK = "http://127.0.0.1:9/callback"


@asynccontextmanager
async def connected(
    endpoint: str, home: EmptyHome, person: PersonAtBrowser, mode: str = "legacy", document: str | None = None
) -> AsyncIterator[tuple[mcp.Client, OAuthClientProvider]]:
    """A connected client of the Python SDK, and what signs it in."""
    metadata = OAuthClientMetadata(
        client_name="a client of tests",
        redirect_uris=[AnyUrl(CALLBACK)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    pages: list[str] = []

    async def open_page(url: str) -> None:
        pages.append(url)

    async def wait_for_code() -> AuthorizationCodeResult:
        found = await asyncio.to_thread(person.approve, pages[-1])
        query = {name: values[0] for name, values in parse_qs(urlsplit(found).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    auth = OAuthClientProvider(endpoint, metadata, home, open_page, wait_for_code, client_metadata_url=document)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60) as http,
        mcp.Client(streamable_http_client(endpoint, http_client=http), mode=mode) as client,
    ):
        yield client, auth
