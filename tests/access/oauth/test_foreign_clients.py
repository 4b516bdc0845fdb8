"""Clients that were written elsewhere sign a person in from an empty home, at a hub that runs as a program."""

from __future__ import annotations

import asyncio
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

from tests.access.oauth.document_server import HOST, DocumentServer
from tests.checkout import ROOT
from tests.interaction.peers import NODE, PACKAGES, texts
from tests.interaction.programs import plain_environment
from tests.person_at_browser import PersonAtBrowser
from tests.serving.running import Hub, running

pytestmark = [pytest.mark.process]

CALLBACK = "http://127.0.0.1:9/callback"

ECHO = '''"""Echo."""

import time


def echo(text: str) -> str:
    """Echo."""
    return text


def count(context, to: int) -> str:
    """Count slowly."""
    for number in range(to):
        context.progress(number, to)
        time.sleep(0.2)
    return f"counted to {to}"
'''


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentServer]:
    server = DocumentServer(tmp_path_factory.mktemp("documents"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, documents: DocumentServer) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "servers").mkdir()
    (folder / "servers" / "echo.py").write_text(ECHO)
    settings = ["--access", "shared", "--client-hosts", HOST, "--token-minutes", "0.05"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(documents.certificate))
        with running(folder, *settings) as hub:
            yield hub
            assert hub.end() == 0


@pytest.fixture
def person(hub: Hub, request: pytest.FixtureRequest) -> Iterator[PersonAtBrowser]:
    name = "p" + "".join(each if each.isalnum() else "-" for each in request.node.name.lower())[-40:] + "z"
    person = PersonAtBrowser(hub, name)
    yield person
    person.close()


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


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("by_document", [False, True], ids=["registration", "document"])
def test_the_python_sdk_signs_in_and_calls(
    hub: Hub, person: PersonAtBrowser, documents: DocumentServer, mode: str, by_document: bool
) -> None:
    home, document = EmptyHome(), documents.url("/good/client.json")

    async def call() -> str:
        endpoint = f"{person.base}/mcp/echo"
        async with connected(endpoint, home, person, mode, document if by_document else None) as (client, _):
            return texts((await client.call_tool("echo", {"text": "hello"})).content)

    assert asyncio.run(call()) == "hello"
    [page] = person.pages
    query = {name: values[0] for name, values in parse_qs(urlsplit(page).query).items()}
    assert query["resource"] == f"{person.base}/mcp/echo"
    assert (query["client_id"] == document) == by_document
    [row] = person.account()["clients"]
    assert row["name"] == ("A client with a document" if by_document else "a client of tests")


def test_tokens_are_refreshed_while_a_stream_is_open_and_the_session_goes_on(hub: Hub, person: PersonAtBrowser) -> None:
    """An access token of this hub is valid for three seconds; the call takes longer."""
    home = EmptyHome()

    async def use() -> set[str]:
        seen = set()
        async with connected(f"{person.base}/mcp/echo", home, person) as (client, _):
            slow = asyncio.create_task(client.call_tool("count", {"to": 40}))
            while not slow.done():
                assert texts((await client.call_tool("echo", {"text": "hello"})).content) == "hello"
                assert home.tokens is not None
                seen.add(home.tokens.access_token)
                await asyncio.sleep(0.1)
            assert texts((await slow).content) == "counted to 40"
        return seen

    assert len(asyncio.run(use())) >= 3
    assert len(person.pages) == 1


@pytest.mark.node
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "sdk-1"])
def test_the_typescript_sdks_sign_in_and_call(hub: Hub, person: PersonAtBrowser, mode: str, tmp_path: Path) -> None:
    program = str(ROOT / "tests/access/tokens/sign_in.mjs")
    command = [str(NODE), program, str(PACKAGES), mode, f"{person.base}/mcp/echo"]
    with Popen(command, env=plain_environment(tmp_path), text=True, stdin=PIPE, stdout=PIPE) as client:
        assert client.stdin is not None and client.stdout is not None
        try:
            client.stdin.write(person.approve(client.stdout.readline().strip()) + "\n")
            client.stdin.flush()
            assert client.stdout.readline() == "hello\n"
        finally:
            client.kill()
