"""Strangers send wrong passwords through the proxy of the hub, so that people cannot sign in. What remains:
strangers with hundreds of networks stop new browsers of one person that use a password; passkeys and known browsers go
on.

Source: OWASP, "Blocking Brute Force Attacks" (locked accounts as a denial of service).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.access.people import sign_in_throttle
from patchbay.access.people.sign_in_throttle import MAX_WRONG_OF_ADDRESS
from tests.checkout import ROOT
from tests.hubs import Hub
from tests.serving.proxies import printed
from tests.signing_in import Browser, make_account, shared_hub

PROXY = "127.0.0.1"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = shared_hub(tmp_path_factory.mktemp("hub"), trusted_proxies=(PROXY,))
    make_account(hub, "ann")
    yield hub
    hub.close()


def through_proxy(hub: Hub, forwarded: str) -> Browser:
    """A new browser behind the proxy, which says that the request comes from there."""
    browser = Browser(hub)
    browser.client.environ_base |= {"REMOTE_ADDR": PROXY, "HTTP_X_FORWARDED_FOR": forwarded}
    return browser


def test_wrong_passwords_of_strangers_behind_the_proxy_do_not_stop_a_new_browser(hub: Hub) -> None:
    """A stranger writes addresses of others into the header; the proxy adds the true one at its end."""
    statuses = set()
    for number in range(MAX_WRONG_OF_ADDRESS + 1):
        stranger = through_proxy(hub, f"198.51.100.{number}, 203.0.113.66")
        statuses.add(stranger.sign_in(f"nobody-{number}", "wrong").status_code)
    assert statuses == {401, 429}, "the address of the stranger has its limit"
    assert through_proxy(hub, "203.0.113.66").sign_in("ann").status_code == 429
    assert through_proxy(hub, "203.0.113.7").sign_in("ann").status_code == 303


def test_a_browser_that_signed_in_before_signs_in_from_the_address_of_the_strangers(hub: Hub) -> None:
    known = through_proxy(hub, "203.0.113.8")
    assert known.sign_in("ann").status_code == 303
    for number in range(MAX_WRONG_OF_ADDRESS + 1):
        through_proxy(hub, "203.0.113.8").sign_in(f"nobody-{number}", "wrong")
    assert through_proxy(hub, "203.0.113.8").sign_in("ann").status_code == 429
    assert known.sign_in("ann").status_code == 303


def test_wrong_passwords_for_one_name_from_twenty_addresses_do_not_stop_its_new_browsers(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit of the name each network has one try."""
    monkeypatch.setattr(sign_in_throttle, "MAX_WRONG_OF_NAME", 20)
    for number in range(20):
        assert through_proxy(hub, f"192.0.2.{number}").sign_in("ann", "wrong").status_code == 401
    assert through_proxy(hub, "192.0.2.1").sign_in("ann", "wrong").status_code == 401
    assert through_proxy(hub, "192.0.2.2").sign_in("ann", "wrong").status_code == 429
    assert through_proxy(hub, "198.51.100.200").sign_in("ann").status_code == 303


def test_every_documented_proxy_is_named_to_the_hub_and_gives_the_address() -> None:
    assert "--trusted-proxies 127.0.0.1" in (ROOT / "docs/sharing.md").read_text()
    assert "X-Forwarded-For $remote_addr" in printed("nginx")
    for folder in ("compose.yaml", "kubernetes/hub.yaml"):
        assert "PATCHBAY_TRUSTED_PROXIES" in (ROOT / "deploy" / folder).read_text()
    assert "X-Forwarded-For $remote_addr" in (ROOT / "deploy/nginx.conf").read_text()
