"""ChatGPT and claude.ai connect to the hub, as their makers and their users describe it, step by step.

Both run on machines of their makers: they find everything from the URL that a person entered. The test plays them; the
hub is a program, and the metadata documents come from a server with TLS.
Sources: https://developers.openai.com/apps-sdk/build/auth (metadata, `resource` in both requests, S256, documents
before registration, `private_key_jwt` where the server has it); the documents at https://chatgpt.com/oauth/ID/client.json;
https://claude.com/docs/connectors/building/authentication and
https://support.claude.com/en/articles/11503834 (registration, callback, refresh, 401 `invalid_client`).
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.access.oauth.conftest import ECHO
from tests.access.oauth.document_server import HOST, DocumentServer
from tests.person_at_browser import PersonAtBrowser
from tests.serving.running import Hub, running
from tests.signing_in import challenge_of
from tests.waiting import BOUND

pytestmark = [pytest.mark.process]

JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
CLAUDE_CALLBACKS = ["https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"]
CHATGPT_CALLBACK = "https://chatgpt.com/connector/oauth/kDmjx77UnKOM"
CHATGPT_OLD_CALLBACK = "https://chatgpt.com/connector_platform_oauth_redirect"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, documents: DocumentServer) -> Iterator[Hub]:
    """A hub whose access tokens live as long as those of any hub."""
    folder = tmp_path_factory.mktemp("hosted")
    (folder / "servers").mkdir()
    (folder / "servers" / "echo.py").write_text(ECHO)
    environ = os.environ | {"SSL_CERT_FILE": str(documents.certificate)}
    with running(folder, "--access", "shared", "--client-hosts", HOST, environ=environ) as hub:
        yield hub


@dataclass
class HostedClient:
    """A client that knows the URL of an MCP endpoint, and nothing else of the hub."""

    endpoint: str
    callback: str
    id: str = ""
    proof: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    resource: dict[str, Any] = field(default_factory=dict)
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    tokens: dict[str, Any] = field(default_factory=dict)

    def discover(self) -> None:
        """Follow the challenge to the metadata of the resource and of the authorization server."""
        refused = httpx2.post(self.endpoint, json=INITIALIZE, headers=STREAMABLE, timeout=BOUND)
        assert refused.status_code == 401
        challenge = refused.headers["www-authenticate"]
        address = challenge.partition('resource_metadata="')[2].partition('"')[0]
        self.resource = httpx2.get(address, timeout=BOUND).json()
        # Both compare it with the URL that the person entered.
        assert self.resource["resource"] == self.endpoint
        [server] = self.resource["authorization_servers"]
        self.metadata = httpx2.get(f"{server}/.well-known/oauth-authorization-server", timeout=BOUND).json()
        assert self.metadata["issuer"] == server and "S256" in self.metadata["code_challenge_methods_supported"]
        assert "refresh_token" in self.metadata["grant_types_supported"]

    def register(self, **metadata: Any) -> None:
        """Register (RFC 7591) as a public client."""
        body = {
            "redirect_uris": [self.callback],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        }
        answer = httpx2.post(self.metadata["registration_endpoint"], json=body | metadata, timeout=BOUND)
        assert answer.status_code == 201, answer.text
        self.id = answer.json()["client_id"]

    def ask(self, person: PersonAtBrowser) -> str:
        """Send the person to the hub; return the code that the browser brings to the callback."""
        query = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.callback,
            "scope": " ".join(self.metadata["scopes_supported"]),
            "state": secrets.token_urlsafe(16),
            "code_challenge": challenge_of(self.verifier),
            "code_challenge_method": "S256",
            "resource": self.resource["resource"],
        }
        led = person.approve(f"{self.metadata['authorization_endpoint']}?{urlencode(query)}")
        assert led.startswith(f"{self.callback}?")
        answer = {name: values[0] for name, values in parse_qs(urlsplit(led).query).items()}
        assert answer["state"] == query["state"] and answer["iss"] == self.metadata["issuer"]
        return answer["code"]

    def redeem(self, code: str, **proof: str) -> httpx2.Response:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.callback}
        return self.post({**form, "code_verifier": self.verifier, "resource": self.resource["resource"]}, **proof)

    def refresh(self, **proof: str) -> httpx2.Response:
        form = {"grant_type": "refresh_token", "refresh_token": self.tokens["refresh_token"]}
        return self.post({**form, "resource": self.resource["resource"]}, **proof)

    def post(self, form: dict[str, str], **proof: str) -> httpx2.Response:
        return httpx2.post(self.metadata["token_endpoint"], data={"client_id": self.id, **form, **proof}, timeout=BOUND)

    def take(self, answer: httpx2.Response) -> None:
        assert answer.status_code == 200, answer.text
        self.tokens = answer.json()
        assert self.tokens["token_type"] == "Bearer" and self.tokens["expires_in"] > 0

    def call(self) -> str:
        """Call the tool `echo` with the access token, over Streamable HTTP."""
        headers = {**STREAMABLE, "Authorization": f"Bearer {self.tokens['access_token']}"}
        begun = httpx2.post(self.endpoint, json=INITIALIZE, headers=headers, timeout=BOUND)
        assert begun.status_code == 200, begun.text
        headers["MCP-Protocol-Version"] = "2025-06-18"
        if session := begun.headers.get("mcp-session-id"):
            headers["Mcp-Session-Id"] = session
        httpx2.post(self.endpoint, json=INITIALIZED, headers=headers, timeout=BOUND)
        answer = httpx2.post(self.endpoint, json=CALL, headers=headers, timeout=BOUND)
        text = answer.text
        if answer.headers["content-type"].startswith("text/event-stream"):
            text = next(line[6:] for line in text.splitlines() if line.startswith("data: ") and '"result"' in line)
        return str(json.loads(text)["result"]["content"][0]["text"])


STREAMABLE = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a hosted client", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}}


class Signer:
    """ChatGPT's side of `private_key_jwt`: it publishes its keys beside its document, and signs with one of them."""

    def __init__(self, documents: DocumentServer, name: str) -> None:
        self._documents = documents
        self._keys_path = f"/published/{name}/jwks.json"
        path = f"/published/{name}/client.json"
        self.id = documents.url(path)
        self.key = RSAKey.generate_key(2048, {"kid": f"{name}-1", "use": "sig"})
        documents.published[path] = documents.document(
            path,
            client_name="ChatGPT",
            redirect_uris=[CHATGPT_CALLBACK],
            token_endpoint_auth_method="private_key_jwt",
            token_endpoint_auth_methods_supported=["none", "private_key_jwt"],
            token_endpoint_auth_signing_alg="RS256",
            jwks_uri=documents.url(self._keys_path),
        )
        self.publish()

    def publish(self) -> None:
        keys = {"keys": [self.key.as_dict(private=False)]}
        self._documents.published[self._keys_path] = json.dumps(keys).encode()

    def prove(self, audience: str, key: RSAKey | None = None, **changes: Any) -> dict[str, str]:
        now = int(time.time())
        claims = {"iss": self.id, "sub": self.id, "aud": audience, "iat": now, "exp": now + 60}
        claims |= {"jti": secrets.token_hex(8)} | changes
        signed = jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, key or self.key)
        return {"client_assertion_type": JWT_BEARER, "client_assertion": signed}


