"""The pages of people: invitation, sign-in, account, and the list for the operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.access.people.sign_in_throttle import MAX_WRONG_PASSWORDS
from patchbay.web.people import browsers
from tests.access.team import set_grants
from tests.hubs import Hub
from tests.signing_in import (
    HTML,
    PASSWORD,
    Browser,
    accounts_of,
    body_of,
    hidden_fields,
    make_account,
    shared_hub,
    signed_in,
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = shared_hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


def invite(hub: Hub, name: str) -> str:
    """The path of an invitation that the operator makes on the page."""
    operator = hub.app.test_client()
    operator.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {hub.token}"
    page = operator.post("/people", data={"do": "invite", "name": name}, headers=HTML)
    assert page.status_code == 200
    return "/invitation?key=" + page.text.partition("/invitation?key=")[2].partition("<")[0]


def test_a_person_is_invited_signs_up_and_signs_in(hub: Hub) -> None:
    path = invite(hub, "Ann")
    browser = Browser(hub)
    page = browser.client.get(path, headers=HTML)
    assert page.status_code == 200 and "<strong>ann</strong>" in page.text
    assert page.headers["Referrer-Policy"] == "same-origin"
    key = hidden_fields(page.text, "key")["key"]
    fields = {"key": key, "password": PASSWORD, "again": PASSWORD}
    assert browser.client.post("/invitation", data=fields | {"again": "x"}).status_code == 400
    assert browser.client.post("/invitation", data=fields | {"password": "short", "again": "short"}).status_code == 400
    answer = browser.client.post("/invitation", data=fields)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/account")
    assert browser.account()["name"] == "ann"
    assert browser.client.post("/invitation", data=fields).status_code == 403
    other = Browser(hub)
    answer = other.sign_in("ANN ", next="/servers")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/servers")
    assert len(other.account()["sessions"]) == 2


def test_a_wrong_password_and_an_unknown_name_get_one_answer(hub: Hub) -> None:
    make_account(hub, "ben")
    browser = Browser(hub)
    known, unknown = browser.sign_in("ben", "wrong"), browser.sign_in("nix", "wrong")
    assert (known.status_code, unknown.status_code) == (401, 401)
    assert (
        known.text.replace("ben", "nix") == unknown.text and "the name or the password is wrong" in known.text.lower()
    )
    assert browser.account() is None


def test_wrong_passwords_are_limited_and_a_known_browser_still_signs_in(hub: Hub) -> None:
    known = signed_in(hub, "eva")
    assert known.client.post("/logout/person").status_code == 303 and known.account() is None
    attacker = Browser(hub)
    statuses = [attacker.sign_in("eva", f"wrong {turn}").status_code for turn in range(MAX_WRONG_PASSWORDS + 2)]
    assert statuses == [401] * MAX_WRONG_PASSWORDS + [429] * 2
    assert attacker.sign_in("eva").status_code == 429, "a guess above the limit is not compared"
    assert known.sign_in("eva").status_code == 303


def test_an_address_has_no_passkeys_and_says_so(hub: Hub) -> None:
    answer = Browser(hub).client.get("/login/passkey", headers={"Host": "127.0.0.1"})
    assert answer.status_code == 400 and "host name" in answer.text


def test_cookies_are_for_this_hub_only(hub: Hub) -> None:
    make_account(hub, "cookie")
    browser = Browser(hub)
    plain = browser.sign_in("cookie").headers.getlist("Set-Cookie")
    assert all("HttpOnly" in cookie and "Path=/" in cookie and "Domain" not in cookie for cookie in plain)
    assert any(cookie.startswith("patchbay-person-8000=") and "SameSite=Lax" in cookie for cookie in plain)
    tls = Browser(hub)
    tls.client.environ_base |= {"HTTP_X_FORWARDED_PROTO": "https", "HTTP_ORIGIN": "https://localhost"}
    secure = tls.sign_in("cookie").headers.getlist("Set-Cookie")
    assert all(cookie.startswith("__Host-patchbay-") and "Secure" in cookie for cookie in secure)


def test_a_person_ends_sessions(hub: Hub) -> None:
    first = signed_in(hub, "many")
    second = Browser(hub)
    second.sign_in("many")
    [other] = [each for each in first.account()["sessions"] if not each["is_this"]]
    assert first.change("end-session", id=other["id"]).status_code == 303
    assert second.account() is None and len(first.account()["sessions"]) == 1


def test_a_new_password_signs_other_browsers_out(hub: Hub) -> None:
    first = signed_in(hub, "newpass")
    second = Browser(hub)
    second.sign_in("newpass")
    assert first.change("password", password="another good sentence", again="another good sentence").status_code == 303
    assert second.account() is None and first.account()["name"] == "newpass"
    assert second.sign_in("newpass").status_code == 401
    assert second.sign_in("newpass", "another good sentence").status_code == 303


def test_credentials_change_only_after_a_recent_sign_in(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = signed_in(hub, "stale")
    monkeypatch.setattr(browsers, "RECENT_SECONDS", -1)
    for do in ("password", "add-passkey", "remove-passkey"):
        answer = browser.change(do, password=PASSWORD + "x", again=PASSWORD + "x", ticket="x", answer="{}", id="x")
        assert answer.status_code == 403 and "sign-in of the last 15 minutes" in answer.text
    assert Browser(hub).sign_in("stale").status_code == 303


def test_a_form_of_another_session_is_refused(hub: Hub) -> None:
    ann, eve = signed_in(hub, "form1"), signed_in(hub, "form2")
    foreign = hidden_fields(eve.client.get("/account", headers=HTML).text, "csrf")
    for csrf in (foreign["csrf"], "", "x", foreign["csrf"] + "x"):
        answer = ann.client.post("/account", data={"csrf": csrf, "do": "end-session", "id": "x"})
        assert answer.status_code == 403
    own = hidden_fields(ann.client.get("/account", headers=HTML).text, "csrf")
    for headers in (
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert ann.client.post("/account", data={**own, "do": "end-session"}, headers=headers).status_code in (401, 403)
    del ann.client.environ_base["HTTP_ORIGIN"]
    assert ann.client.post("/account", data={**own, "do": "end-session"}).status_code in (401, 403)
    assert len(ann.account()["sessions"]) == 1


def test_the_page_of_the_account_holds_no_secret(hub: Hub) -> None:
    browser = signed_in(hub, "private")
    person = accounts_of(hub).people.find("private")
    assert person is not None
    for accept in ("text/html", "application/json"):
        text = browser.client.get("/account", headers={"Accept": accept}).text
        assert person.password not in text and person.sessions[0].hash not in text


def test_a_browser_without_a_session_goes_to_the_sign_in_page(hub: Hub) -> None:
    browser = Browser(hub)
    answer = browser.client.get("/account", headers=HTML)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login?next=/account")
    assert browser.client.get("/account", headers={"Accept": "application/json"}).status_code == 401
    assert browser.client.get("/account/passkey").status_code == 401
    assert browser.client.post("/account", data={"do": "password"}).status_code == 401


def test_the_list_of_people_is_the_operators(hub: Hub) -> None:
    person = signed_in(hub, "watched")
    for client in (person.client, hub.app.test_client()):
        assert client.get("/people").status_code == 401
        assert client.post("/people", data={"do": "remove", "name": "watched"}).status_code == 401
    operator = hub.app.test_client()
    operator.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {hub.token}"
    rows = body_of(operator.get("/people", headers={"Accept": "application/json"}))
    [row] = [each for each in rows if each["name"] == "watched"]
    assert (row["has_password"], row["sessions"], row["clients"]) == (True, 1, 0)
    assert 'href="/activity?caller=watched"' in operator.get("/people", headers={"Accept": "text/html"}).text
    assert operator.post("/people", data={"do": "invite", "name": "not a name"}).status_code == 400
    assert operator.post("/people", data={"do": "other", "name": "watched"}).status_code == 400
    assert operator.post("/people", data={"do": "remove", "name": "watched"}).status_code == 303
    assert person.account() is None and Browser(hub).sign_in("watched").status_code == 401


def bar_of(page: str) -> str:
    """The end of the bar on top of a page: who is signed in."""
    return page.partition('<div class="who">')[2].partition("</header>")[0]


def test_every_page_says_who_is_signed_in_and_how_to_end_it(hub: Hub) -> None:
    """Issue 16, item 6."""
    person, stranger, operator = signed_in(hub, "seen"), Browser(hub), hub.app.test_client()
    for path in ("/", "/servers", "/account", "/absent"):
        bar = bar_of(person.client.get(path, headers=HTML).text)
        assert ">seen</a>" in bar and 'action="/logout/person"' in bar and "Sign out" in bar, path
    assert 'href="/login">Sign in</a>' in bar_of(stranger.client.get("/invitation?key=x", headers=HTML).text)
    operator.get(hub.app.parts.operators.links.make(), headers=HTML)
    page = operator.get("/servers", headers=HTML).text
    assert ">operator</a>" in bar_of(page) and 'action="/logout"' in bar_of(page)
    set_grants(hub, {"grants": [{"to": ["seen"], "may": ["operate"], "on": ["*"]}]})
    page = person.client.get("/servers", headers=HTML).text
    set_grants(hub, None)
    assert ">seen</a>" in bar_of(page) and "You are an administrator of this hub." in page


@pytest.mark.parametrize(
    "then", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "/a b", ""]
)
def test_a_sign_in_leads_to_pages_of_the_hub_only(hub: Hub, then: str) -> None:
    if accounts_of(hub).people.find("leader") is None:
        make_account(hub, "leader")
    answer = Browser(hub).sign_in("leader", next=then)
    assert answer.headers["Location"] in ("/", "/account")


PATHS = ("/account", "/people", "/invitation?key=x", "/oauth/authorize", "/.well-known/oauth-authorization-server")


def test_a_personal_hub_has_no_sign_in(tmp_path_factory: pytest.TempPathFactory) -> None:
    personal = Hub(tmp_path_factory.mktemp("personal"))
    for path in PATHS:
        assert personal.client.get(path).status_code == 404, path
    for path in ("/oauth/token", "/oauth/register", "/login/password", "/invitation"):
        assert personal.client.post(path, data={"name": "x"}).status_code == 404, path
    assert 'class="who"' not in personal.client.get("/servers", headers=HTML).text
    page = personal.client.get("/login", headers=HTML)
    assert page.status_code == 200 and "Password" not in page.text
    personal.close()
