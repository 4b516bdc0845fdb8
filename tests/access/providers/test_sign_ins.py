"""Sign-in with a provider of the test: accounts, groups, invitations, refreshes, both logouts, an absent provider."""

from __future__ import annotations

import time
from html import unescape
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from werkzeug.test import TestResponse

from patchbay.access.oauth import tokens
from patchbay.access.people.people import Person, Session
from patchbay.access.principals import Principal
from patchbay.access.providers import sign_ins
from patchbay.access.providers.invited import MAX_INVITED, InvitedPeople
from patchbay.access.providers.relying_party import ProviderTokens, RelyingParty
from patchbay.access.providers.sign_ins import ProviderSignIns
from patchbay.access.tokens.claims import make_principal
from patchbay.access.tokens.issuer import Issuer
from patchbay.access.tokens.problems import IssuerUnavailable
from patchbay.access.upstreams.deletion import delete_record, tokens_topic
from patchbay.cli import main
from patchbay.errors import InvalidParams
from patchbay.stores.memory import MemoryStore
from patchbay.topics import SIGN_IN_TOKENS
from tests.access.providers.false_provider import (
    CLIENT,
    FalseProvider,
    begin,
    come_back,
    running_provider,
    settings_for,
    sign_in,
)
from tests.access.tokens.issuers import Claims
from tests.hubs import Hub
from tests.signing_in import BASE, HTML, Browser, OAuthClient, accounts_of, hidden_fields, principal_of


def person_of(hub: Hub, provider: FalseProvider, subject: str = "ann") -> Person:
    found = accounts_of(hub).people.find(Principal(subject, provider.url).account)
    assert found is not None
    return found


def sessions_of(hub: Hub, provider: FalseProvider, subject: str = "ann") -> int:
    return len(person_of(hub, provider, subject).sessions)


def tokens_are_stored(hub: Hub, session: Session) -> bool:
    return bool(hub.catalogue.store.journal.tail(SIGN_IN_TOKENS + session.id, 1))


def provider_sign_ins_of(hub: Hub) -> ProviderSignIns:
    """The sign-ins of a hub, which answer for its sessions."""
    found = getattr(accounts_of(hub).sessions.confirm, "__self__", None)
    assert isinstance(found, ProviderSignIns)
    return found


def relying_party_of(hub: Hub) -> RelyingParty:
    return provider_sign_ins_of(hub).parties["acme"]


def log_out_by_provider(hub: Hub, token: str) -> int:
    answer = hub.app.test_client().post("/sign-in/acme/backchannel-logout", data={"logout_token": token})
    return answer.status_code


def test_the_request_has_pkce_state_nonce_and_the_exact_redirect_uri(hub: Hub, provider: FalseProvider) -> None:
    browser = Browser(hub)
    asked, again = begin(browser), begin(browser)
    assert asked["response_type"] == "code" and asked["client_id"] == CLIENT
    assert asked["redirect_uri"] == f"{BASE}/sign-in/acme/callback"
    assert asked["scope"] == "openid profile email offline_access"
    assert asked["code_challenge_method"] == "S256" and len(asked["code_challenge"]) == 43
    assert all(asked[name] != again[name] for name in ("state", "nonce", "code_challenge"))


def test_scopes_that_a_provider_does_not_list_are_left_out(hub: Hub, provider: FalseProvider) -> None:
    provider.metadata["scopes_supported"] = ["openid", "email"]
    assert begin(Browser(hub))["scope"] == "openid email"


def test_a_first_sign_in_makes_the_account_with_name_address_and_groups(hub: Hub, provider: FalseProvider) -> None:
    browser = sign_in(hub, provider)
    shown = browser.account()
    assert (shown["shown"], shown["email"], shown["groups"]) == ("Ann", "ann@example.org", ["research"])
    assert (shown["issuer"], shown["subject"], shown["provider"]) == (provider.url, "ann", "Acme")
    assert shown["principal"] == f"{provider.url}#ann"
    assert not shown["has_password"] and not shown["passkeys"]


def test_a_browser_and_a_token_of_the_same_issuer_are_one_principal(hub: Hub, provider: FalseProvider) -> None:
    """`make_principal` makes that of a client's token; equality has issuer, subject, groups, name and address."""
    sign_in(hub, provider)
    token = make_principal(provider.claims(), Issuer(provider.url))
    assert person_of(hub, provider).principal == token


