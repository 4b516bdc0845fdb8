"""A shared hub behind nginx and Caddy with TLS, configured as docs/sharing.md prints it: sign-in, keys, OAuth, cookies.

Source: issue 16 item 7.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.access.empty_home import EmptyHome
from tests.access.oauth.sdk_client import connected
from tests.interaction.peers import texts
from tests.person_at_browser import PersonAtBrowser
from tests.serving.proxies import PROXIES, proxied
from tests.serving.running import Hub, running
from tests.signing_in import HTML, PASSWORD

pytestmark = [pytest.mark.process]

ECHO = 'def echo(text: str) -> str:\n    """Echo."""\n    return text\n'
FORGED = {
    "X-Forwarded-Proto": "http",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-For": "127.0.0.1",
    "Forwarded": "for=127.0.0.1;host=evil.example;proto=http",
    "X-Real-IP": "127.0.0.1",
}
METADATA = "/.well-known/oauth-protected-resource/mcp/echo"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub behind the proxies."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "servers").mkdir()
    (folder / "servers" / "echo.py").write_text(ECHO)
    with running(folder, "--access", "shared") as found:
        yield found
        assert found.end() == 0


@pytest.fixture(scope="module", params=PROXIES)
def public(
    request: pytest.FixtureRequest, hub: Hub, files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of the hub that the public uses; clients of this module trust its certificate."""
    folder = tmp_path_factory.mktemp("proxy") / request.param
    with pytest.MonkeyPatch.context() as patch, proxied(PROXIES[request.param], folder, hub.port, *files) as address:
        patch.setenv("SSL_CERT_FILE", str(files[0]))
        yield address


@pytest.fixture
def client(public: str, files: tuple[Path, Path]) -> Iterator[httpx2.Client]:
    context = ssl.create_default_context(cafile=files[0])
    with httpx2.Client(base_url=public, verify=context, timeout=60) as client:
        yield client


def test_the_hub_sees_its_public_address(client: httpx2.Client, public: str) -> None:
    """The resource, the issuer and each endpoint of the authorization server are URLs that clients can reach."""
    resource = client.get(METADATA).json()
    assert (resource["resource"], resource["authorization_servers"]) == (f"{public}/mcp/echo", [public])
    server = client.get("/.well-known/oauth-authorization-server").json()
    assert server["issuer"] == public
    assert all(server[f"{name}_endpoint"].startswith(f"{public}/oauth/") for name in ("token", "authorization"))
    refused = client.post("/mcp/echo", json={})
    assert refused.status_code == 401
    assert f'resource_metadata="{public}{METADATA}"' in refused.headers["WWW-Authenticate"]


def test_forged_headers_of_a_client_are_not_believed(client: httpx2.Client, public: str) -> None:
    """The proxy replaces what a client writes; the hub does not read the rest."""
    for name, value in FORGED.items():
        answer = client.get(METADATA, headers={name: value})
        assert answer.json()["resource"] == f"{public}/mcp/echo", name
        assert client.get("/mcp", headers={name: value}).status_code == 401, name
    form = {"name": "absent", "password": "wrong"}
    foreign = FORGED | {"Origin": "https://evil.example"}
    assert client.post("/login/password", data=form, headers=foreign).status_code == 403


def test_a_person_signs_in_with_cookies_for_tls_only(hub: Hub, client: httpx2.Client, public: str) -> None:
    name = f"person.{public.rpartition(':')[2]}"
    PersonAtBrowser(hub, name, base=public).close()
    browser = {**HTML, "Origin": public}
    answer = client.post("/login/password", data={"name": name, "password": PASSWORD}, headers=browser)
    cookies = answer.headers.get_list("Set-Cookie")
    assert answer.status_code == 303 and len(cookies) == 2
    assert all(cookie.startswith("__Host-patchbay-") and "; Secure" in cookie for cookie in cookies)
    assert f"<h1>{name}</h1>" in client.get("/account", headers=browser).text
    link = client.get(hub.login_path(), headers=HTML)
    assert link.headers["Set-Cookie"].startswith("__Host-patchbay=") and "; Secure" in link.headers["Set-Cookie"]


def test_a_program_calls_with_a_key(hub: Hub, client: httpx2.Client) -> None:
    made = client.post(
        "/access/keys",
        data={"do": "make", "name": f"robot{client.base_url.port}"},
        headers={"Accept": "application/json", **hub.as_operator()},
    )
    params: dict[str, Any] = {"name": "echo", "arguments": {"text": "hello"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Authorization": f"Bearer {made.json()['token']}", "Accept": "application/json, text/event-stream"}
    answer = client.post("/mcp/echo", json=message, headers=headers)
    assert answer.json()["result"]["content"][0]["text"] == "hello"


def test_the_python_sdk_signs_a_person_in_and_calls(hub: Hub, public: str) -> None:
    person = PersonAtBrowser(hub, f"sdk.{public.rpartition(':')[2]}", base=public)

    async def call() -> str:
        async with connected(f"{public}/mcp/echo", EmptyHome(), person) as (client, _):
            return texts((await client.call_tool("echo", {"text": "hello"})).content)

    assert asyncio.run(call()) == "hello"
    [row] = person.account()["clients"]
    assert row["resource"] == f"{public}/mcp/echo"
    person.close()
