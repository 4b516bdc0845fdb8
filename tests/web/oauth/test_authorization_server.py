"""The authorization server over HTTP: a whole sign-in, the metadata, registration, revocation, and wrong requests."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from patchbay.access.authentication import Unauthorized
from patchbay.access.principals import Principal
from patchbay.limits import AddressCounter
from patchbay.web.oauth.endpoints import MAX_REGISTRATIONS
from tests.hubs import Hub
from tests.signing_in import (
    BASE,
    HTML,
    REDIRECT,
    Browser,
    OAuthClient,
    accounts_of,
    answer_of,
    body_of,
    hidden_fields,
    principal_of,
    shared_hub,
    signed_in,
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = shared_hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> Browser:
    return signed_in(hub, "ann")


@pytest.fixture
def client(hub: Hub) -> OAuthClient:
    return OAuthClient(hub).register()


@pytest.mark.parametrize("method", ["none", "client_secret_post", "client_secret_basic"])
def test_a_client_signs_in_for_a_person(hub: Hub, ann: Browser, method: str) -> None:
    client = OAuthClient(hub).register(token_endpoint_auth_method=method).sign_in(ann, scope="call see openid")
    assert client.tokens["token_type"] == "Bearer" and client.tokens["scope"] == "call see"
    principal = principal_of(hub, client.access)
    assert isinstance(principal, Principal)
    assert (principal.id, principal.scopes) == ("ann", frozenset(("call", "see"))) and principal.agent.startswith(
        "registered:"
    )
    fresh = client.refresh()
    assert fresh.status_code == 200 and fresh.headers["Cache-Control"] == "no-store"
    assert principal_of(hub, body_of(fresh)["access_token"]) == principal
    [row] = [each for each in ann.account()["clients"] if each["client"] == principal.agent]
    assert (row["name"], row["resource"]) == ("Tests", f"{BASE}/mcp/echo")


def test_a_client_with_a_secret_may_send_it_in_the_header(hub: Hub, ann: Browser) -> None:
    client = OAuthClient(hub).register(token_endpoint_auth_method="client_secret_basic")
    form = {"grant_type": "authorization_code", "code": client.code(ann), "code_verifier": client.verifier}
    basic = b64encode(f"{client.id}:{client.secret}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}"}
    answer = hub.app.test_client().post("/oauth/token", data={**form, "redirect_uri": REDIRECT}, headers=headers)
    assert answer.status_code == 200, answer.text


def test_the_page_of_consent_names_client_server_and_scopes(hub: Hub, ann: Browser) -> None:
    client = OAuthClient(hub).register(client_name="<b>Bold</b>\u202e client")
    page = ann.ask(client.query(scope="call"))
    assert page.status_code == 200
    text = page.text
    assert "&lt;b&gt;Bold&lt;/b&gt;" in text and "<b>Bold" not in text and "\u202e" not in text
    assert "<strong>echo</strong>" in text and "<li>call tools</li>" in text and "read resources" not in text
    assert "127.0.0.1:7777" in text and "does not know who made it" in text and "<strong>ann</strong>" in text
    policy = page.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy and "form-action 'self' http://127.0.0.1:7777;" in policy
    assert page.headers["X-Frame-Options"] == "DENY" and page.headers["Cache-Control"] == "no-store"


def test_the_answer_names_the_issuer_and_the_state(hub: Hub, ann: Browser, client: OAuthClient) -> None:
    """RFC 9207, section 2: also in an error."""
    allowed, denied = (answer_of(ann.decide(client.query(), decision)) for decision in ("allow", "deny"))
    assert (allowed["state"], allowed["iss"]) == ("the state", BASE) and "error" not in allowed
    assert (denied["state"], denied["iss"], denied["error"]) == ("the state", BASE, "access_denied")
    assert "code" not in denied


def test_a_person_signs_in_first(hub: Hub, ann: Browser, client: OAuthClient) -> None:
    browser = Browser(hub)
    answer = browser.ask(client.query())
    assert answer.status_code == 303 and answer.headers["Location"].startswith("/login?next=%2Foauth%2Fauthorize")
    page = browser.client.get(answer.headers["Location"], headers=HTML)
    then = hidden_fields(page.text, "next")["next"]
    answer = browser.sign_in("ann", next=then)
    assert answer.headers["Location"] == then
    assert "Tests" in browser.client.get(then, headers=HTML).text


def test_the_metadata_are_at_both_addresses(hub: Hub) -> None:
    """RFC 8414, sections 2 and 3; the issuer is the address that the client used."""
    reader = hub.app.test_client()
    document = body_of(reader.get("/.well-known/oauth-authorization-server"))
    assert document["issuer"] == BASE
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["authorization_response_iss_parameter_supported"] is True
    assert document["client_id_metadata_document_supported"] is True
    assert all(value.startswith(BASE) for name, value in document.items() if name.endswith("_endpoint"))
    alias = body_of(reader.get("/.well-known/openid-configuration"))
    assert alias.items() >= document.items() and body_of(reader.get("/oauth/jwks")) == {"keys": []}
    proxied = reader.get(
        "/.well-known/oauth-authorization-server", headers={"X-Forwarded-Proto": "https", "Host": "127.0.0.1:443"}
    )
    assert body_of(proxied)["issuer"] == "https://127.0.0.1"


def test_pages_of_allowed_origins_may_use_the_endpoints(hub: Hub) -> None:
    browser = hub.app.test_client()
    for path in ("/oauth/token", "/oauth/register", "/.well-known/oauth-authorization-server"):
        answer = browser.options(path, headers={"Origin": "http://localhost:6274"})
        assert answer.headers["Access-Control-Allow-Origin"] == "http://localhost:6274"
        assert "authorization" in answer.headers["Access-Control-Allow-Headers"]
        assert "Access-Control-Allow-Credentials" not in answer.headers
        assert browser.options(path, headers={"Origin": "https://evil.example"}).status_code == 403
    assert "Access-Control-Allow-Origin" not in browser.get("/oauth/authorize", headers={"Origin": BASE}).headers


WRONG_QUERIES: list[dict[str, str]] = [
    {"client_id": ""},
    {"client_id": "unknown"},
    {"client_id": "https://127.0.0.1/client.json"},
    {"redirect_uri": "https://evil.example/"},
    {"redirect_uri": "http://127.0.0.1:7777/other"},
    {"response_type": "token"},
    {"response_type": ""},
    {"response_type": "code token"},
    {"code_challenge": ""},
    {"code_challenge": "short"},
    {"code_challenge": "x" * 44},
    {"code_challenge_method": "plain"},
    {"code_challenge_method": ""},
    {"resource": "https://other.example/mcp"},
    {"resource": f"{BASE}/login"},
    {"redirect_uri": "http://127.0.0.1:7777/call\\back"},
    {"redirect_uri": "http://127.0.0.1:7777/\tcallback"},
    {"scope": "call:" + "x" * 600},
]


@pytest.mark.parametrize("changes", WRONG_QUERIES, ids=str)
def test_a_wrong_request_is_shown_and_redirects_to_no_address(
    ann: Browser, client: OAuthClient, changes: dict[str, str]
) -> None:
    """RFC 9700, section 4.11.2: the hub is not an open redirector."""
    page = ann.ask(client.query(**changes))
    assert page.status_code == 400 and "Location" not in page.headers and "cannot sign in" in page.text


@pytest.mark.parametrize("name", ["client_id", "redirect_uri", "state", "resource", "code_challenge", "scope"])
def test_a_repeated_parameter_is_refused(ann: Browser, client: OAuthClient, name: str) -> None:
    query = [*client.query(scope="see").items(), (name, "see")]
    assert ann.client.get("/oauth/authorize", query_string=query, headers=HTML).status_code == 400


WRONG_REDEMPTIONS: list[tuple[dict[str, str], str]] = [
    ({"code": "x"}, "invalid_grant"),
    ({"code": ""}, "invalid_request"),
    ({"code_verifier": ""}, "invalid_request"),
    ({"code_verifier": "x" * 43}, "invalid_grant"),
    ({"code_verifier": "short"}, "invalid_request"),
    ({"redirect_uri": "http://127.0.0.1:7778/callback"}, "invalid_grant"),
    ({"redirect_uri": ""}, "invalid_grant"),
    ({"client_id": ""}, "invalid_client"),
    ({"client_id": "unknown"}, "invalid_client"),
    ({"resource": f"{BASE}/mcp/other"}, "invalid_target"),
    ({"resource": "https://other.example/mcp"}, "invalid_target"),
    ({"grant_type": "password"}, "unsupported_grant_type"),
    ({"grant_type": "client_credentials"}, "invalid_client"),
    ({"grant_type": ""}, "unsupported_grant_type"),
]


@pytest.mark.parametrize(("changes", "error"), WRONG_REDEMPTIONS, ids=str)
def test_a_wrong_token_request_gives_an_error_and_leaves_the_code(
    hub: Hub, ann: Browser, client: OAuthClient, changes: dict[str, str], error: str
) -> None:
    code = client.code(ann)
    answer = client.redeem(code, **changes)
    assert (answer.status_code, body_of(answer)["error"]) in ((400, error), (401, error)), answer.text
    assert "no-store" in answer.headers["Cache-Control"]
    assert client.redeem(code).status_code == 200


def test_a_client_with_a_secret_cannot_leave_it_out(hub: Hub, ann: Browser) -> None:
    client = OAuthClient(hub).register(token_endpoint_auth_method="client_secret_post")
    code, secret = client.code(ann), client.secret
    for wrong in ("", "x", secret[:-1]):
        client.secret = wrong
        answer = client.redeem(code)
        assert (answer.status_code, body_of(answer)["error"]) == (401, "invalid_client")
    client.secret = secret
    assert client.redeem(code).status_code == 200


def test_a_revoked_token_ends_with_its_family(hub: Hub, ann: Browser) -> None:
    """RFC 7009, section 2."""
    for name in ("access_token", "refresh_token"):
        client = OAuthClient(hub).register().sign_in(ann)
        other = OAuthClient(hub).register()
        assert other.post("/oauth/revoke", {"token": client.tokens[name]}).status_code == 400
        assert principal_of(hub, client.access) is not None
        assert client.post("/oauth/revoke", {"token": client.tokens[name]}).status_code == 200
        with pytest.raises(Unauthorized):
            principal_of(hub, client.access)
        assert body_of(client.refresh())["error"] == "invalid_grant"
        assert client.post("/oauth/revoke", {"token": client.tokens[name]}).status_code == 200
        assert client.post("/oauth/revoke", {"token": "unknown"}).status_code == 200


def test_a_person_ends_a_client_on_the_page_of_the_account(hub: Hub, ann: Browser) -> None:
    client = OAuthClient(hub).register(client_name="Ended").sign_in(ann)
    [row] = [each for each in ann.account()["clients"] if each["name"] == "Ended"]
    assert ann.change("end-client", id=row["id"]).status_code == 303
    with pytest.raises(Unauthorized):
        principal_of(hub, client.access)
    assert body_of(client.refresh())["error"] == "invalid_grant"


WRONG_REGISTRATIONS: list[tuple[bytes, str, int]] = [
    (b"", "application/json", 400),
    (b"{", "application/json", 400),
    (b"[]", "application/json", 400),
    (b'{"redirect_uris": ["https://c.example/"]}', "text/plain", 415),
    (b'{"redirect_uris": ["ftp://c.example/"]}', "application/json", 400),
    (b'{"redirect_uris": ["https://c.example/"], "x": "' + b"x" * 20_000 + b'"}', "application/json", 413),
]


@pytest.mark.parametrize(("body", "kind", "status"), WRONG_REGISTRATIONS, ids=lambda one: str(one)[:40])
def test_a_wrong_registration_gives_an_error(hub: Hub, body: bytes, kind: str, status: int) -> None:
    answer = hub.app.test_client().post("/oauth/register", data=body, content_type=kind)
    assert answer.status_code == status and body_of(answer)["error"] and body_of(answer)["error_description"]


def test_registrations_of_one_address_are_limited() -> None:
    now = 0.0
    counter = AddressCounter(MAX_REGISTRATIONS, 60.0, lambda: now)
    answers = [counter.allows("192.0.2.1") for _ in range(MAX_REGISTRATIONS + 5)]
    assert answers == [True] * MAX_REGISTRATIONS + [False] * 5 and counter.allows("192.0.2.2")
    now = 60.0
    assert counter.allows("192.0.2.1")


def test_a_client_with_a_metadata_document_signs_in(hub: Hub, ann: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    from patchbay.access.oauth.metadata_documents import parse_document

    fetched: list[str] = []
    document = b'{"client_id": "https://client.example/c.json", "client_name": "C", "redirect_uris": ["%s"]}'

    def load(url: str) -> Any:
        fetched.append(url)
        return parse_document(url, document % REDIRECT.encode())

    monkeypatch.setattr(accounts_of(hub).documents, "load", load)
    client = OAuthClient(hub, id="https://client.example/c.json")
    assert Browser(hub).ask(client.query()).status_code == 303 and fetched == [], "only a person causes a fetch"
    assert body_of(client.redeem("x"))["error"] == "invalid_client" and fetched == []
    code = client.code(ann)
    seen = len(fetched)
    assert "client.example" in ann.ask(client.query()).text and len(fetched) == seen + 1
    client.tokens = body_of(client.redeem(code))
    principal = principal_of(hub, client.access)
    assert principal is not None and principal.agent == client.id
    assert client.refresh().status_code == 200 and len(fetched) == seen + 1