def test_a_later_sign_in_refreshes_what_the_provider_says(hub: Hub, provider: FalseProvider) -> None:
    sign_in(hub, provider)
    before = person_of(hub, provider)
    sign_in(hub, provider, groups=["ops", "research"], name="Ann Two", email="two@example.org")
    after = person_of(hub, provider)
    assert after.id == before.id and len(after.sessions) == 2
    assert (after.principal.name, after.principal.email) == ("Ann Two", "two@example.org")
    assert after.principal.groups == {"ops", "research"}


def test_groups_give_rights_to_the_session_of_a_browser(hub: Hub, provider: FalseProvider) -> None:
    grants = {"grants": [{"to": ["research"], "may": ["see", "call"], "on": ["echo"]}]}
    answer = hub.client.put(
        "/variables/access", data=orjson.dumps(grants), headers={"Authorization": f"Bearer {hub.token}"}
    )
    assert answer.status_code == 201, answer.text
    member, other = sign_in(hub, provider), sign_in(hub, provider, sub="ben", groups=["sales"], sid="two")
    listed = {"Accept": "application/json"}
    assert member.client.get("/servers/echo", headers=listed).status_code == 200
    assert other.client.get("/servers/echo", headers=listed).status_code == 404


def test_limits_of_a_group_are_those_of_the_session_of_a_browser(hub: Hub, provider: FalseProvider) -> None:
    grants = [{"to": ["*"], "may": ["see", "call"], "on": ["*"]}]
    limits = {"grants": grants, "quotas": [{"to": ["research"], "streams": 7}]}
    headers = {"Authorization": f"Bearer {hub.token}"}
    assert hub.client.put("/variables/access", data=orjson.dumps(limits), headers=headers).status_code == 201
    quotas = hub.app.parts.dispatcher.services.quotas
    browser = sign_in(hub, provider)
    assert browser.account() is not None
    assert quotas.limits(f"{provider.url}#ann")["streams"] == 7


def test_userinfo_is_asked_only_for_what_the_id_token_lacks(hub: Hub, provider: FalseProvider) -> None:
    provider.userinfo = {"sub": "ann", "groups": ["elsewhere"], "name": "Other", "email": "other@example.org"}
    provider.userinfo["email_verified"] = True
    sign_in(hub, provider)
    assert person_of(hub, provider).principal.groups == {"research"}
    sign_in(hub, provider, groups=None)
    found = person_of(hub, provider).principal
    assert found.groups == {"elsewhere"} and (found.name, found.email) == ("Ann", "ann@example.org")


def test_the_mark_of_a_verified_address_does_not_move_to_another_document(hub: Hub, provider: FalseProvider) -> None:
    provider.userinfo = {"sub": "ann", "email": "real@example.org", "email_verified": True, "groups": []}
    sign_in(hub, provider, email="forged@example.org", email_verified=None, groups=None)
    assert person_of(hub, provider).principal.email == ""


def test_userinfo_about_another_person_is_refused(hub: Hub, provider: FalseProvider) -> None:
    provider.userinfo = {"sub": "ben", "groups": ["admins"]}
    browser = Browser(hub)
    asked = begin(browser)
    provider.give("c", provider.sign(provider.claims(asked["nonce"], groups=None)))
    answer = come_back(browser, code="c", state=asked["state"])
    assert answer.status_code == 403 and browser.account() is None


@pytest.fixture
def closed_hub(provider: FalseProvider, tmp_path: Path) -> Any:
    hub = Hub(tmp_path / "closed", **settings_for(provider, sign_up="invited"))
    yield hub
    hub.close()


def try_to_sign_in(hub: Hub, provider: FalseProvider, **changes: Any) -> int:
    browser = Browser(hub)
    asked = begin(browser)
    provider.give("c", provider.sign(provider.claims(asked["nonce"], **changes)))
    return come_back(browser, code="c", state=asked["state"]).status_code


def invite(hub: Hub, name: str) -> None:
    """Invite as the operator does on the page /people."""
    operator = Browser(hub)
    answer = operator.client.get(hub.app.parts.operators.links.make())
    assert answer.status_code == 303
    csrf = hidden_fields(operator.client.get("/people", headers=HTML).text, "csrf")
    answer = operator.client.post("/people", data={**csrf, "do": "invite", "name": name, "provider": "acme"})
    assert answer.status_code == 303, answer.text


