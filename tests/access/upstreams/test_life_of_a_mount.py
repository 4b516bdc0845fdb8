"""A mount with the credentials of callers over time: health, pins, restart, several processes, disconnection."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchbay.access.hub_key import load_key
from patchbay.access.upstreams.token_store import TokenStore
from patchbay.errors import ConfigError
from patchbay.pins.records import load_pins
from patchbay.stores import open_store
from patchbay.upstreams.configuration import mount_of
from tests.access.upstreams.guarded import Caller, Guarded, caller_of, connect, page_of, tools_of
from tests.hubs import Hub
from tests.signing_in import HTML, Browser, hidden_fields, shared_hub, signed_in
from tests.waiting import until

pytestmark = [pytest.mark.node, pytest.mark.process]


def health(hub: Hub) -> str:
    return str(hub.catalogue.find("far").upstream.health.state)


def test_health_and_pins_follow_the_first_sign_in_and_survive_the_last_disconnection(hub: Hub, ann: Caller) -> None:
    until(lambda: health(hub) == "sign-in")
    page = ann.browser.client.get("/servers/far", headers=HTML).text
    assert '<a href="/upstreams/far">Connect yours</a>' in page
    connect(ann.browser.client, "far", "ann-there")
    until(lambda: health(hub) == "up")
    until(lambda: tools_of(ann, "far") == ["whoami"])
    document = load_pins(hub.catalogue.store, "far").document
    assert document is not None
    assert ("tool", "whoami") in document.items
    (account,) = ann.browser.account()["upstreams"]
    assert account["server"] == "far"
    assert ann.browser.change("disconnect", id=account["id"]).status_code == 303
    assert ann.browser.account()["upstreams"] == []
    assert tools_of(ann, "far") == ["whoami"]
    refused = ann.call("far", "whoami")
    assert refused.result["isError"]
    assert refused.text.endswith("/upstreams/far")
    connect(ann.browser.client, "far", "ann-elsewhere")
    assert ann.call("far", "whoami").text == "ann-elsewhere"


def test_a_disconnected_account_is_revoked_at_its_authorization_server(guarded: Guarded, ann: Caller) -> None:
    connect(ann.browser.client, "far", "ann-there")
    fields = hidden_fields(page_of(ann.browser.client, "far").text, "csrf", "for", "id")
    before = guarded.issuer.count("/token/revocation")
    ended = ann.browser.client.post("/upstreams/far", data=fields | {"do": "disconnect"})
    assert ended.status_code == 303
    assert guarded.issuer.count("/token/revocation") == before + 1
    assert "not connected" in ann.browser.client.get("/upstreams", headers=HTML).text


def test_tokens_survive_a_restart_and_two_processes_refresh_them_in_turn(tmp_path: Path, guarded: Guarded) -> None:
    """A rotated refresh token that is used twice ends the whole sign-in at the authorization server of this test."""
    files = {"far.json": guarded.mount()}
    first = shared_hub(tmp_path, store="sqlite", files=files)
    browser = signed_in(first, "ann")
    connect(browser.client, "far", "ann-there")
    first.close()
    hub = shared_hub(tmp_path, store="sqlite", files=files)
    again = Browser(hub)
    assert again.sign_in("ann").status_code == 303
    ann = caller_of(hub, again, "far")
    until(lambda: tools_of(ann, "far") == ["whoami"])
    assert ann.call("far", "whoami").text == "ann-there"
    other = open_store("sqlite", tmp_path / "data")
    upstream = hub.catalogue.find("far").upstream.accounts.upstream
    known: list[TokenStore] = [
        hub.app.parts.dispatcher.services.upstream_tokens,
        TokenStore(other, load_key(tmp_path / "data"), "http://hub"),
    ]

    def refresh(number: int) -> str:
        found = known[number % 2].find("ann", upstream)
        assert found is not None
        assert found.tokens is not None
        return found.tokens.get_token()

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(refresh, range(12)))) > 1
    assert ann.call("far", "whoami").text == "ann-there"
    hub.close()
    other.close()


def test_in_personal_mode_the_operator_connects_the_account_of_all_callers(tmp_path: Path, guarded: Guarded) -> None:
    hub = Hub(tmp_path, {"far.json": guarded.mount()})
    assert hub.client.get("/upstreams/far", headers=HTML).headers["Location"].startswith("/login?next=%2Fupstreams")
    hub.log_in()
    connect(hub.client, "far", "me")
    until(lambda: [each["name"] for each in hub.modern("far", "tools/list").result["tools"]] == ["whoami"])
    assert hub.call("far", "whoami").text == "me"
    assert hub.client.post("/far/whoami", json={}, headers={"Accept": "text/plain"}).text.strip() == "me"
    hub.close()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"address": "mcp+stdio:cat", "account": "caller"}, "only the server at a URL"),
        ({"headers": {"Authorization": "${TOKEN}"}, "account": "caller"}, "no header Authorization"),
        ({"oauth": {"scope": "all"}}, "expected only beside"),
        ({"account": "caller", "oauth": {"client_id": "a", "client_secret": "plain"}}, "expected a variable"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        mount_of("far", {"address": "https://far.example/mcp"} | fields, "far.json")
