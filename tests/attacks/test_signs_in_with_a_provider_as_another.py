"""An attacker wants to be another person through an identity provider, or to make another person sign in as itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access.principals import Principal
from patchbay.access.providers import sign_ins
from patchbay.errors import InvalidParams
from patchbay.web.people.providers import MAX_SIGN_INS
from tests.access.providers.false_provider import (
    FalseProvider,
    begin,
    come_back,
    running_provider,
    settings_for,
    sign_in,
)
from tests.hubs import Hub
from tests.signing_in import HTML, Browser, OAuthClient, accounts_of, challenge_of, make_account


@pytest.fixture
def provider() -> Iterator[FalseProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def evil() -> Iterator[FalseProvider]:
    """A second provider of the hub, in the hands of the attacker."""
    with running_provider() as provider:
        yield provider


@pytest.fixture
def hub(provider: FalseProvider, evil: FalseProvider, tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, **settings_for(provider, evil))
    yield hub
    hub.close()


def give(provider: FalseProvider, asked: dict[str, str], code: str = "c", **changes: Any) -> None:
    provider.give(code, provider.sign(provider.claims(asked["nonce"], **changes)))


def test_the_answer_of_another_provider_is_refused(hub: Hub, provider: FalseProvider, evil: FalseProvider) -> None:
    """Mix-up: the victim begins with Acme, and the answer comes to the address of Beta, or names its issuer."""
    for key, more in (("beta", {}), ("acme", {"iss": evil.url}), ("beta", {"iss": evil.url}), ("acme", {"iss": ""})):
        victim = Browser(hub)
        asked = begin(victim, "acme")
        give(provider, asked)
        give(evil, asked)
        answer = come_back(victim, key, code="c", state=asked["state"], **more)
        assert answer.status_code == 400 and victim.account() is None
    assert evil.forms == [] and provider.forms == [], "no code of one provider went to the other"


def test_an_answer_without_its_issuer_is_refused_where_the_provider_promises_it(
    hub: Hub, provider: FalseProvider
) -> None:
    provider.metadata["authorization_response_iss_parameter_supported"] = True
    victim = Browser(hub)
    asked = begin(victim)
    give(provider, asked)
    assert come_back(victim, code="c", state=asked["state"]).status_code == 400
    asked = begin(victim)
    give(provider, asked)
    assert come_back(victim, code="c", state=asked["state"], iss=provider.url).status_code == 303


def test_an_id_token_of_the_other_provider_is_refused(hub: Hub, provider: FalseProvider, evil: FalseProvider) -> None:
    """Beta signs a token that says it is of Acme."""
    victim = Browser(hub)
    asked = begin(victim, "beta")
    evil.give("c", evil.sign(evil.claims(asked["nonce"], iss=provider.url)))
    assert come_back(victim, "beta", code="c", state=asked["state"]).status_code == 403
    assert victim.account() is None


def test_the_code_of_a_victim_is_of_no_use_in_the_browser_of_the_attacker(hub: Hub, provider: FalseProvider) -> None:
    """Code injection: the attacker has a fresh code of the victim, and brings it with a state of its own.

    The code answers the nonce of the victim's browser, and is sent with the verifier of the attacker's.
    """
    victim, attacker = Browser(hub), Browser(hub)
    asked, own = begin(victim), begin(attacker)
    give(provider, asked)
    assert come_back(attacker, code="c", state=own["state"]).status_code == 403
    assert attacker.account() is None
    assert challenge_of(provider.forms[0]["code_verifier"]) == own["code_challenge"] != asked["code_challenge"]


def test_a_victim_is_not_signed_in_as_the_attacker(hub: Hub, provider: FalseProvider) -> None:
    """Sign-in CSRF: the attacker stops its own sign-in before the answer, and leads the victim's browser to it."""
    attacker, victim, other = Browser(hub), Browser(hub), Browser(hub)
    own = begin(attacker)
    give(provider, own, sub="attacker")
    assert come_back(victim, code="c", state=own["state"]).status_code == 400
    begin(other)
    assert come_back(other, code="c", state=own["state"]).status_code == 400
    assert victim.account() is None and other.account() is None and provider.forms == []


def test_another_site_does_not_begin_a_sign_in(hub: Hub) -> None:
    for site in ("cross-site", "same-site"):
        victim = Browser(hub)
        answer = victim.client.get("/sign-in/acme?next=/people", headers={"Sec-Fetch-Site": site})
        assert answer.headers["Location"] == "/login?next=%2Fpeople" and "Set-Cookie" not in answer.headers


def test_a_state_of_a_sign_in_works_once(hub: Hub, provider: FalseProvider) -> None:
    """The attacker has the cookie and the address of a sign-in that was finished."""
    browser, attacker = Browser(hub), Browser(hub)
    asked = begin(browser)
    cookie = browser.client.get_cookie("patchbay-sign-in-8000")
    assert cookie is not None
    give(provider, asked)
    assert come_back(browser, code="c", state=asked["state"]).status_code == 303
    assert browser.client.get_cookie("patchbay-sign-in-8000") is None
    give(provider, asked)
    attacker.client.set_cookie("patchbay-sign-in-8000", cookie.value)
    answer = come_back(attacker, code="c", state=asked["state"])
    assert answer.status_code == 400 and "finished before" in answer.text and attacker.account() is None