def test_only_invited_people_get_an_account_where_the_setting_says_so(closed_hub: Hub, provider: FalseProvider) -> None:
    assert try_to_sign_in(closed_hub, provider) == 403
    invite(closed_hub, "Ann@Example.org")
    assert try_to_sign_in(closed_hub, provider, email_verified=False) == 403, "the address is not verified"
    assert try_to_sign_in(closed_hub, provider) == 303
    assert try_to_sign_in(closed_hub, provider) == 303, "an account needs no other invitation"
    assert try_to_sign_in(closed_hub, provider, sub="another owner of the address") == 403
    invite(closed_hub, "ben-7")
    provider.userinfo = {"sub": "ben-7"}
    assert try_to_sign_in(closed_hub, provider, sub="ben-7", email=None) == 303


def test_a_withdrawn_invitation_gives_no_account(closed_hub: Hub, provider: FalseProvider) -> None:
    invite(closed_hub, "ann@example.org")
    operator = Browser(closed_hub)
    operator.client.get(closed_hub.app.parts.operators.links.make())
    page = operator.client.get("/people", headers=HTML).text
    fields = hidden_fields(page, "csrf") | {"do": "withdraw", "name": "ann@example.org", "provider": provider.url}
    assert operator.client.post("/people", data=fields).status_code == 303
    assert try_to_sign_in(closed_hub, provider) == 403


def test_a_removed_person_comes_back_with_an_invitation_only(hub: Hub, provider: FalseProvider) -> None:
    browser = sign_in(hub, provider)
    account, journal = person_of(hub, provider), hub.catalogue.store.journal
    connected = tokens_topic(account.principal.id)
    journal.append(connected, b"the sealed tokens at mounted servers")
    assert accounts_of(hub).people.remove(account.name)
    assert browser.account() is None and not journal.last(connected)
    assert try_to_sign_in(hub, provider) == 403
    invite(hub, "ann")
    assert try_to_sign_in(hub, provider) == 303
    assert person_of(hub, provider).id != account.id


def test_a_sign_out_leads_to_the_sign_out_of_the_provider(hub: Hub, provider: FalseProvider) -> None:
    browser = sign_in(hub, provider)
    answer = browser.client.post("/logout/person")
    assert answer.status_code == 200 and browser.account() is None and sessions_of(hub, provider) == 0
    address = answer.headers["Refresh"].partition("url=")[2]
    assert address.startswith(f"{provider.url}/end?") and "id_token_hint=" in address
    assert f"client_id={CLIENT}" in address and "post_logout_redirect_uri=http%3A%2F%2Flocalhost%2Flogin" in address
    assert "Continue to Acme" in answer.text


def test_a_provider_without_a_sign_out_leaves_the_one_of_the_hub(hub: Hub, provider: FalseProvider) -> None:
    provider.metadata["end_session_endpoint"] = None
    browser = sign_in(hub, provider)
    answer = browser.client.post("/logout/person")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")
    assert browser.account() is None


def test_a_logout_token_ends_the_session_that_it_names(hub: Hub, provider: FalseProvider) -> None:
    first, second = sign_in(hub, provider), sign_in(hub, provider, sid="two")
    assert log_out_by_provider(hub, provider.logout_token(sub=None)) == 200
    assert first.account() is None and second.account() is not None
    token = provider.logout_token(sid="two")
    assert log_out_by_provider(hub, token) == 200
    assert second.account() is None
    third = sign_in(hub, provider, sid="two")
    assert log_out_by_provider(hub, token) == 400, "a logout token works once"
    assert third.account() is not None


def test_a_logout_token_for_a_person_ends_all_sessions_and_clients(hub: Hub, provider: FalseProvider) -> None:
    browser = sign_in(hub, provider)
    other = sign_in(hub, provider, sub="ben", sid="ben")
    client = OAuthClient(hub).register().sign_in(browser)
    principal = principal_of(hub, client.access)
    assert principal is not None and principal.id == f"{provider.url}#ann" and principal.groups == {"research"}
    access = hub.app.parts.dispatcher.services.access
    assert access.is_current(principal)
    assert log_out_by_provider(hub, provider.logout_token(sid=None)) == 200
    assert browser.account() is None and other.account() is not None
    assert client.refresh().status_code == 400


