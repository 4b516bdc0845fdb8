"""The official Python SDK's client finds the outside issuer, signs a person in and calls a tool, from an empty home."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import mcp
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl

from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.tokens.access_tokens import AccessTokens
from patchbay.access.tokens.issuer import Issuer as OutsideIssuer
from patchbay.client.addresses.targets import Http
from patchbay.client.auth.methods import BrowserSignIn
from patchbay.client.auth.token_files import TokenFile
from patchbay.client.connection.connection import Connection
from patchbay.store import Store
from tests.access.empty_home import EmptyHome
from tests.access.tokens.browsers import sign_in
from tests.access.tokens.issuers import DpopClient, Issuer
from tests.checkout import ROOT
from tests.interaction.peers import NODE, PACKAGES, texts
from tests.interaction.programs import Hub, plain_environment, running_hub

pytestmark = [pytest.mark.node, pytest.mark.process]

CALLBACK = "http://127.0.0.1:9/callback"


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
def hub(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub of two worker processes that takes the tokens of the issuer."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "echo.py").write_text('def echo(text: str) -> str:\n    """Echo."""\n    return text\n')
    options = ["--workers", "2", "--issuer", issuer.url, "--required-scopes", "mcp:use"]
    with running_hub(folder / "hub", [folder / "echo.py"], options=options) as hub:
        yield hub
        assert "eyJ" not in hub.log.read_text("utf-8"), "a token is in the log"


@pytest.fixture(scope="module")
def url(hub: Hub) -> str:
    return hub.url


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


def test_a_refresh_token_is_not_an_access_token(url: str, issuer: Issuer, store: Store) -> None:
    home, endpoint = EmptyHome(), f"{url}/mcp/echo"

    async def call() -> None:
        async with connected(endpoint, home, Person("ann")) as (client, _):
            await client.list_tools()

    asyncio.run(call())
    assert home.tokens is not None
    outside = OutsideIssuer(issuer.url, client_id="hub", client_secret="hub: secret/%")
    headers = {"authorization": f"Bearer {home.tokens.refresh_token}"}
    with pytest.raises(Unauthorized, match="does not say that the token is an access token"):
        AccessTokens(outside, store.journal).authenticate(Credentials("POST", endpoint, headers, resource=endpoint))


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


def send(endpoint: str, method: str, headers: dict[str, str], params: dict[str, Any] | None = None) -> httpx2.Response:
    """One request on a connection of its own, as the revision 2025-11-25 sends it."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    known = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    return httpx2.post(endpoint, json=message, headers=known | headers, timeout=60)


def test_a_session_belongs_to_the_principal_and_not_to_the_token(url: str, issuer: Issuer) -> None:
    endpoint = f"{url}/mcp/echo"
    ann, again, ben = (
        {"Authorization": f"Bearer {issuer.mint(endpoint, sub=subject, jti=id)}"}
        for subject, id in (("ann", "1"), ("ann", "2"), ("ben", "3"))
    )
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    session = {"Mcp-Session-Id": send(endpoint, "initialize", ann, hello).headers["mcp-session-id"]}
    assert send(endpoint, "ping", ann | session).status_code == 200
    assert send(endpoint, "ping", again | session).status_code == 200
    assert send(endpoint, "ping", ben | session).status_code == 404


def test_of_many_requests_with_one_proof_to_two_workers_one_is_served(url: str, issuer: Issuer) -> None:
    endpoint, sender = f"{url}/mcp/echo", DpopClient()
    token = issuer.get_token(endpoint, dpop=sender)
    for _ in range(3):
        headers = {"Authorization": f"DPoP {token}", "DPoP": sender.prove("POST", endpoint, token)}
        with ThreadPoolExecutor(8) as threads:
            answers = [threads.submit(send, endpoint, "ping", headers) for _ in range(8)]
            statuses = [answer.result().status_code for answer in answers]
        assert sorted(statuses) == [200] + [401] * 7


def test_expired_tokens_are_not_counted_as_guesses_of_a_secret(url: str, issuer: Issuer) -> None:
    endpoint = f"{url}/mcp/echo"
    expired = {"Authorization": f"Bearer {issuer.mint(endpoint, exp=1)}"}
    assert {send(endpoint, "ping", expired).status_code for _ in range(30)} == {401}


@pytest.mark.parametrize("path", ["/", "/mcp", "/search?q=a", "/activity", "/mcp/meta/echo"])
def test_pages_and_programs_get_what_a_token_for_the_hub_allows(url: str, issuer: Issuer, path: str) -> None:
    headers = {"Accept": "application/json, text/event-stream;q=0.1"}
    assert httpx2.get(url + path, headers=headers).status_code == 401
    for audience, status in ((f"{url}/mcp", 200), (f"{url}/mcp/echo", 401)):
        token = {"Authorization": f"Bearer {issuer.mint(audience)}"}
        found = httpx2.get(url + path, headers=headers | token, follow_redirects=True)
        assert (found.status_code == 401) is (status == 401), (path, audience, found.text)


def test_a_stream_that_an_older_token_opened_goes_on_after_a_refresh(hub: Hub, issuer: Issuer) -> None:
    endpoint, definition = hub.endpoint("echo"), hub.servers / "echo.py"
    older, newer = (
        {"Authorization": f"Bearer {issuer.mint(endpoint, jti=id, exp=int(time.time()) + seconds)}"}
        for id, seconds in (("1", 60), ("2", 600))
    )
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    session = {"Mcp-Session-Id": send(endpoint, "initialize", older, hello).headers["mcp-session-id"]}
    head = {"Accept": "text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    with httpx2.stream("GET", endpoint, headers=head | older | session, timeout=60) as stream:
        assert stream.status_code == 200
        assert send(endpoint, "ping", newer | session).status_code == 200
        definition.write_text(definition.read_text() + '\ndef more() -> str:\n    """More."""\n    return "more"\n')
        assert any("tools/list_changed" in line for line in stream.iter_lines())


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_this_projects_own_client_signs_in_with_a_token_that_is_bound_to_its_key(
    url: str, issuer: Issuer, era: Any, tmp_path: Path
) -> None:
    threads: list[threading.Thread] = []

    def open_browser(page: str) -> None:
        callback = parse_qs(urlsplit(page).query)["redirect_uri"][0]
        threads.append(threading.Thread(target=lambda: httpx2.get(sign_in(page, "ann", callback), timeout=60)))
        threads[-1].start()

    signin = BrowserSignIn(tmp_path, open_browser, issuer=issuer.url)
    target = Http(f"{url}/mcp/echo", issuer=issuer.url)
    with Connection.open(target, era=era, signin=signin, start_timeout=60) as client:
        for number in range(3):
            assert client.call_tool("echo", {"text": str(number)})["content"][0]["text"] == str(number)
    for thread in threads:
        thread.join()
    assert TokenFile(tmp_path, target.url).get_proof()[1], "the token is not bound to a key"