def test_a_changed_cookie_of_a_sign_in_is_refused(hub: Hub, provider: FalseProvider) -> None:
    browser = Browser(hub)
    asked = begin(browser)
    cookie = browser.client.get_cookie("patchbay-sign-in-8000")
    assert cookie is not None
    give(provider, asked)
    for value in (cookie.value[:-1] + ("A" if cookie.value[-1] != "A" else "B"), "", "x" * 3900, cookie.value[4:]):
        browser.client.set_cookie("patchbay-sign-in-8000", value)
        assert come_back(browser, code="c", state=asked["state"]).status_code == 400
    assert browser.account() is None and provider.forms == []


def test_the_id_token_of_an_earlier_sign_in_is_refused(hub: Hub, provider: FalseProvider) -> None:
    """Nonce replay: the provider, or who sits before it, answers with a token of an earlier sign-in."""
    browser = Browser(hub)
    earlier, asked = begin(browser), begin(browser)
    give(provider, earlier)
    assert come_back(browser, code="c", state=asked["state"]).status_code == 403
    assert browser.account() is None


@pytest.mark.parametrize(
    "groups",
    [
        {"admins": True},
        [["admins"]],
        ["admins", 7],
        [""],
        7,
        True,
        [f"group-{number}" for number in range(1001)],
        ["x" * 100] * 1 + [f"{number}{'y' * 100}" for number in range(900)],
    ],
    ids=["object", "nested", "mixed", "empty", "number", "flag", "too many", "too long"],
)
def test_a_claim_of_groups_of_a_wrong_type_or_size_is_refused(hub: Hub, provider: FalseProvider, groups: Any) -> None:
    browser = Browser(hub)
    asked = begin(browser)
    give(provider, asked, groups=groups)
    assert come_back(browser, code="c", state=asked["state"]).status_code == 403
    assert browser.account() is None


def test_a_group_that_is_a_string_is_one_group_and_no_group_is_the_operator(hub: Hub, provider: FalseProvider) -> None:
    browser = sign_in(hub, provider, groups="admins,ops")
    assert browser.account()["groups"] == ["admins,ops"]
    browser = sign_in(hub, provider, sub="ben", groups=["operator", "local", "*", "key:ci", "research"])
    assert browser.account()["groups"] == ["research"]


def test_a_group_of_one_provider_is_not_a_person_of_the_other(
    hub: Hub, provider: FalseProvider, evil: FalseProvider
) -> None:
    """A person of Acme is an administrator, and Beta says that this is the name of a group."""
    grants = {"grants": [{"to": [f"{provider.url}#ann"], "may": ["operate"], "on": ["*"]}]}
    headers = {"Authorization": f"Bearer {hub.token}"}
    assert hub.client.put("/variables/access", data=orjson.dumps(grants), headers=headers).status_code == 201
    attacker = Browser(hub)
    asked = begin(attacker, "beta")
    give(evil, asked, sub="eve", groups=[f"{provider.url}#ann", "https://Elsewhere.example/x#y", "a#b"])
    assert come_back(attacker, "beta", code="c", state=asked["state"]).status_code == 303
    assert attacker.account()["groups"] == ["a#b"]
    listed = {"Accept": "application/json"}
    assert attacker.client.get("/people", headers=listed).status_code == 401
    assert sign_in(hub, provider).client.get("/people", headers=listed).status_code == 200


def test_a_stranger_causes_a_limited_number_of_requests_to_the_provider(hub: Hub, provider: FalseProvider) -> None:
    """Each answer with a made-up code costs a request to the provider, and a row in the store."""
    attacker, other = Browser(hub), Browser(hub)
    for _ in range(MAX_SIGN_INS):
        asked = begin(attacker)
        assert come_back(attacker, code="made up", state=asked["state"]).status_code == 403
    refused = attacker.client.get("/sign-in/acme", headers=HTML)
    assert refused.status_code == 429 and refused.headers["Retry-After"] == "60"
    cookie = attacker.client.get_cookie("patchbay-sign-in-8000")
    assert cookie is None, "a refused beginning gives no cookie"
    answer = come_back(attacker, code="made up", state="x")
    assert answer.status_code == 429 and len(provider.forms) == MAX_SIGN_INS
    other.client.environ_base["REMOTE_ADDR"] = "192.0.2.7"
    sign_in(hub, provider, other)
    assert other.account()["subject"] == "ann"