def test_a_forged_logout_token_ends_nothing(hub: Hub, provider: FalseProvider) -> None:
    browser = sign_in(hub, provider)
    with running_provider() as stranger:
        stranger.url = provider.url
        for token in (stranger.logout_token(), provider.logout_token(aud="another"), "", "x.y.z", "x" * 70_000):
            assert log_out_by_provider(hub, token) in (400, 413)
    assert browser.account() is not None


class Refreshes:
    """A person whose session is due for a refresh at each request."""

    def __init__(self, hub: Hub, provider: FalseProvider) -> None:
        self.hub, self.provider = hub, provider
        self.browser = sign_in(hub, provider, refresh="r1")

    def give(self, refresh: str, new: str | None, **changes: Any) -> None:
        self.provider.give(refresh, self.provider.sign(self.provider.claims(**changes)), refresh_token=new)


@pytest.fixture
def refreshes(hub: Hub, provider: FalseProvider, monkeypatch: pytest.MonkeyPatch) -> Refreshes:
    found = Refreshes(hub, provider)
    monkeypatch.setattr(sign_ins, "REFRESH_SECONDS", 0.0)
    return found


def test_a_refresh_brings_changed_groups_and_rotates_the_token(refreshes: Refreshes) -> None:
    refreshes.give("r1", "r2", groups=["ops"])
    assert refreshes.browser.client.get("/login").status_code == 200
    assert person_of(refreshes.hub, refreshes.provider).principal.groups == {"ops"}
    refreshes.give("r2", None, groups=[])
    assert refreshes.browser.client.get("/login").status_code == 200
    assert person_of(refreshes.hub, refreshes.provider).principal.groups == frozenset()
    assert [form["refresh_token"] for form in refreshes.provider.forms[1:]] == ["r1", "r2"]


def test_a_refresh_without_id_token_and_groups_keeps_what_is_known(refreshes: Refreshes) -> None:
    refreshes.provider.answers["r1"] = {"access_token": "a", "token_type": "Bearer"}
    refreshes.provider.userinfo = {"sub": "ann"}
    assert refreshes.browser.client.get("/login").status_code == 200
    found = person_of(refreshes.hub, refreshes.provider).principal
    assert found.groups == {"research"} and found.name == "Ann"


def test_a_refused_refresh_ends_the_session(refreshes: Refreshes) -> None:
    """A refresh token that a thief used first is refused to the hub, too (RFC 9700, section 4.14)."""
    assert refreshes.browser.account() is None
    assert sessions_of(refreshes.hub, refreshes.provider) == 0


def test_a_refresh_about_another_person_ends_the_session(refreshes: Refreshes) -> None:
    refreshes.give("r1", "r2", sub="mallory", groups=["admins"])
    assert refreshes.browser.account() is None
    assert accounts_of(refreshes.hub).people.find(Principal("mallory", refreshes.provider.url).account) is None


def test_a_session_stays_while_the_provider_is_away(refreshes: Refreshes) -> None:
    refreshes.provider.is_down = True
    assert refreshes.browser.account() is not None


def test_a_person_who_is_removed_during_a_refresh_stays_removed(refreshes: Refreshes) -> None:
    hub, provider = refreshes.hub, refreshes.provider
    person = person_of(hub, provider)
    (session,) = person.sessions
    provider.meanwhile = lambda: accounts_of(hub).people.remove(person.name)
    refreshes.give("r1", "r2")
    assert refreshes.browser.account() is None
    assert accounts_of(hub).people.find(person.name) is None
    assert not tokens_are_stored(hub, session)