@pytest.mark.parametrize("callback", CLAUDE_CALLBACKS)
def test_claude_ai_registers_signs_a_person_in_and_refreshes(hub: Hub, person: PersonAtBrowser, callback: str) -> None:
    client = HostedClient(f"{person.base}/mcp/echo", callback)
    client.discover()
    client.register(client_name="Claude", client_uri="https://claude.ai", scope="see call read")
    client.take(client.redeem(client.ask(person)))
    assert client.call() == "hello"
    before = client.tokens["refresh_token"]
    client.take(client.refresh())
    assert client.call() == "hello" and client.tokens["refresh_token"] != before
    [row] = person.account()["clients"]
    assert row["name"] == "Claude"


def test_claude_ai_learns_from_401_invalid_client_that_it_has_to_register_again(
    hub: Hub, person: PersonAtBrowser
) -> None:
    client = HostedClient(f"{person.base}/mcp/echo", CLAUDE_CALLBACKS[0])
    client.discover()
    client.register(client_name="Claude")
    code = client.ask(person)
    client.id = "registered.another"
    refused = client.redeem(code)
    assert refused.status_code == 401 and refused.json()["error"] == "invalid_client"


def test_claude_ai_signs_in_with_its_metadata_document(
    hub: Hub, person: PersonAtBrowser, documents: DocumentServer
) -> None:
    path = "/published/claude/client.json"
    documents.published[path] = documents.document(path, client_name="Claude", redirect_uris=CLAUDE_CALLBACKS)
    client = HostedClient(f"{person.base}/mcp/echo", CLAUDE_CALLBACKS[0], documents.url(path))
    client.discover()
    assert client.metadata["client_id_metadata_document_supported"] is True
    client.take(client.redeem(client.ask(person)))
    assert client.call() == "hello"


