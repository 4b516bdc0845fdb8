"""The official Python SDK's client finds the outside issuer, signs a person in and calls a tool, from an empty home."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from urllib.parse import parse_qs, urlsplit

import httpx2
import mcp
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl
from werkzeug.serving import make_server

from patchbay.access.tokens.access_tokens import AccessTokens
from patchbay.access.tokens.issuer import Issuer as OutsideIssuer
from tests.access.tokens.browsers import sign_in
from tests.access.tokens.guarded_hubs import guard
from tests.access.tokens.issuers import Issuer
from tests.checkout import ROOT
from tests.hubs import Hub
from tests.interaction.peers import NODE, PACKAGES, texts
from tests.interaction.programs import plain_environment

pytestmark = [pytest.mark.node, pytest.mark.process]

CALLBACK = "http://127.0.0.1:9/callback"


class EmptyHome:
    """Where the client keeps its registration and its tokens: nothing at first."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """A person who signs in when the client shows a page; `pages` are the pages."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pages: list[str] = []

    async def open_page(self, url: str) -> None:
        self.pages.append(url)

    async def wait_for_code(self) -> AuthorizationCodeResult:
        found = await asyncio.to_thread(sign_in, self.pages[-1], self.name, CALLBACK)
        query = {name: values[0] for name, values in parse_qs(urlsplit(found).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


@pytest.fixture(scope="module")
def url(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    hub = Hub(
        tmp_path_factory.mktemp("hub"), {"echo.py": 'def echo(text: str) -> str:\n    """Echo."""\n    return text'}
    )
    guard(hub, AccessTokens(OutsideIssuer(issuer.url, required_scopes=("mcp:use",)), hub.catalogue.store.journal))
    server = make_server("127.0.0.1", 0, hub.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
    hub.close()


@asynccontextmanager
async def connected(
    endpoint: str, home: EmptyHome, person: Person, mode: str = "legacy"
) -> AsyncIterator[tuple[mcp.Client, OAuthClientProvider]]:
    """A connected client, and what signs it in."""
    metadata = OAuthClientMetadata(
        client_name="a client of tests",
        redirect_uris=[AnyUrl(CALLBACK)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    auth = OAuthClientProvider(endpoint, metadata, home, person.open_page, person.wait_for_code)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60) as http,
        mcp.Client(streamable_http_client(endpoint, http_client=http), mode=mode) as client,
    ):
        yield client, auth


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_client_with_an_empty_home_finds_the_issuer_signs_in_and_calls(url: str, issuer: Issuer, mode: str) -> None:
    home, person = EmptyHome(), Person("ann")

    async def call() -> str:
        async with connected(f"{url}/mcp/echo", home, person, mode) as (client, _):
            return texts((await client.call_tool("echo", {"text": "hello"})).content)

    assert asyncio.run(call()) == "hello"
    query = {name: values[0] for name, values in parse_qs(urlsplit(person.pages[0]).query).items()}
    assert person.pages[0].startswith(issuer.url)
    assert query["resource"] == f"{url}/mcp/echo"
    assert "mcp:use" in query["scope"].split()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "sdk-1"])
def test_the_typescript_sdks_sign_in_and_call(url: str, issuer: Issuer, mode: str, tmp_path: Path) -> None:
    program = str(ROOT / "tests/access/tokens/sign_in.mjs")
    command = [str(NODE), program, str(PACKAGES), mode, f"{url}/mcp/echo"]
    with Popen(command, env=plain_environment(tmp_path), text=True, stdin=PIPE, stdout=PIPE) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        try:
            page = client.stdout.readline().strip()
            assert page.startswith(issuer.url)
            client.stdin.write(sign_in(page, "ann", CALLBACK) + "\n")
            client.stdin.flush()
            assert client.stdout.readline() == "hello\n"
        finally:
            client.kill()


def test_a_session_survives_refreshed_tokens(url: str) -> None:
    home, person = EmptyHome(), Person("ann")

    async def call_often() -> list[str]:
        async with connected(f"{url}/mcp/echo", home, person) as (client, auth):
            seen = []
            for _ in range(4):
                assert texts((await client.call_tool("echo", {"text": "hello"})).content) == "hello"
                assert home.tokens is not None
                seen.append(home.tokens.access_token)
                auth.context.token_expiry_time = 1.0
            return seen

    assert len(set(asyncio.run(call_often()))) == 4
    assert len(person.pages) == 1