def test_a_session_that_the_provider_refuses_signs_no_client_in(
    hub: Hub, provider: FalseProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request with `Authorization` does not use the session, but the page of consent reads its cookie."""
    browser = sign_in(hub, provider, refresh="r1")
    client = OAuthClient(hub).register()
    monkeypatch.setattr(sign_ins, "REFRESH_SECONDS", 0.0)
    headers = HTML | {"Authorization": "Bearer made-up"}
    provider.give("r1", provider.sign(provider.claims()), refresh_token="r2")
    answer = browser.client.get("/oauth/authorize", query_string=client.query(), headers=headers)
    assert answer.status_code == 200 and [form.get("refresh_token") for form in provider.forms] == [None, "r1"]
    answer = browser.client.get("/oauth/authorize", query_string=client.query(), headers=headers)
    assert answer.status_code == 303 and "/login" in answer.headers["Location"]
    assert browser.account() is None


def test_a_sign_in_without_the_groups_that_the_provider_left_out_is_refused(hub: Hub, provider: FalseProvider) -> None:
    """A denial could name one of them. Entra ID leaves out the groups of a person with more than 200."""
    browser = Browser(hub)
    asked = begin(browser)
    give(provider, asked, groups=None, _claim_names={"groups": "src1"}, _claim_sources={"src1": {}})
    assert come_back(browser, code="c", state=asked["state"]).status_code == 403
    assert browser.account() is None


@pytest.mark.parametrize("mark", [False, None, "false", 1, "yes"])
def test_an_address_that_is_not_verified_is_not_the_persons(hub: Hub, provider: FalseProvider, mark: Any) -> None:
    browser = sign_in(hub, provider, email="boss@example.org", email_verified=mark)
    assert browser.account()["email"] == ""


def test_a_verified_address_joins_no_accounts(hub: Hub, provider: FalseProvider, evil: FalseProvider) -> None:
    """Account linking: the same verified address at another provider, and as the name of a local account."""
    make_account(hub, "ann@example.org")
    first = sign_in(hub, provider, sub="1", email="ann@example.org")
    other = Browser(hub)
    asked = begin(other, "beta")
    give(evil, asked, sub="1", email="ann@example.org")
    assert come_back(other, "beta", code="c", state=asked["state"]).status_code == 303
    found = {browser.account()["principal"] for browser in (first, other)}
    assert found == {f"{provider.url}#1", f"{evil.url}#1"}
    local = accounts_of(hub).people.find("ann@example.org")
    assert local is not None and local.sessions == () and local.outside is None
    assert len(accounts_of(hub).people.list()) == 3


def test_a_subject_with_the_name_of_the_operator_or_of_an_account_is_another_principal(
    hub: Hub, provider: FalseProvider
) -> None:
    for subject in ("operator", "local", "key:ci", "*", "root", f"idp-{'0' * 40}"):
        shown = sign_in(hub, provider, sub=subject, sid=subject).account()
        assert shown["principal"] == f"{provider.url}#{subject}"
    answer = hub.client.get("/people", headers={"Accept": "application/json"})
    assert answer.status_code == 401


def test_no_invitation_leads_to_the_account_of_a_person_of_a_provider(hub: Hub, provider: FalseProvider) -> None:
    """A local password would be a second way into the account."""
    sign_in(hub, provider)
    name = Principal("ann", provider.url).account
    with pytest.raises(InvalidParams):
        accounts_of(hub).invitations.make(name)
    browser = Browser(hub)
    assert browser.sign_in(name, "correct horse battery staple").status_code == 401


@pytest.mark.parametrize(
    "then",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "\\\\evil.example",
        "/x/../..//evil.example",
        "javascript:alert(1)",
        "/%2e%2e//evil.example",
        "/a\r\nLocation: https://evil.example",
        "/login@evil.example:80//",
    ],
)
def test_the_page_after_a_sign_in_is_one_of_the_hub(hub: Hub, provider: FalseProvider, then: str) -> None:
    browser = Browser(hub)
    asked = begin(browser, next=then)
    give(provider, asked)
    answer = come_back(browser, code="c", state=asked["state"], next="https://evil.example/")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/" or answer.headers["Location"].startswith("/login@")


def test_a_session_that_was_planted_is_not_the_one_of_the_sign_in(hub: Hub, provider: FalseProvider) -> None:
    """Session fixation."""
    attacker = sign_in(hub, provider, sub="attacker", sid="a")
    planted = attacker.client.get_cookie("patchbay-person-8000")
    assert planted is not None
    victim = Browser(hub)
    victim.client.set_cookie("patchbay-person-8000", planted.value)
    sign_in(hub, provider, victim)
    assert victim.account()["subject"] == "ann" and attacker.account() is None


def test_the_address_with_the_code_goes_to_no_other_site(hub: Hub, provider: FalseProvider) -> None:
    browser = Browser(hub)
    for answer in (
        come_back(browser, code="c", state="s"),
        browser.client.get("/sign-in/acme", headers=HTML),
    ):
        assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_an_error_of_the_provider_is_shown_as_text(hub: Hub, provider: FalseProvider) -> None:
    browser = Browser(hub)
    asked = begin(browser)
    text = "<script>alert(1)</script>" + "x" * 5000
    answer = come_back(browser, error="server_error", error_description=text, state=asked["state"])
    assert answer.status_code == 400 and "<script>alert" not in answer.text and "x" * 300 not in answer.text
