"""An attacker wants to act as another person: by fixed sessions, foreign forms, framed consent, floods of requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.access.authentication import Unauthorized
from tests.hubs import Hub
from tests.signing_in import (
    BASE,
    HTML,
    PASSWORD,
    Browser,
    OAuthClient,
    accounts_of,
    answer_of,
    hidden_fields,
    make_account,
    principal_of,
    shared_hub,
    signed_in,
)

COOKIE = "patchbay-person-8000"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = shared_hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> Browser:
    return signed_in(hub, "ann")


@pytest.fixture(scope="module")
def eve(hub: Hub) -> Browser:
    """The attacker has an account too."""
    return signed_in(hub, "eve")


def cookie_of(browser: Browser) -> str:
    found = browser.client.get_cookie(COOKIE)
    assert found is not None
    return found.value


def test_a_session_that_was_planted_before_the_sign_in_is_not_signed_in(hub: Hub, eve: Browser) -> None:
    """Session fixation: the victim's browser holds the cookie of the attacker, and then signs in."""
    make_account(hub, "victim")
    victim = Browser(hub)
    planted = cookie_of(eve)
    victim.client.set_cookie(COOKIE, planted)
    assert victim.account()["name"] == "eve"
    assert victim.sign_in("victim").status_code == 303
    assert victim.account()["name"] == "victim" and cookie_of(victim) != planted
    assert eve.account() is None, "the planted session ended with the sign-in"
    assert eve.sign_in("eve").status_code == 303
    for text in ("victim.", "victim.x", f"victim.{planted.rpartition('.')[2]}", "x" * 4000):
        forger = Browser(hub)
        forger.client.set_cookie(COOKIE, text)
        assert forger.account() is None


def test_a_page_of_another_site_cannot_sign_a_browser_in_as_the_attacker(hub: Hub) -> None:
    """Login CSRF."""
    make_account(hub, "mallory")
    for headers in ({"Origin": "http://localhost:3000"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        answer = hub.app.test_client().post(
            "/login/password", data={"name": "mallory", "password": PASSWORD}, headers=headers
        )
        assert answer.status_code == 403 and "Set-Cookie" not in answer.headers


def test_consent_cannot_be_framed_or_sent_by_another_page(hub: Hub, ann: Browser, eve: Browser) -> None:
    client = OAuthClient(hub).register()
    page = ann.ask(client.query())
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["X-Frame-Options"] == "DENY"
    own = hidden_fields(page.text, "csrf", "request") | {"decision": "allow"}
    foreign = hidden_fields(eve.ask(client.query()).text, "csrf", "request")
    wrong = [
        own | {"csrf": foreign["csrf"]},
        own | {"request": foreign["request"]},
        own | {"request": own["request"][:-2]},
        own | {"request": ""},
        own | {"csrf": ""},
        own | {"decision": ""},
        own | {"decision": "yes"},
    ]
    for fields in wrong:
        answer = ann.client.post("/oauth/authorize", data=fields)
        assert answer.status_code in (400, 403) and "Location" not in answer.headers, fields
    for headers in ({"Origin": "http://localhost:3000"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}):
        answer = ann.client.post("/oauth/authorize", data=own, headers=headers)
        assert answer.status_code in (401, 403) and "Location" not in answer.headers, headers
    assert ann.client.post("/oauth/authorize", data=own).status_code == 303


def test_opening_the_page_of_consent_gives_nothing_by_itself(hub: Hub, ann: Browser) -> None:
    client = OAuthClient(hub).register()
    client.sign_in(ann)
    for query in (client.query(), client.query(decision="allow"), client.query(prompt="none")):
        page = ann.ask(query)
        assert page.status_code == 200 and "Location" not in page.headers


def test_consent_is_for_the_request_that_was_shown(hub: Hub, ann: Browser) -> None:
    """The address of the form cannot add to what the person saw."""
    client = OAuthClient(hub).register()
    fields = hidden_fields(ann.ask(client.query(scope="see")).text, "csrf", "request") | {"decision": "allow"}
    query = {"scope": "call", "redirect_uri": "https://evil.example/", "resource": f"{BASE}/mcp/bash"}
    answer = ann.client.post("/oauth/authorize", query_string=query, data=fields | query)
    assert answer.headers["Location"].startswith(client.redirect)
    answer = client.redeem(answer_of(answer)["code"])
    principal = principal_of(hub, answer.get_json()["access_token"])
    assert principal is not None and principal.scopes == frozenset(("see",))
    with pytest.raises(Unauthorized):
        principal_of(hub, answer.get_json()["access_token"], f"{BASE}/mcp/bash")


def test_the_cookie_of_a_person_is_not_a_token_and_a_token_is_not_a_cookie(hub: Hub, ann: Browser) -> None:
    client = OAuthClient(hub).register().sign_in(ann)
    for token in (cookie_of(ann), client.tokens["refresh_token"], "patchbay_access_x.y"):
        with pytest.raises(Unauthorized):
            principal_of(hub, token)
    browser = Browser(hub)
    browser.client.set_cookie(COOKIE, client.access)
    assert browser.account() is None
    headers = {"Authorization": f"Bearer {client.access}", "Accept": "application/json"}
    assert hub.app.test_client().get("/account", headers=headers).status_code == 401
    assert hub.app.test_client().get("/people", headers=headers).status_code == 401


def test_a_flood_of_registrations_stores_nothing_and_is_limited(hub: Hub) -> None:
    journal = hub.catalogue.store.journal
    before = journal.append("test", b"")
    body = {"redirect_uris": ["https://client.example/" + "x" * 400] * 5, "client_name": "x" * 5000}
    client = hub.app.test_client()
    statuses = [
        client.post("/oauth/register", json=body, environ_base={"REMOTE_ADDR": "192.0.2.7"}) for _ in range(300)
    ]
    codes = [answer.status_code for answer in statuses]
    assert set(codes) == {201, 429} and codes[-1] == 429 and codes.count(201) == 60
    assert statuses[-1].headers["Retry-After"] == "60"
    assert journal.append("test", b"") == before + 1
    assert client.post("/oauth/register", json=body, environ_base={"REMOTE_ADDR": "192.0.2.8"}).status_code == 201


def test_requests_of_strangers_for_consent_and_tokens_store_and_fetch_nothing(hub: Hub) -> None:
    journal = hub.catalogue.store.journal
    before = journal.append("test", b"")
    stranger = Browser(hub)
    client = OAuthClient(hub, id="https://client.example/client.json")
    for number in range(50):
        assert stranger.ask(client.query(state=str(number))).status_code == 303
        assert client.redeem("x").status_code in (400, 401)
        assert client.refresh("patchbay_refresh_x.y").status_code in (400, 401)
        assert client.post("/oauth/revoke", {"token": "x"}).status_code in (400, 401)
    assert journal.append("test", b"") == before + 1
    documents = accounts_of(hub).documents
    assert not documents._documents and not documents._keys


def test_an_invitation_is_not_a_link_that_a_page_can_send(hub: Hub) -> None:
    """The invitation is used by a form of the hub's own page, not by opening the link."""
    accounts = accounts_of(hub)
    link = accounts.invitations.make("later")
    for _ in range(3):
        assert hub.app.test_client().get(link, headers=HTML).status_code == 200
    key = link.partition("=")[2]
    fields = {"key": key, "password": PASSWORD, "again": PASSWORD}
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert hub.app.test_client().post("/invitation", data=fields, headers=headers).status_code == 403
    assert accounts.people.find("later") is None