@pytest.mark.parametrize("audience", ["issuer", "token_endpoint"])
def test_chatgpt_signs_in_with_its_document_and_its_key(
    hub: Hub, person: PersonAtBrowser, documents: DocumentServer, audience: str
) -> None:
    signer = Signer(documents, f"chatgpt-{audience}")
    client = HostedClient(f"{person.base}/mcp/echo", CHATGPT_CALLBACK, signer.id)
    client.discover()
    assert client.metadata["client_id_metadata_document_supported"] is True
    assert "private_key_jwt" in client.metadata["token_endpoint_auth_methods_supported"]
    client.take(client.redeem(client.ask(person), **signer.prove(client.metadata[audience])))
    assert client.call() == "hello"
    client.take(client.refresh(**signer.prove(client.metadata[audience])))
    assert client.call() == "hello"


def test_chatgpt_signs_in_after_a_registration(hub: Hub, person: PersonAtBrowser) -> None:
    client = HostedClient(f"{person.base}/mcp/echo", CHATGPT_OLD_CALLBACK)
    client.discover()
    client.register(client_name="ChatGPT")
    client.take(client.redeem(client.ask(person)))
    assert client.call() == "hello"


def test_chatgpt_goes_on_with_a_new_key(hub: Hub, person: PersonAtBrowser, documents: DocumentServer) -> None:
    """The hub fetches the keys of this client first when the new one is already there."""
    signer = Signer(documents, "chatgpt-rotating")
    client = HostedClient(f"{person.base}/mcp/echo", CHATGPT_CALLBACK, signer.id)
    client.discover()
    code = client.ask(person)
    signer.key = RSAKey.generate_key(2048, {"kid": "second", "use": "sig"})
    signer.publish()
    client.take(client.redeem(code, **signer.prove(client.metadata["issuer"])))
    assert client.call() == "hello"


def test_nothing_but_a_new_signature_of_its_key_proves_a_client_that_signs(
    hub: Hub, person: PersonAtBrowser, documents: DocumentServer
) -> None:
    signer, other = Signer(documents, "chatgpt-attacked"), RSAKey.generate_key(2048)
    client = HostedClient(f"{person.base}/mcp/echo", CHATGPT_CALLBACK, signer.id)
    client.discover()
    issuer, code = client.metadata["issuer"], client.ask(person)
    used = signer.prove(issuer)
    client.take(client.redeem(code, **used))
    stranger = Signer(documents, "chatgpt-stranger")
    for what, proof in {
        "no proof": {},
        "a secret": {"client_secret": "x"},
        "another key": signer.prove(issuer, key=other),
        "another audience": signer.prove("https://elsewhere.example"),
        "another client": stranger.prove(issuer),
        "another subject": signer.prove(issuer, sub=stranger.id),
        "a used assertion": used,
        "an old assertion": signer.prove(issuer, exp=int(time.time()) - 600),
        "an assertion without an id": signer.prove(issuer, jti=""),
    }.items():
        answer = client.refresh(**proof)
        assert answer.status_code in (400, 401) and "access_token" not in answer.text, (what, answer.text)
    client.take(client.refresh(**signer.prove(issuer)))
