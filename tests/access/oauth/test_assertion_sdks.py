"""FastMCP's client and the official SDKs call tools with an identity assertion that oidc-provider issued."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import fastmcp
import httpx2
import mcp
import pytest
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.streamable_http import streamable_http_client

from tests.access.empty_home import EmptyHome
from tests.access.oauth.conftest import ECHO
from tests.access.oauth.test_program_sdks import make_program
from tests.access.tokens.browsers import sign_in
from tests.access.tokens.issuers import Issuer, running_issuer
from tests.checkout import ROOT
from tests.interaction.peers import NODE, PACKAGES, texts
from tests.interaction.programs import plain_environment
from tests.serving.running import Hub, running
from tests.signing_in import challenge_of
from tests.waiting import BOUND

pytestmark = [pytest.mark.node, pytest.mark.process]

CLIENT, SECRET = "exchanger", "exchanger-secret"
"""The client at the identity provider. At the hub it has the same name, and a secret of its own."""

CALLBACK = "http://127.0.0.1:9/callback"


@dataclass
class Company:
    """An identity provider, a hub that trusts it, and the secret of the client at the hub."""

    provider: Issuer
    hub: Hub
    secret: str

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.hub.port}"

    @property
    def endpoint(self) -> str:
        return f"{self.base}/mcp/echo"


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    folder = tmp_path_factory.mktemp("company")
    (folder / "hub" / "servers").mkdir(parents=True)
    (folder / "hub" / "servers" / "echo.py").write_text(ECHO)
    with ExitStack() as stack:
        provider = stack.enter_context(running_issuer(folder / "provider"))
        hub = stack.enter_context(running(folder / "hub", "--access", "shared", "--assertion-issuers", provider.url))
        yield Company(provider, hub, make_program(hub, CLIENT)["client_secret"])


def get_id_token(provider: Issuer, name: str) -> str:
    """Sign a person in at the identity provider, as the client, and return the ID token."""
    verifier = secrets.token_urlsafe(48)
    query = {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": CALLBACK,
        "scope": "openid",
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
    }
    found = sign_in(f"{provider.url}/auth?{urlencode(query)}", name, CALLBACK)
    form = {
        "grant_type": "authorization_code",
        "code": parse_qs(urlsplit(found).query)["code"][0],
        "redirect_uri": CALLBACK,
        "code_verifier": verifier,
    }
    answer = httpx2.post(f"{provider.url}/token", data=form, auth=(CLIENT, SECRET), timeout=60)
    return str(answer.json()["id_token"])


def get_assertion(provider: Issuer, id_token: str, audience: str, resource: str) -> str:
    """Exchange an ID token for an identity assertion, as the MCP extension describes it in section 4."""
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token": id_token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "audience": audience,
        "resource": resource,
        "scope": "see call",
    }
    answer = httpx2.post(f"{provider.url}/token", data=form, auth=(CLIENT, SECRET), timeout=60)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


def make_auth(company: Company, name: str, asked: list[tuple[str, str]]) -> IdentityAssertionOAuthProvider:
    """The authentication of the official SDK, which FastMCP's client takes too; `asked` gets its requests."""
    id_token = get_id_token(company.provider, name)

    async def provide(audience: str, resource: str) -> str:
        asked.append((audience, resource))
        return await asyncio.to_thread(get_assertion, company.provider, id_token, audience, resource)

    return IdentityAssertionOAuthProvider(
        company.endpoint, EmptyHome(), CLIENT, company.secret, company.base, provide, scope="see call"
    )


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_client_of_fastmcp_calls_a_tool_with_an_identity_assertion(company: Company, mode: str) -> None:
    asked: list[tuple[str, str]] = []

    async def run() -> str:
        transport = StreamableHttpTransport(company.endpoint, auth=make_auth(company, "ann", asked))
        async with fastmcp.Client(transport, mode=mode) as client:
            return texts((await client.call_tool("echo", {"text": "hello"})).content)

    assert asyncio.run(run()) == "hello"
    assert asked == [(company.base, company.endpoint)]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_python_sdk_calls_a_tool_with_an_identity_assertion(company: Company, mode: str) -> None:
    async def run() -> str:
        async with (
            httpx2.AsyncClient(auth=make_auth(company, "ben", []), timeout=60) as http,
            mcp.Client(streamable_http_client(company.endpoint, http_client=http), mode=mode) as client,
        ):
            return texts((await client.call_tool("echo", {"text": "hello"})).content)

    assert asyncio.run(run()) == "hello"


def test_the_typescript_sdk_gets_an_identity_assertion_and_calls_a_tool(company: Company, tmp_path: Path) -> None:
    given = {
        "idp": company.provider.url,
        "idToken": get_id_token(company.provider, "cleo"),
        "idpClient": {"clientId": CLIENT, "clientSecret": SECRET},
        "hubClient": {"clientId": CLIENT, "clientSecret": company.secret},
        "issuer": company.base,
        "endpoint": company.endpoint,
    }
    done = subprocess.run(
        [str(NODE), str(ROOT / "tests/access/oauth/assertion_client.mjs"), str(PACKAGES)],
        input=json.dumps(given),
        env=plain_environment(tmp_path),
        text=True,
        capture_output=True,
        timeout=BOUND,
        check=False,
    )
    assert done.stdout == "hello\n", done.stderr