def test_a_refresh_does_not_write_over_a_later_sign_in(refreshes: Refreshes) -> None:
    people = accounts_of(refreshes.hub).people
    outside = person_of(refreshes.hub, refreshes.provider).outside
    assert outside is not None

    def sign_in_elsewhere() -> None:
        people.record(outside.model_copy(update={"groups": ("ops",), "seen": people.now() + 1}))

    refreshes.provider.meanwhile = sign_in_elsewhere
    refreshes.provider.answers["r1"] = {"access_token": "a", "token_type": "Bearer", "refresh_token": "r2"}
    refreshes.provider.userinfo = {"sub": "ann"}
    assert refreshes.browser.client.get("/login").status_code == 200
    assert person_of(refreshes.hub, refreshes.provider).principal.groups == {"ops"}
    refreshes.give("r2", "r3", groups=["research"])
    assert refreshes.browser.client.get("/login").status_code == 200
    assert person_of(refreshes.hub, refreshes.provider).principal.groups == {"ops"}


def test_a_rotated_refresh_token_is_kept_when_the_next_request_to_the_provider_fails(
    refreshes: Refreshes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_ins, "RETRY_SECONDS", 0.0)
    provider = refreshes.provider
    provider.answers["r1"] = {"access_token": "a", "token_type": "Bearer", "refresh_token": "r2"}
    provider.metadata["userinfo_endpoint"] = "http://127.0.0.1:9/nothing-listens-here"
    metadata = relying_party_of(refreshes.hub)._metadata
    metadata._next_fetch = 0.0
    assert refreshes.browser.account() is not None
    provider.metadata.clear()
    metadata._next_fetch = 0.0
    refreshes.give("r2", "r3", groups=["ops"])
    assert refreshes.browser.account()["groups"] == ["ops"]


