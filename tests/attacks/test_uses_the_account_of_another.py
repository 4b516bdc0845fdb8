"""An attacker wants to act with the account of another at a mounted server, or to move a sign-in to its own name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from werkzeug.test import TestResponse

from patchbay.access.keys import PersonalKeys
from patchbay.access.upstreams.deletion import tokens_topic
from tests.access.upstreams.guarded import (
    Caller,
    Guarded,
    begin,
    caller_of,
    connect,
    is_connected,
    name_of,
    page_of,
    running_guarded,
    sign_in_there,
    tools_of,
)
from tests.hubs import Hub
from tests.signing_in import HTML, Browser, accounts_of, make_account, shared_hub, signed_in
from tests.waiting import until

pytestmark = [pytest.mark.node, pytest.mark.process]

NAMES = iter(f"person{number}" for number in range(1000))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with running_guarded(tmp_path_factory.mktemp("guarded")) as guarded:
        yield guarded


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, guarded: Guarded) -> Iterator[Hub]:
    hub = shared_hub(tmp_path_factory.mktemp("hub"), files={"far.json": guarded.mount()})
    yield hub
    hub.close()


@pytest.fixture
def victim(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, next(NAMES)), "far")


@pytest.fixture
def attacker(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, next(NAMES)), "far")


def changed(path: str, **values: str) -> str:
    """A path with other values in its query; an empty one is left out."""
    parts = urlsplit(path)
    query = dict(parse_qsl(parts.query)) | values
    return f"{parts.path}?{urlencode({name: value for name, value in query.items() if value})}"


def come_back(caller: Caller, path: str) -> TestResponse:
    return caller.browser.client.get(path, headers=HTML)


def test_the_tokens_of_one_principal_are_not_used_for_another(
    guarded: Guarded, victim: Caller, attacker: Caller
) -> None:
    connect(victim.browser.client, "far", "victim-there")
    until(lambda: tools_of(attacker, "far") == ["whoami"])
    assert victim.call("far", "whoami").text == "victim-there"
    refused = attacker.call("far", "whoami")
    assert refused.result["isError"]
    assert refused.text.endswith("/upstreams/far")
    assert "contents" not in attacker.modern("far", "resources/read", {"uri": "guarded://note/1"}).last.get(
        "result", {}
    )
    connect(attacker.browser.client, "far", "attacker-there")
    assert attacker.call("far", "whoami").text == "attacker-there"
    assert victim.call("far", "whoami").text == "victim-there"


def test_a_forwarded_sign_in_at_the_authorization_server_connects_no_account(
    hub: Hub, victim: Caller, attacker: Caller
) -> None:
    """The attacker begins, and gets the victim to sign in: the attacker must not act with the victim's account."""
    back = sign_in_there(begin(attacker.browser.client, "far"), "victim-there")
    assert come_back(victim, back).status_code == 403
    assert come_back(Caller(hub, Browser(hub), ""), back).status_code == 403
    assert not is_connected(hub, name_of(attacker))
    assert not is_connected(hub, name_of(victim))


def test_a_forwarded_page_of_the_hub_connects_the_person_who_opens_it(
    hub: Hub, victim: Caller, attacker: Caller
) -> None:
    link = re.search(r"/upstreams/far\S*$", attacker.call("far", "whoami").text)
    assert link is not None and link[0] == "/upstreams/far"
    connect(victim.browser.client, "far", "victim-there")
    assert is_connected(hub, name_of(victim))
    assert not is_connected(hub, name_of(attacker))
    assert page_of(victim.browser.client, "far", f"?for={name_of(attacker)}").status_code == 401


def test_a_state_works_once(hub: Hub, victim: Caller) -> None:
    back = sign_in_there(begin(victim.browser.client, "far"), "victim-there")
    assert come_back(victim, back).status_code == 200
    assert come_back(victim, back).status_code == 403


@pytest.mark.parametrize("state", ["", "guessed", "x" * 10_000])
def test_an_unknown_state_is_refused(victim: Caller, state: str) -> None:
    back = f"/upstreams/callback/{'0' * 16}?{urlencode({'code': 'guessed', 'state': state})}"
    assert come_back(victim, back).status_code == 403


def test_the_answer_of_another_issuer_is_refused_before_its_code_is_sent_anywhere(
    hub: Hub, guarded: Guarded, victim: Caller
) -> None:
    """RFC 9207; RFC 9700, section 4.4 (mix-up). The issuer of this test announces `iss`."""
    for wrong in ({"iss": "https://evil.example"}, {"iss": guarded.issuer.url + "/"}, {"iss": ""}):
        back = sign_in_there(begin(victim.browser.client, "far"), "victim-there")
        redeemed = guarded.issuer.count("/token")
        assert come_back(victim, changed(back, **wrong)).status_code == 502
        assert guarded.issuer.count("/token") == redeemed
        assert not is_connected(hub, name_of(victim))


