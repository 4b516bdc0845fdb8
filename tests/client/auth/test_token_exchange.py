"""Token exchange at oidc-provider, and answers of authorization servers that give no usable token."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest

from patchbay.client.auth import token_exchange
from patchbay.client.auth.obtained_tokens import ID_JAG, TokenRefused
from patchbay.client.auth.token_exchange import TokenServer
from patchbay.client.errors import Unreachable
from patchbay.errors import PatchbayError
from tests.access.tokens.issuers import Issuer, running_issuer

HUB, SERVER = "https://hub.example/mcp", "https://server.example/mcp"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer") / "one") as issuer:
        yield issuer


def claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def exchanger(issuer: Issuer, secret: str = "exchanger-secret") -> TokenServer:
    return TokenServer(issuer.url, "exchanger", secret)


@pytest.mark.node
def test_a_token_of_a_caller_becomes_one_for_another_server(issuer: Issuer) -> None:
    found = exchanger(issuer).exchange(issuer.mint(HUB), "", SERVER, "mcp:use")
    claims = claims_of(found.text)
    assert (claims["sub"], claims["aud"], claims["client_id"]) == ("ann", SERVER, "exchanger")
    assert 500 < found.expires - time.time() <= 600
    named = exchanger(issuer).exchange(issuer.mint(HUB), "another-name", SERVER, "")
    assert claims_of(named.text)["aud"] == "another-name"


@pytest.mark.node
def test_a_token_of_a_caller_becomes_an_identity_assertion(issuer: Issuer) -> None:
    found = exchanger(issuer).exchange(issuer.mint(HUB), "https://server.example", SERVER, "call", ID_JAG)
    claims = claims_of(found.text)
    assert (claims["sub"], claims["aud"], claims["resource"]) == ("ann", "https://server.example", SERVER)
    assert (claims["client_id"], claims["scope"]) == ("exchanger", "call")


@pytest.mark.node
def test_an_authorization_server_that_refuses_says_why_and_nothing_else(issuer: Issuer) -> None:
    subject = issuer.mint(HUB, sub="left-ann")
    for server, token, code in (
        (exchanger(issuer), subject, "invalid_grant"),
        (exchanger(issuer), issuer.mint(HUB, iss="https://elsewhere.example"), "invalid_grant"),
        (exchanger(issuer, "wrong"), issuer.mint(HUB), "invalid_client"),
    ):
        with pytest.raises(TokenRefused) as refused:
            server.exchange(token, "", SERVER, "")
        assert refused.value.message == f"{issuer.url} gives no token: {code}"
        assert refused.value.data is None


class _Answers(BaseHTTPRequestHandler):
    """Answers each path with the JSON value of `server.answers`, and keeps what it got."""

    server: _Server

    def _answer(self) -> None:
        length = int(self.headers.get("content-length", 0))
        self.server.got.append((self.path, parse_qs(self.rfile.read(length).decode())))
        status, value = self.server.answers.get(self.path, (404, {}))
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.answers: dict[str, tuple[int, Any]] = {}
        self.got: list[tuple[str, dict[str, list[str]]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def answering(token: Any, status: int = 200, **metadata: Any) -> Iterator[_Server]:
    """An authorization server that answers requests for tokens with a value."""
    server = _Server()
    document = {"issuer": server.url, "token_endpoint": f"{server.url}/token"} | metadata
    server.answers = {
        "/.well-known/oauth-authorization-server": (200, document),
        "/token": (status, token),
    }
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


GOOD = {
    "access_token": "made",
    "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
    "token_type": "Bearer",
    "expires_in": 60,
}


def exchange_at(server: _Server) -> str:
    return TokenServer(server.url, "me", "secret").exchange("the subject", "", SERVER, "").text


def test_the_form_has_what_is_configured_and_the_endpoint_is_looked_up_once() -> None:
    with answering(GOOD) as server:
        client = TokenServer(server.url, "me", "")
        for _ in range(3):
            assert client.exchange("the subject", "", SERVER, "").text == "made"
        assert [path for path, _ in server.got].count("/.well-known/oauth-authorization-server") == 1
        assert server.got[-1][1] == {
            "grant_type": ["urn:ietf:params:oauth:grant-type:token-exchange"],
            "subject_token": ["the subject"],
            "subject_token_type": ["urn:ietf:params:oauth:token-type:access_token"],
            "requested_token_type": ["urn:ietf:params:oauth:token-type:access_token"],
            "resource": [SERVER],
            "client_id": ["me"],
        }


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"access_token": ""}, "without a token"),
        ({"access_token": 7}, "without a token"),
        ({"issued_token_type": ID_JAG}, "another type"),
        ({"issued_token_type": None}, "another type"),
        ({"token_type": "DPoP"}, "no Bearer token"),
        ({"token_type": None}, "no Bearer token"),
    ],
)
def test_an_answer_without_a_usable_token_is_refused(changes: dict[str, Any], says: str) -> None:
    with answering(GOOD | changes) as server, pytest.raises(TokenRefused, match=says):
        exchange_at(server)


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"issuer": "https://elsewhere.example"}, "another issuer"),
        ({"token_endpoint": "http://127.0.0.2:1/token"}, "no token endpoint at an https URL"),
        ({"token_endpoint": 7}, "no token endpoint"),
    ],
)
def test_secrets_go_to_no_endpoint_that_the_issuer_does_not_name_safely(metadata: dict[str, Any], says: str) -> None:
    with answering(GOOD, **metadata) as server:
        with pytest.raises(Unreachable, match=says):
            exchange_at(server)
        assert not any(form for _, form in server.got)


def test_an_error_does_not_repeat_what_the_answer_repeats() -> None:
    for body in ({"error": "the subject is bad"}, {"error": ["the subject"]}, ["the subject"], "the subject"):
        with answering(body, 400) as server, pytest.raises(TokenRefused) as refused:
            exchange_at(server)
        assert "the subject" not in refused.value.message and refused.value.message.endswith("HTTP 400")


def test_a_private_address_is_not_reached_for_a_mount_of_a_stranger() -> None:
    with answering(GOOD) as server:
        with pytest.raises(PatchbayError, match="no usable metadata"):
            TokenServer(server.url, "me", "secret", is_public=True).exchange("the subject", "", SERVER, "")
        assert server.got == []


def test_a_lifetime_that_is_no_number_is_unknown() -> None:
    for seconds in (None, "60", True):
        with answering(GOOD | {"expires_in": seconds}) as server:
            found = TokenServer(server.url, "me", "").exchange("the subject", "", SERVER, "")
            assert found.expires == float("inf")


def test_a_secret_goes_into_the_form_where_the_authorization_server_takes_no_header() -> None:
    with answering(GOOD, token_endpoint_auth_methods_supported=["client_secret_post"]) as server:
        assert exchange_at(server) == "made"
        form = server.got[-1][1]
        assert (form["client_id"], form["client_secret"]) == (["me"], ["secret"])


def test_a_failure_to_find_the_endpoint_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each caller would wait for a provider that gives no answer, one after the other."""
    with answering(GOOD, issuer="https://elsewhere.example") as server:
        client = TokenServer(server.url, "me", "secret")
        for _ in range(3):
            with pytest.raises(Unreachable, match="another issuer"):
                client.exchange("the subject", "", SERVER, "")
        asked = [path for path, _ in server.got]
        assert len(asked) == len(set(asked))
        server.answers["/.well-known/oauth-authorization-server"][1]["issuer"] = server.url
        later = time.monotonic() + token_exchange.COOL_DOWN_SECONDS
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert client.exchange("the subject", "", SERVER, "").text == "made"
