"""A principal of a shared hub appears as many senders, so that its flood gets the turns of many.

Source: RFC 970 (fair queueing: a source that uses many names gets the share of many).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.wire.front.fair_queue import find_sender
from patchbay.wire.requests.request import Body
from patchbay.wire.requests.rsgi import RsgiRequests
from tests.wire.front.sent_headers import Pairs, SentHeaders, SentScope

PORT = 8000
KEY = "patchbay_key_abc"
PERSON = f"patchbay-person-{PORT}=ann.secret"


def sender(client: str = "192.0.2.1:5000", **headers: str) -> str:
    """The sender of a request with these headers."""
    scope: Any = SimpleNamespace(client=client)
    return find_sender(scope, SentHeaders(list(headers.items())), PORT)


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
        return find_sender(scope, SentHeaders([("x-forwarded-for", text)]), PORT, proxies)

    assert {forwarded(f"198.51.100.{number}, 203.0.113.1") for number in range(9)} == {"203.0.113.1"}
    assert forwarded("203.0.113.2") == "203.0.113.2"


def test_a_header_of_several_lines_makes_one_sender() -> None:
    """The web server gives the first line to `get`: a client writes it, and the proxy adds a line of its own."""
    proxies = TrustedProxies(("192.0.2.1",))

    def sender_of(*lines: tuple[str, str]) -> str:
        pairs: Pairs = list(lines)
        scope: Any = SentScope(pairs, "/mcp", client="192.0.2.1:5000")
        request = RsgiRequests(proxies, "", None).make(scope, scope.headers, Body())
        found = find_sender(scope, scope.headers, PORT, proxies)
        assert "patchbay-person" in request.headers.get("cookie", "") or found == request.address
        return found

    name, proxy = "x-forwarded-for", ("x-forwarded-for", "203.0.113.1")
    assert {sender_of((name, f"198.51.100.{number}"), proxy) for number in range(9)} == {"203.0.113.1"}
    keys = [[("authorization", f"Bearer {number}"), ("authorization", f"Bearer {KEY}")] for number in range(9)]
    assert {sender_of(*lines, proxy) for lines in keys} == {"203.0.113.1"}
    assert sender_of(("cookie", "x=1"), ("cookie", PERSON), proxy) == sender(cookie=PERSON)


def test_two_sessions_and_two_keys_are_four_senders() -> None:
    cookies = [f"patchbay-person-{PORT}=ann.1", "__Host-patchbay-person=ben.2"]
    keys = [f"Bearer {KEY}{number}" for number in (1, 2)]
    assert len({*(sender(cookie=one) for one in cookies), *(sender(authorization=one) for one in keys)}) == 4
