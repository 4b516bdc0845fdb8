"""An identity provider in the hands of a test: it signs what the test says, also what no provider signs.

It answers over HTTP as a real one does, and checks no client and no PKCE, so that the hub alone notices what is wrong.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
from werkzeug.test import TestResponse

from tests.access.tokens.issuers import Claims, PrivateKey, changed, make_key, sign
from tests.hubs import Hub
from tests.signing_in import HTML, Browser, answer_in

CLIENT = "the-hub"


@dataclass
class FalseProvider:
    """A provider while it runs. `answers` has what the token endpoint gives for a code or a refresh token.

    `meanwhile` runs before the token endpoint answers.
    """

    url: str
    key: PrivateKey = field(default_factory=lambda: make_key("ES256"))
    metadata: Claims = field(default_factory=dict)
    answers: dict[str, Claims] = field(default_factory=dict)
    userinfo: Claims = field(default_factory=dict)
    forms: list[dict[str, str]] = field(default_factory=list)
    is_down: bool = False
    meanwhile: Callable[[], object] = lambda: None

    def document(self) -> Claims:
        """The metadata."""
        pages = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "jwks_uri": "keys",
            "userinfo_endpoint": "userinfo",
            "end_session_endpoint": "end",
        }
        known = {name: f"{self.url}/{page}" for name, page in pages.items()}
        return changed({"issuer": self.url, **known}, self.metadata)

    def claims(self, answered: str = "", /, **changes: Any) -> Claims:
        """The claims of a right ID token that answers a nonce; a change to None removes a claim."""
        now = int(time.time())
        right = {"iss": self.url, "aud": CLIENT, "sub": "ann", "exp": now + 600, "iat": now, "name": "Ann"}
        right |= {"email": "ann@example.org", "email_verified": True, "groups": ["research"], "sid": "one"}
        return changed(right | ({"nonce": answered} if answered else {}), changes)

    def sign(self, claims: Claims, **header: Any) -> str:
        named = self.key.as_dict(private=False)
        return sign(changed({"alg": named["alg"], "kid": named["kid"]}, header), claims, self.key)

    def give(self, code: str, id_token: str, **more: Any) -> None:
        """What a code, or a refresh token, is exchanged for; a change to None removes a member."""
        right = {"access_token": "the access token", "token_type": "Bearer", "id_token": id_token}
        self.answers[code] = changed(right, more)

    def logout_token(self, **changes: Any) -> str:
        """A right logout token with changes, signed."""
        now = int(time.time())
        events: Claims = {"http://schemas.openid.net/event/backchannel-logout": {}}
        right = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": secrets.token_hex(8)}
        return self.sign(changed(right | {"events": events, "sub": "ann", "sid": "one"}, changes), typ="logout+jwt")

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Claims]:
        if self.is_down:
            return 503, {}
        if path == "/.well-known/openid-configuration":
            return 200, self.document()
        if path == "/keys":
            return 200, {"keys": [self.key.as_dict(private=False)]}
        if path == "/userinfo":
            return 200, self.userinfo
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        self.forms.append(form)
        self.meanwhile()
        found = self.answers.pop(form.get("code", form.get("refresh_token", "")), None)
        return (200, found) if found is not None else (400, {"error": "invalid_grant"})


@contextmanager
def running_provider() -> Iterator[FalseProvider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            status, value = provider.answer(self.command, urlsplit(self.path).path, self.rfile.read(length))
            data = orjson.dumps(value)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = FalseProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def begin(browser: Browser, provider: str = "acme", **query: str) -> dict[str, str]:
    """Press the button of a provider; return the parameters of the request to it."""
    answer = browser.client.get(f"/sign-in/{provider}", query_string=query)
    assert answer.status_code == 303, answer.text
    return answer_in(answer.headers["Location"])


def come_back(browser: Browser, provider: str = "acme", **answer: str) -> TestResponse:
    """Bring the answer of a provider to the hub, as the browser does."""
    return browser.client.get(f"/sign-in/{provider}/callback", query_string=answer, headers=HTML)


def sign_in(
    hub: Hub, provider: FalseProvider, browser: Browser | None = None, refresh: str = "", **changes: Any
) -> Browser:
    """Sign a person in with the provider; `changes` are those of its claims."""
    browser = browser or Browser(hub)
    asked = begin(browser)
    code = secrets.token_hex(8)
    id_token = provider.sign(provider.claims(asked["nonce"], **changes))
    provider.give(code, id_token, refresh_token=refresh or None)
    answer = come_back(browser, code=code, state=asked["state"])
    assert answer.status_code == 303, answer.text
    return browser


def settings_for(*providers: FalseProvider, **more: Any) -> dict[str, Any]:
    """The settings of a hub with these providers: the first is called Acme, the second Beta."""
    names = ("Acme", "Beta")[: len(providers)]
    return {
        "access": "shared",
        "sign_in": tuple(f"{name}={one.url}" for name, one in zip(names, providers, strict=True)),
        "sign_in_client": tuple(f"{name}={CLIENT}" for name in names),
        **more,
    }