def test_after_a_failure_no_session_asks_the_provider_for_a_while(
    hub: Hub, provider: FalseProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that hangs would otherwise delay the next request of each person."""
    browsers = [sign_in(hub, provider, refresh=f"r{number}", sid=str(number)) for number in range(3)]
    monkeypatch.setattr(sign_ins, "REFRESH_SECONDS", 0.0)
    asked: list[str] = []

    def fail(tokens: ProviderTokens, *more: Any) -> Any:
        asked.append(tokens.refresh)
        raise IssuerUnavailable

    monkeypatch.setattr(relying_party_of(hub), "refresh", fail)
    assert all(browser.account() is not None for browser in browsers) and asked == ["r0"]
    monkeypatch.setattr(sign_ins, "RETRY_SECONDS", 0.0)
    provider_sign_ins_of(hub)._next_question.clear()
    assert all(browser.account() is not None for browser in browsers) and set(asked) == {"r0", "r1", "r2"}


@pytest.mark.parametrize("is_readable", [False, None], ids=["unreadable", "gone"])
def test_a_session_whose_tokens_are_lost_lasts_twelve_hours_from_the_last_answer(
    refreshes: Refreshes, is_readable: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (session,) = person_of(refreshes.hub, refreshes.provider).sessions
    journal = refreshes.hub.catalogue.store.journal
    delete_record(journal, SIGN_IN_TOKENS + session.id)
    if is_readable is False:
        journal.append(SIGN_IN_TOKENS + session.id, b'{"sealed": "eA=="}')
    assert refreshes.browser.account() is not None
    monkeypatch.setattr(sign_ins, "UNCONFIRMED_SECONDS", 0.0)
    assert refreshes.browser.account() is None and sessions_of(refreshes.hub, refreshes.provider) == 0


@pytest.mark.parametrize("end", ["the person is removed", "End on the page", "another sign-in", "a sign-out"])
def test_the_tokens_of_a_session_are_deleted_when_it_ends(hub: Hub, provider: FalseProvider, end: str) -> None:
    browser = sign_in(hub, provider, refresh="r1")
    person = person_of(hub, provider)
    (session,) = person.sessions
    assert tokens_are_stored(hub, session)
    if end == "the person is removed":
        accounts_of(hub).people.remove(person.name)
    elif end == "End on the page":
        assert browser.change("end-session", id=session.id).status_code == 303
    elif end == "another sign-in":
        sign_in(hub, provider, browser)
    else:
        browser.client.post("/logout/person")
    assert not tokens_are_stored(hub, session)


def test_a_logout_token_works_again_when_its_end_failed(
    hub: Hub, provider: FalseProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = sign_in(hub, provider)
    token = provider.logout_token()
    with monkeypatch.context() as broken:
        broken.setattr(provider_sign_ins_of(hub), "_end", lambda *given, **more: 1 / 0)
        assert log_out_by_provider(hub, token) == 500
    assert browser.account() is not None
    assert log_out_by_provider(hub, token) == 200 and browser.account() is None


def test_after_a_failed_sign_in_the_request_of_a_client_goes_on_and_no_field_is_marked(
    hub: Hub, provider: FalseProvider
) -> None:
    browser = Browser(hub)
    asked = begin(browser, next="/oauth/authorize?client_id=x")
    answer = come_back(browser, error="access_denied", state=asked["state"])
    assert answer.status_code == 400 and 'href="/sign-in/acme?next=%2Foauth%2Fauthorize' in unescape(answer.text)
    assert 'name="next" value="/oauth/authorize?client_id=x"' in answer.text
    assert "aria-invalid" not in answer.text
    assert 'aria-invalid="true"' in browser.sign_in("ann", "a wrong password").text


def test_a_subject_of_the_greatest_length_can_be_invited(closed_hub: Hub, provider: FalseProvider) -> None:
    subject = "s" * 255
    assert try_to_sign_in(closed_hub, provider, sub=subject) == 403
    invite(closed_hub, subject)
    assert try_to_sign_in(closed_hub, provider, sub=subject) == 303


def test_invitations_have_a_limit_together() -> None:
    invited = InvitedPeople(MemoryStore().journal)
    with pytest.raises(InvalidParams, match="withdraw one first"):
        for number in range(MAX_INVITED + 1):
            invited.add(f"{number:04}" + '"' * 251, "https://id.example.org")
    assert invited.list()


def test_an_administrator_needs_a_proof_of_the_last_hour_to_act_for_a_key(hub: Hub, provider: FalseProvider) -> None:
    grants = {"grants": [{"to": ["research"], "may": ["operate"], "on": ["*"]}]}
    hub.client.put("/variables/access", data=orjson.dumps(grants), headers={"Authorization": f"Bearer {hub.token}"})
    hub.app.parts.keys.make("robot")
    browser = sign_in(hub, provider, auth_time=int(time.time()) - 7200)

    def disconnect() -> TestResponse:
        csrf = hidden_fields(browser.client.get("/account", headers=HTML).text, "csrf")
        fields = {"do": "disconnect", "for": "key:robot", "id": "none"}
        return browser.client.post("/upstreams/far", data=csrf | fields, headers=HTML)

    refused = disconnect()
    assert refused.status_code == 403 and "/sign-in/acme?again=yes" in refused.text
    assert browser.client.get("/upstreams?for=key:robot", headers=HTML).status_code == 200
    assert prove_again(hub, provider, browser, auth_time=int(time.time())) == 303
    assert disconnect().status_code == 303


def test_a_session_without_a_refresh_token_ends_after_twelve_hours(hub: Hub, provider: FalseProvider) -> None:
    sign_in(hub, provider)
    (session,) = person_of(hub, provider).sessions
    assert session.until - session.at == 12 * 3600
    sign_in(hub, provider, refresh="r1")
    newest = person_of(hub, provider).sessions[-1]
    assert newest.until - newest.at == 30 * 24 * 3600


def test_no_token_of_the_provider_is_readable_in_the_store(hub: Hub, provider: FalseProvider) -> None:
    browser = sign_in(hub, provider, refresh="the-refresh-token")
    journal = hub.catalogue.store.journal
    (session,) = person_of(hub, provider).sessions
    stored = journal.tail(f"sign-in-tokens/{session.id}", 1)[0].data
    account = journal.tail(f"person/{person_of(hub, provider).name}", 1)[0].data
    for data in (stored, account, browser.client.get("/account", headers=HTML).get_data()):
        assert b"the-refresh-token" not in data and b"eyJ" not in data


def test_the_page_of_the_sign_in_says_that_the_provider_is_away(hub: Hub, provider: FalseProvider) -> None:
    browser = Browser(hub)
    assert "Sign in with Acme" in browser.client.get("/login", headers=HTML).text
    provider.is_down = True
    answer = browser.client.get("/sign-in/acme", headers=HTML)
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "60"
    assert "Acme does not answer now" in answer.text and "patchbay login" in answer.text
    assert "Acme did not answer a moment ago" in browser.client.get("/login", headers=HTML).text
    operator = hub.app.test_client()
    assert operator.get(hub.app.parts.operators.links.make()).status_code == 303, "the operator gets in all the same"


def test_a_provider_that_goes_away_during_a_sign_in_is_named(hub: Hub, provider: FalseProvider) -> None:
    browser = Browser(hub)
    asked = begin(browser)
    provider.is_down = True
    answer = come_back(browser, code="c", state=asked["state"])
    assert answer.status_code == 503 and browser.account() is None


def test_the_secret_of_the_client_comes_from_the_secrets_of_the_hub(provider: FalseProvider, tmp_path: Path) -> None:
    provider.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    hub = Hub(tmp_path, **settings_for(provider, sign_in_secret=("${ACME_SECRET}",)))
    try:
        assert try_to_sign_in(hub, provider) == 503, "the secret is missing"
        hub.app.parts.dispatcher.services.secrets.put("ACME_SECRET", "first", "tests")
        assert try_to_sign_in(hub, provider) == 303
        hub.app.parts.dispatcher.services.secrets.put("ACME_SECRET", "second", "tests")
        assert try_to_sign_in(hub, provider) == 303
        assert [form.get("client_secret") for form in provider.forms] == ["first", "second"]
        (listed,) = hub.app.parts.dispatcher.services.secrets.all()
        assert list(listed.uses) == ["sign-in"]
    finally:
        hub.close()


def prove_again(hub: Hub, provider: FalseProvider, browser: Browser, **changes: Any) -> int:
    asked = begin(browser, again="yes")
    assert (asked["prompt"], asked["max_age"]) == ("login", "0")
    provider.give("p", provider.sign(provider.claims(asked["nonce"], **changes)))
    return come_back(browser, code="p", state=asked["state"]).status_code


def test_an_act_of_the_operator_needs_a_proof_of_the_last_hour(hub: Hub, provider: FalseProvider) -> None:
    grants = {"grants": [{"to": ["research"], "may": ["operate"], "on": ["*"]}]}
    hub.client.put("/variables/access", data=orjson.dumps(grants), headers={"Authorization": f"Bearer {hub.token}"})
    browser = sign_in(hub, provider, auth_time=int(time.time()) - 7200)
    page = browser.client.get("/people", headers=HTML)
    assert page.status_code == 200
    form: Claims = hidden_fields(page.text, "csrf") | {"do": "invite", "name": "carl"}
    refused = browser.client.post("/people", data=form)
    assert refused.status_code == 403 and "/sign-in/acme?again=yes" in refused.text
    assert prove_again(hub, provider, browser) == 403, "the provider did not say when"
    assert prove_again(hub, provider, browser, auth_time=int(time.time()) - 3600) == 403, "the proof is an old one"
    assert prove_again(hub, provider, browser, auth_time=int(time.time())) == 303
    form |= hidden_fields(browser.client.get("/people", headers=HTML).text, "csrf")
    assert browser.client.post("/people", data=form).status_code == 200


def test_a_person_of_a_provider_has_no_password_and_no_passkey(hub: Hub, provider: FalseProvider) -> None:
    browser = sign_in(hub, provider)
    password = "correct horse battery staple"
    answer = browser.change("password", password=password, again=password)
    assert answer.status_code == 400 and "identity provider" in answer.text
    assert not person_of(hub, provider).password
    page = browser.client.get("/account", headers=HTML).text
    assert "New password" not in page and "passkey" not in page


def test_clients_of_a_person_end_when_the_provider_said_nothing_for_a_week(
    hub: Hub, provider: FalseProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = OAuthClient(hub).register().sign_in(sign_in(hub, provider))
    assert principal_of(hub, client.access) is not None
    monkeypatch.setattr(tokens, "UNSEEN_SECONDS", -1.0)
    assert client.refresh().status_code == 400


def test_the_command_lists_a_person_with_subject_and_issuer(provider: FalseProvider, tmp_path: Path) -> None:
    hub = Hub(tmp_path, **settings_for(provider, store="sqlite"))
    try:
        sign_in(hub, provider)
        name = person_of(hub, provider).name
    finally:
        hub.close()
    found = CliRunner().invoke(main, ["people", "list", "--data", str(tmp_path / "data")])
    assert found.exit_code == 0 and f"{name}\t" in found.output
    assert f"\tann at {provider.url}\t1 sessions" in found.output
