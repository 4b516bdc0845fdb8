"""The one place that authenticates: which requests have which principal, in every mode, and which get 401.

Sources: ACCESS sections 1 and 2; issue 16 item 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.access.authentication import Credentials
from patchbay.access.principals import ANONYMOUS, LOCAL, LOCAL_OPERATOR, Principal
from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.settings import Settings
from patchbay.wire.pipeline import Pipeline
from patchbay.wire.replies.reply import Reply
from patchbay.wire.requests.authentication import Authentication, credentials_of
from patchbay.wire.requests.request import Request
from patchbay.wire.requests.wsgi import WsgiApplication, read_environ
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.web.browsing import BROWSER

PROXIED = {"X-Forwarded-For": "192.0.2.7"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


class Known:
    """A scheme that knows one token and one cookie."""

    def authenticate(self, credentials: Credentials) -> Principal | None:
        known = credentials.token == "right" or credentials.cookies.get("session") == "right"
        return Principal("ann") if known else None


def asked(mode: str, grants: bool = False, operator: bool = False, **environ: Any) -> tuple[Any, str, dict[str, str]]:
    """Send a request through a pipeline with one endpoint; return the principal that it sees, status and headers."""
    seen: list[Principal] = []
    answers: list[tuple[str, dict[str, str]]] = []

    def endpoint(request: Request) -> Reply:
        seen.append(request.sender)
        return Reply()

    settings = Settings(access=mode)
    authentication = Authentication(
        settings, [Known()], lambda: grants, lambda request: LOCAL_OPERATOR if operator else None
    )
    app = WsgiApplication(Pipeline(settings, authentication, (), lambda _: None, endpoint), TrustedProxies(()), "")
    known = {"REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "HTTP_HOST": "localhost", "REMOTE_ADDR": "127.0.0.1"}
    full: dict[str, Any] = {**known, "wsgi.url_scheme": "http", **environ}
    list(app(full, lambda status, headers: answers.append((status, dict(headers)))))
    status, headers = answers[0]
    return (seen[0] if seen else None), status, headers


@pytest.mark.parametrize(
    ("mode", "environ", "principal"),
    [
        ("personal", {}, LOCAL),
        ("auto", {}, LOCAL),
        ("personal", {"HTTP_AUTHORIZATION": "Bearer wrong"}, LOCAL),
        ("personal", {"HTTP_VIA": "1.1 proxy"}, None),
        ("auto", {"HTTP_X_FORWARDED_PROTO": "https"}, None),
        ("personal", {"REMOTE_ADDR": "192.0.2.7"}, None),
        ("personal", {"HTTP_VIA": "1.1 proxy", "HTTP_AUTHORIZATION": "Bearer right"}, Principal("ann")),
        ("personal", {"HTTP_VIA": "1.1 proxy", "PATH_INFO": "/login"}, ANONYMOUS),
        ("open", {}, LOCAL),
        ("open", {"HTTP_VIA": "1.1 proxy", "REMOTE_ADDR": "192.0.2.7"}, LOCAL),
        ("shared", {}, None),
        ("shared", {"HTTP_AUTHORIZATION": "Bearer wrong"}, None),
        ("shared", {"HTTP_AUTHORIZATION": "Basic right"}, None),
        ("shared", {"HTTP_AUTHORIZATION": "bearer right"}, Principal("ann")),
        ("shared", {"HTTP_AUTHORIZATION": "DPoP right"}, Principal("ann")),
        ("shared", {"HTTP_COOKIE": "session=right"}, Principal("ann")),
        ("shared", {"HTTP_COOKIE": "session=wrong"}, None),
        *[("shared", {"PATH_INFO": path}, ANONYMOUS) for path in ("/healthz", "/readyz", "/login", "/static/x.css")],
        ("shared", {"PATH_INFO": "/login", "HTTP_AUTHORIZATION": "Bearer wrong"}, ANONYMOUS),
        *[
            ("shared", {"PATH_INFO": path}, None)
            for path in ("/", "/healthz/x", "/login/", "/staticx", "/metrics", "/ws")
        ],
    ],
)
def test_the_principal_of_a_request(mode: str, environ: dict[str, Any], principal: Principal | None) -> None:
    found, status, headers = asked(mode, **environ)
    assert found == principal
    if principal is None:
        assert status.startswith("401")
        assert headers["WWW-Authenticate"].startswith("Bearer")
        assert headers["Cache-Control"] == "no-store"


def test_the_operator_is_recognised_in_personal_mode_where_grants_limit_callers() -> None:
    assert asked("personal", grants=False, operator=True)[0] is LOCAL
    assert asked("personal", grants=True, operator=True)[0] is LOCAL_OPERATOR
    assert asked("open", grants=True, operator=False)[0] is LOCAL


def test_a_browser_without_a_session_is_sent_to_the_login_page() -> None:
    _, status, headers = asked("shared", REQUEST_METHOD="GET", PATH_INFO="/servers", HTTP_ACCEPT="text/html")
    assert status.startswith("303") and headers["Location"] == "/login?next=/servers"


@pytest.mark.parametrize(
    "environ",
    [
        {"HTTP_SEC_FETCH_SITE": "same-site", "HTTP_ORIGIN": "http://localhost:3000"},
        {"HTTP_ORIGIN": "http://localhost:3000"},
        {"HTTP_ORIGIN": "http://localhost:3000", "REQUEST_METHOD": "GET", "HTTP_UPGRADE": "websocket"},
    ],
)
def test_a_cookie_proves_nothing_in_a_request_that_another_site_causes(environ: dict[str, Any]) -> None:
    """Another port of this machine is the same site for cookies, and an allowed origin."""
    found, status, _ = asked("shared", HTTP_COOKIE="session=right", **environ)
    assert found is None and status.startswith("403")
    assert asked("shared", HTTP_AUTHORIZATION="Bearer right", **environ)[0] == Principal("ann")


def test_a_preflight_of_a_browser_needs_no_credentials_and_says_nothing_about_the_address() -> None:
    ask: dict[str, Any] = {"REQUEST_METHOD": "OPTIONS", "HTTP_ACCESS_CONTROL_REQUEST_METHOD": "POST"}
    answers = [asked("shared", PATH_INFO=path, HTTP_ORIGIN="http://localhost:3000", **ask) for path in ("/mcp/a", "/b")]
    assert [(found, status) for found, status, _ in answers] == [(None, "204 No Content")] * 2
    assert answers[0][2] == answers[1][2]
    assert "authorization" in answers[0][2]["Access-Control-Allow-Headers"]
    assert asked("shared", HTTP_ORIGIN="http://evil.example", **ask)[1].startswith("403")


def test_authentication_schemes_see_the_target_and_the_headers_of_a_request() -> None:
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/mcp/notes",
        "QUERY_STRING": "a=b",
        "HTTP_HOST": "hub.example",
        "HTTP_X_FORWARDED_PROTO": "https",
        "HTTP_COOKIE": "a=b; c=d",
        "HTTP_DPOP": "proof",
        "REMOTE_ADDR": "192.0.2.7",
        "wsgi.url_scheme": "http",
    }
    found = credentials_of(read_environ(environ))
    assert (found.method, found.url, found.resource) == ("POST", *["https://hub.example/mcp/notes"] * 2)
    assert (found.cookies, found.headers["dpop"], found.address) == ({"a": "b", "c": "d"}, "proof", "192.0.2.7")
    assert credentials_of(read_environ(environ | {"PATH_INFO": "/rpc"})).resource == ""
    assert credentials_of(read_environ(environ | {"HTTP_X_FORWARDED_PROTO": "javascript"})).url.startswith("http://")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("shared"))
    yield hub
    hub.close()


def test_the_operator_and_keys_sign_in_to_a_shared_hub(hub: Hub) -> None:
    key = new_key(hub, "signing")
    assert hub.send("notes", LIST).status == 401
    assert hub.send("notes", LIST, key).result["tools"]
    assert hub.send("notes", LIST, {"Authorization": f"Bearer {hub.token}"}).result["tools"]
    hub.app.parts.keys.revoke("signing")
    refused = hub.send("notes", LIST, key)
    assert refused.status == 401 and 'error="invalid_token"' in refused.headers["WWW-Authenticate"]
    assert key["Authorization"].split()[1] not in refused.body.decode()


def test_a_session_cookie_of_the_operator_opens_pages(hub: Hub) -> None:
    browser = hub.app.test_client()
    assert browser.get("/servers", headers=BROWSER).status_code == 303
    assert browser.get(hub.app.parts.operators.links.make()).status_code == 303
    assert browser.get("/servers", headers=BROWSER).status_code == 200
    assert browser.post("/mcp/notes", json=LIST, headers={"Origin": "http://localhost:1"}).status_code == 403
    assert browser.post("/logout", headers={"Origin": "http://localhost"}).status_code == 303
    assert browser.get("/servers", headers=BROWSER).status_code == 303


def test_many_wrong_tokens_of_one_address_are_limited_and_the_right_one_is_not(tmp_path: Path) -> None:
    hub = team_hub(tmp_path)
    key = new_key(hub, "limited")
    found = [hub.send("notes", LIST, {"Authorization": f"Bearer wrong{n}"}).status for n in range(12)]
    assert found == [401] * 10 + [429] * 2
    assert hub.send("notes", LIST, key).status == 200
    hub.close()


def test_a_grant_makes_an_administrator_who_operates_the_hub(hub: Hub) -> None:
    admin, other = new_key(hub, "admin"), new_key(hub, "other")
    set_grants(hub, {"grants": [{"to": ["key:admin"], "may": ["operate"], "on": ["*"]}]})
    assert hub.client.put("/variables/x", data=b"1", headers=other).status_code == 401
    assert hub.client.put("/variables/x", data=b"1", headers=admin).status_code == 201
    assert hub.client.get("/access.json", headers=admin).status_code == 200
    assert hub.client.get("/access.json", headers=other).status_code == 401
    set_grants(hub, None)
    assert hub.client.put("/variables/x", data=b"2", headers=admin).status_code == 401


def test_a_session_belongs_to_its_principal(hub: Hub) -> None:
    ann, ben = new_key(hub, "ann"), new_key(hub, "ben")
    hub.client.environ_base["HTTP_AUTHORIZATION"] = ann["Authorization"]
    session = hub.open("notes")
    assert hub.legacy("notes", "tools/list", session=session).status == 200
    hub.client.environ_base["HTTP_AUTHORIZATION"] = ben["Authorization"]
    assert hub.legacy("notes", "tools/list", session=session).status == 404
    del hub.client.environ_base["HTTP_AUTHORIZATION"]
