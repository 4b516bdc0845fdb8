"""A principal of a shared hub appears as many senders, so that its flood gets the turns of many.

Source: RFC 970 (fair queueing: a source that uses many names gets the share of many).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.wire.front.fair_queue import find_sender

PORT = 8000
KEY = "patchbay_key_abc"
PERSON = f"patchbay-person-{PORT}=ann.secret"


def sender(client: str = "192.0.2.1:5000", **headers: str) -> str:
    """The sender of a request with these headers."""
    scope: Any = SimpleNamespace(client=client)
    given: Any = headers
    return find_sender(scope, given, PORT)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"bEARER {KEY}"},
        {"authorization": f"Bearer    {KEY}"},
        {"authorization": f"DPoP {KEY}"},
        {"authorization": f"Bearer {KEY}", "cookie": "x=1"},
    ],
)
def test_one_key_is_one_sender(headers: dict[str, str]) -> None:
    assert sender(**headers) == sender(authorization=f"Bearer {KEY}")


@pytest.mark.parametrize(
    "headers",
    [
        {"cookie": f"x=1; {PERSON}"},
        {"cookie": f"{PERSON}; patchbay-{PORT}=made-up"},
        {"cookie": f"{PERSON}; patchbay-person-1=made.up"},
        {"cookie": PERSON, "authorization": "Basic made-up"},
    ],
)
def test_one_session_is_one_sender(headers: dict[str, str]) -> None:
    assert sender(**headers) == sender(cookie=PERSON)


def test_made_up_cookies_and_ports_are_one_address() -> None:
    assert {sender(f"192.0.2.1:{number}", cookie=f"x={number}") for number in range(9)} == {"192.0.2.1"}


def test_a_named_proxy_makes_its_clients_senders_of_their_own() -> None:
    """Without a token or a session; a client that writes further addresses remains one sender."""
    proxies = TrustedProxies(("192.0.2.1",))

    def forwarded(text: str) -> str:
        scope: Any = SimpleNamespace(client="192.0.2.1:5000")
        headers: Any = {"x-forwarded-for": text}
        return find_sender(scope, headers, PORT, proxies)

    assert {forwarded(f"198.51.100.{number}, 203.0.113.1") for number in range(9)} == {"203.0.113.1"}
    assert forwarded("203.0.113.2") == "203.0.113.2"


def test_two_sessions_and_two_keys_are_four_senders() -> None:
    cookies = [f"patchbay-person-{PORT}=ann.1", "__Host-patchbay-person=ben.2"]
    keys = [f"Bearer {KEY}{number}" for number in (1, 2)]
    assert len({*(sender(cookie=one) for one in cookies), *(sender(authorization=one) for one in keys)}) == 4
