"""What tests of credentials by caller share: an issuer, a server that takes only its tokens, a hub that mounts it."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from patchbay.access.upstreams.token_store import TokenStore
from tests.access.tokens.browsers import sign_in
from tests.access.tokens.issuers import Issuer, running_issuer
from tests.checkout import ROOT
from tests.hubs import BOTH, Answer, Hub, modern_request
from tests.interaction.programs import free_port, running
from tests.signing_in import BASE, HTML, Browser, OAuthClient, hidden_fields

TOKEN_SECONDS = 25
"""Seconds of an access token: the hub refreshes it before each request, and it is valid meanwhile."""

URL_CLIENT: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
"""The capabilities of a client that shows URLs."""


@dataclass(frozen=True)
class Guarded:
    """A running server that wants OAuth, and its issuer."""

    issuer: Issuer
    url: str
    log: Path

    def mount(self, **fields: Any) -> str:
        """A configuration that mounts it with the credentials of each caller."""
        address = f"mcp+{self.url}?launch.issuer={self.issuer.url}"
        return json.dumps({"kind": "upstream", "address": address, "account": "caller"} | fields)

    def seen(self) -> list[dict[str, Any]]:
        """The headers of all requests so far."""
        return [json.loads(line) for line in self.log.read_text("utf-8").splitlines()]

    def tokens(self) -> list[str]:
        """The tokens of all requests so far, in order, those without one left out."""
        return [each["authorization"].removeprefix("Bearer ") for each in self.seen() if each["authorization"]]


@contextmanager
def running_guarded(folder: Path, seconds: int = TOKEN_SECONDS) -> Iterator[Guarded]:
    """An issuer and a server that takes its tokens, each of which ends after some seconds, while they run."""
    with running_issuer(folder / "issuer", seconds=seconds) as issuer:
        port, log = free_port(), folder / "requests"
        log.touch()
        program = str(ROOT / "tests/access/upstreams/guarded_server.py")
        command = [sys.executable, program, str(port), issuer.url, str(issuer.keys_file), str(log)]
        url = f"http://127.0.0.1:{port}/mcp"
        (folder / "server").mkdir()
        with running(command, url, folder / "server", statuses=(401,), ends=(0, -15)):
            yield Guarded(issuer, url, log)


def subject_of(token: str) -> str:
    """The subject of a JWT, read without a check."""
    part = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["sub"])


def page_of(browser: FlaskClient, server: str, query: str = "") -> TestResponse:
    """The page of the own account at a server."""
    return browser.get(f"/upstreams/{server}{query}", headers=HTML)


def begin(browser: FlaskClient, server: str, query: str = "") -> str:
    """Press `Connect`; return the URL of the authorization server's page."""
    fields = hidden_fields(page_of(browser, server, query).text, "csrf", "for")
    page = browser.post(f"/upstreams/{server}", data=fields | {"do": "connect"}, headers=HTML)
    assert page.status_code == 200, page.text
    found = re.search(r'<a class="button" href="([^"]+)"', page.text)
    assert found is not None, page.text
    return unescape(found[1])


def sign_in_there(url: str, name: str) -> str:
    """Sign in at the authorization server; return the path that the browser is led back to."""
    parts = urlsplit(sign_in(url, name, f"{BASE}/upstreams/callback/"))
    return f"{parts.path}?{parts.query}"


def connect(browser: FlaskClient, server: str, name: str, query: str = "") -> TestResponse:
    """Connect an account: press the button, sign in with this name, and come back."""
    return browser.get(sign_in_there(begin(browser, server, query), name), headers=HTML)


@dataclass
class Caller:
    """A client that acts for a person, with an access token of the hub."""

    hub: Hub
    browser: Browser
    token: str

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        known = {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost"}
        return known | {"Authorization": f"Bearer {self.token}"} | dict(more or {})

    def modern(self, server: str, method: str, params: Any = None, capabilities: Any = None) -> Answer:
        body, headers = modern_request(method, params, capabilities)
        client = self.hub.app.test_client()
        return Answer.of(client.post(f"/mcp/{server}", json=body, headers=self.headers(headers)))

    def call(self, server: str, tool: str, capabilities: Any = None, **more: Any) -> Answer:
        return self.modern(server, "tools/call", {"name": tool, "arguments": {}} | more, capabilities)


def caller_of(hub: Hub, browser: Browser, server: str) -> Caller:
    """A client that the person of a browser has signed in."""
    client = OAuthClient(hub).register().sign_in(browser, resource=f"{BASE}/mcp/{server}")
    return Caller(hub, browser, client.access)


def name_of(caller: Caller) -> str:
    """The name of the person of a caller."""
    return str(caller.browser.account()["name"])


def is_connected(hub: Hub, name: str) -> bool:
    """Whether a person has an account at a mounted server."""
    tokens: TokenStore = hub.app.parts.dispatcher.services.upstream_tokens
    return bool(tokens.list_accounts(name))


def tools_of(caller: Caller, server: str) -> list[str]:
    """The names of the tools that a caller sees."""
    return [tool["name"] for tool in caller.modern(server, "tools/list").result["tools"]]
