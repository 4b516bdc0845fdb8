"""A person with a browser, and a client that signs in for it, against a hub in this process."""

from __future__ import annotations

import hashlib
import re
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
from argon2 import PasswordHasher
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from patchbay.access.authentication import Credentials, authenticate
from patchbay.access.people.accounts import Accounts
from patchbay.access.people.passwords import Passwords
from patchbay.access.principals import Principal
from tests.hubs import Hub

PASSWORD = "correct horse battery staple"
HTML = {"Accept": "text/html"}
REDIRECT = "http://127.0.0.1:7777/callback"
BASE = "http://localhost"
"""Scheme, host and port of the hubs of these tests."""


def accounts_of(hub: Hub) -> Accounts:
    found = hub.app.parts.for_pages.accounts
    assert isinstance(found, Accounts)
    return found


def shared_hub(folder: Path, **settings: Any) -> Hub:
    """A hub in shared mode whose hashes of passwords take little time."""
    hub = Hub(folder, access="shared", **settings)
    accounts_of(hub).passwords = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    return hub


def make_account(hub: Hub, name: str, password: str = PASSWORD) -> None:
    """Make an account, as an invitation does."""
    accounts = accounts_of(hub)
    hashed = accounts.passwords.hash(password, name)
    assert accounts.people.create(name, accounts.people.generation(name), hashed) is not None


def hidden_fields(page: str, *names: str) -> dict[str, str]:
    """The values of hidden fields in a page."""
    found = {name: re.search(rf'name="{name}" value="([^"]*)"', page) for name in names}
    assert all(found.values()), page
    return {name: unescape(match[1]) for name, match in found.items() if match}


class Browser:
    """A browser of its own, with its own cookies; it says where its requests come from, as browsers do."""

    def __init__(self, hub: Hub) -> None:
        self.client: FlaskClient = hub.app.test_client()
        self.client.environ_base["HTTP_ORIGIN"] = BASE

    def sign_in(self, name: str, password: str = PASSWORD, **fields: str) -> TestResponse:
        return self.client.post("/login/password", data={"name": name, "password": password, **fields})

    def account(self) -> Any:
        """The data of the own account; None for a browser that is not signed in."""
        answer = self.client.get("/account", headers={"Accept": "application/json"})
        return body_of(answer) if answer.status_code == 200 else None

    def change(self, do: str, **fields: str) -> TestResponse:
        """Send a form of the page of the account."""
        csrf = hidden_fields(self.client.get("/account", headers=HTML).text, "csrf")
        return self.client.post("/account", data={**csrf, "do": do, **fields})

    def ask(self, query: dict[str, str]) -> TestResponse:
        return self.client.get("/oauth/authorize", query_string=query, headers=HTML)

    def decide(self, query: dict[str, str], decision: str = "allow") -> TestResponse:
        """Open the page of consent, and press a button."""
        page = self.ask(query)
        assert page.status_code == 200, page.text
        fields = hidden_fields(page.text, "csrf", "request")
        return self.client.post("/oauth/authorize", data={**fields, "decision": decision})


def signed_in(hub: Hub, name: str) -> Browser:
    """A browser of a new person."""
    make_account(hub, name)
    browser = Browser(hub)
    assert browser.sign_in(name).status_code == 303
    return browser


@dataclass
class OAuthClient:
    """A client that registers itself. `id` and `secret` are what it got."""

    hub: Hub
    redirect: str = REDIRECT
    id: str = ""
    secret: str = ""
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    tokens: dict[str, Any] = field(default_factory=dict)

    def register(self, **metadata: Any) -> OAuthClient:
        body = {"redirect_uris": [self.redirect], "client_name": "Tests", **metadata}
        answer = self.hub.app.test_client().post("/oauth/register", json=body)
        assert answer.status_code == 201, answer.text
        self.id, self.secret = body_of(answer)["client_id"], body_of(answer).get("client_secret", "")
        return self

    def query(self, **changes: str) -> dict[str, str]:
        """The request for the page of consent. A changed value that is empty is left out."""
        known = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect,
            "state": "the state",
            "code_challenge": challenge_of(self.verifier),
            "code_challenge_method": "S256",
            "resource": f"{BASE}/mcp/echo",
        } | changes
        return {name: value for name, value in known.items() if value}

    def code(self, browser: Browser, **changes: str) -> str:
        """The code that a person gives this client."""
        return answer_of(browser.decide(self.query(**changes)))["code"]

    def redeem(self, code: str, /, **changes: str) -> TestResponse:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect,
            "code_verifier": self.verifier,
        }
        return self.post("/oauth/token", form | changes)

    def sign_in(self, browser: Browser, **changes: str) -> OAuthClient:
        """Get tokens."""
        answer = self.redeem(self.code(browser, **changes))
        assert answer.status_code == 200, answer.text
        self.tokens = body_of(answer)
        return self

    def refresh(self, token: str | None = None, **changes: str) -> TestResponse:
        form = {"grant_type": "refresh_token", "refresh_token": token or self.tokens["refresh_token"]}
        return self.post("/oauth/token", form | changes)

    def post(self, path: str, form: dict[str, str]) -> TestResponse:
        known = {"client_id": self.id} | ({"client_secret": self.secret} if self.secret else {})
        values = {name: value for name, value in (known | form).items() if value}
        return self.hub.app.test_client().post(path, data=values)

    @property
    def access(self) -> str:
        return str(self.tokens["access_token"])


def body_of(response: TestResponse) -> Any:
    """The JSON of a response."""
    return orjson.loads(response.get_data())


def answer_of(response: TestResponse) -> dict[str, str]:
    """The parameters of the redirect to the client."""
    assert response.status_code == 303, response.text
    return answer_in(response.headers["Location"])


def answer_in(location: str) -> dict[str, str]:
    """The parameters of the URL to which a browser is led."""
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


def challenge_of(verifier: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def principal_of(hub: Hub, token: str, resource: str = f"{BASE}/mcp/echo") -> Principal | None:
    """Who sends a request with this token, as the hub sees it. Raises Unauthorized."""
    headers = {"authorization": f"Bearer {token}"}
    return authenticate(
        accounts_of(hub).list_schemes(hub.settings), Credentials("POST", resource, headers, resource=resource)
    )