def test_an_answer_at_the_address_of_another_issuer_is_refused(hub: Hub, guarded: Guarded, victim: Caller) -> None:
    """RFC 9700, section 4.4.2: each issuer has its own redirect URI."""
    back = sign_in_there(begin(victim.browser.client, "far"), "victim-there")
    redeemed = guarded.issuer.count("/token")
    elsewhere = re.sub(r"/callback/\w+", f"/callback/{'0' * 16}", back)
    assert come_back(victim, elsewhere).status_code == 403
    assert guarded.issuer.count("/token") == redeemed
    assert not is_connected(hub, name_of(victim))


def test_an_answer_in_another_browser_of_the_same_person_is_refused(hub: Hub, victim: Caller) -> None:
    back = sign_in_there(begin(victim.browser.client, "far"), "victim-there")
    other = Browser(hub)
    assert other.sign_in(name_of(victim)).status_code == 303
    assert other.client.get(back, headers=HTML).status_code == 403
    assert come_back(victim, back).status_code == 200


def test_a_form_of_another_site_or_session_connects_and_disconnects_nothing(
    hub: Hub, victim: Caller, attacker: Caller
) -> None:
    connect(victim.browser.client, "far", "victim-there")
    (account,) = victim.browser.account()["upstreams"]
    csrf = re.search(r'name="csrf" value="([^"]+)"', page_of(attacker.browser.client, "far").text)
    assert csrf is not None
    form = {"csrf": csrf[1], "do": "disconnect", "for": name_of(victim), "id": account["id"]}
    assert victim.browser.client.post("/upstreams/far", data=form).status_code == 403
    assert attacker.browser.client.post("/upstreams/far", data=form).status_code == 401
    attacker.browser.client.post("/upstreams/far", data=form | {"for": ""})
    evil = {"Origin": "https://evil.example"}
    assert victim.browser.client.post("/upstreams/far", data=form, headers=evil).status_code == 403
    assert is_connected(hub, name_of(victim))


def test_a_new_person_with_the_name_of_a_removed_one_does_not_get_its_accounts(hub: Hub, victim: Caller) -> None:
    name = name_of(victim)
    connect(victim.browser.client, "far", "victim-there")
    accounts_of(hub).people.remove(name)
    assert not is_connected(hub, name)
    make_account(hub, name)
    assert not is_connected(hub, name)


def test_the_tokens_of_a_revoked_key_are_gone_for_the_next_key_of_its_name(hub: Hub, guarded: Guarded) -> None:
    """Only an administrator connects an account for a key."""
    keys: PersonalKeys = hub.app.parts.keys
    robot = Caller(hub, Browser(hub), keys.make("robot"))
    link = re.search(r"/upstreams/far(\S*)$", robot.call("far", "whoami").text)
    assert link is not None and link[1] == "?for=key%3Arobot"
    assert page_of(signed_in(hub, next(NAMES)).client, "far", link[1]).status_code == 401
    operator = Browser(hub)
    assert operator.client.get(hub.app.parts.operators.links.make()).status_code == 303
    assert "not for yourself" in page_of(operator.client, "far", link[1]).text
    assert "connected" in connect(operator.client, "far", "robot-there", link[1]).text
    until(lambda: tools_of(robot, "far") == ["whoami"])
    assert robot.call("far", "whoami").text == "robot-there"
    keys.revoke("robot")
    again = Caller(hub, Browser(hub), keys.make("robot"))
    assert again.call("far", "whoami").result["isError"]


def test_tokens_go_to_no_other_address_under_the_name_of_the_mount(hub: Hub, guarded: Guarded, victim: Caller) -> None:
    connect(victim.browser.client, "far", "victim-there")
    until(lambda: tools_of(victim, "far") == ["whoami"])
    moved = guarded.mount().replace("/mcp?", "/elsewhere?")
    (hub.servers / "far.json").write_text(moved)
    until(lambda: tools_of(victim, "far") == ["sign_in"])
    assert victim.call("far", "sign_in").result["isError"]
    (hub.servers / "far.json").write_text(guarded.mount())
    until(lambda: tools_of(victim, "far") == ["whoami"])
    assert victim.call("far", "whoami").text == "victim-there"
    assert [each for each in guarded.seen() if each["path"] == "/elsewhere" and each["authorization"]] == []


def test_no_page_and_no_stored_byte_shows_a_token(hub: Hub, guarded: Guarded, victim: Caller) -> None:
    connect(victim.browser.client, "far", "victim-there")
    until(lambda: tools_of(victim, "far") == ["whoami"])
    assert victim.call("far", "whoami").text == "victim-there"
    newest = guarded.tokens()[-1]
    pages = [
        victim.browser.client.get(path, headers=HTML).text for path in ("/upstreams", "/upstreams/far", "/account")
    ]
    stored = [entry.data.decode() for entry in hub.catalogue.store.journal.read(tokens_topic(name_of(victim)))]
    assert len(stored) == 1, "past tokens are kept"
    for text in (*pages, *stored):
        assert newest.split(".")[1] not in text
        assert "refresh_token" not in text
