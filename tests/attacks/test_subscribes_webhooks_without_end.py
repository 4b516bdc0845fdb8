"""One key subscribes webhooks without end: each would be a record, and a delivery for each event.

Source: CWE-770 (allocation of resources without limits).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.protocol.event_methods import webhooks
from patchbay.topics import EVENT_SUBSCRIPTION_IDS
from tests.attacks.leftovers import attacker, left, shared_hub, two_nodes
from tests.databases import PostgresqlServer
from tests.hubs import Hub, modern_request
from tests.protocol.events.test_emitting import EVENT, SOURCE
from tests.protocol.webhooks.receiver import HOST, SECRET, Receiver, receiving

MOST = 100
"""The webhooks of one caller."""

FEW = 7
"""A smaller limit, for two nodes."""

ATTEMPTS = 110
FILES = {"desk.py": SOURCE}


@pytest.fixture
def receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving(tmp_path) as (one, authority):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        yield one


def ask(hub: Hub, headers: dict[str, str], method: str, url: str) -> Any:
    """Send a request about the webhook of a URL; return the result, or the error."""
    params = {"name": EVENT, "delivery": {"mode": "webhook", "url": url, "secret": SECRET}}
    last = hub.send("desk", *modern_request(method, params, headers=headers)).last
    return last.get("result", last.get("error"))


def subscribed(hub: Hub, headers: dict[str, str], receiver: Receiver, number: int, limit: int = MOST) -> bool:
    """Subscribe a URL of its own; return whether that is accepted."""
    found = ask(hub, headers, "events/subscribe", f"{receiver.url}?{number}")
    assert "id" in found or f"this principal has {limit} subscriptions; end one first" in found["message"], found
    return "id" in found


def test_a_key_has_a_limited_number_of_webhooks(tmp_path: Path, receiver: Receiver) -> None:
    """48.4: of 110 webhooks of one key, 100 are accepted; another key has its own."""
    hub = shared_hub(tmp_path, FILES, webhook_hosts=(HOST,))
    headers, other = attacker(hub), attacker(hub, "other")
    accepted = [subscribed(hub, headers, receiver, number) for number in range(ATTEMPTS)]
    assert accepted == [True] * MOST + [False] * (ATTEMPTS - MOST)
    assert left(hub.catalogue.store, EVENT_SUBSCRIPTION_IDS).entries == MOST
    assert receiver.requests == MOST  # a refused one is not verified
    assert subscribed(hub, other, receiver, 0)
    assert "code" not in ask(hub, headers, "events/unsubscribe", f"{receiver.url}?0")
    assert subscribed(hub, headers, receiver, ATTEMPTS)
    hub.close()


def test_two_nodes_count_the_webhooks_of_one_key_together(
    tmp_path: Path, receiver: Receiver, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """48.4: the limit, a smaller one here, holds for both nodes together."""
    monkeypatch.setattr(webhooks, "MAX_OF_PRINCIPAL", FEW)
    with two_nodes(tmp_path, postgresql.new_schema(), files=FILES, webhook_hosts=(HOST,)) as hubs:
        headers = attacker(hubs[0])
        accepted = [subscribed(hubs[number % 2], headers, receiver, number, FEW) for number in range(FEW + 3)]
        assert accepted == [True] * FEW + [False] * 3
