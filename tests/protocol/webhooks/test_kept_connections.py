"""Connections to endpoints of webhooks are kept between two events, for their own host, and for a bounded time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import orjson
import pytest

from patchbay.errors import CallbackFailed
from patchbay.protocol.webhooks import kept_connections, sending
from patchbay.protocol.webhooks.kept_connections import MAX_DESTINATIONS, KeptConnections
from patchbay.protocol.webhooks.sending import Sender
from tests.hubs import Hub
from tests.protocol.events.test_emitting import SOURCE, report
from tests.protocol.webhooks.receiver import HOST, SECRET, Receiver
from tests.protocol.webhooks.test_webhooks import subscribe, titles
from tests.waiting import until

ADDRESS = "127.0.0.1"


@pytest.fixture
def sender() -> Iterator[Sender]:
    one = Sender((HOST, ADDRESS))
    yield one
    one.close()


def send(sender: Sender, url: str, id: str) -> int:
    return sender.post(url, "sub_1", id, [SECRET], orjson.dumps({"eventId": id}), 1.0)


def cut_is(receiver: Receiver, number: int) -> bool:
    return receiver.cut == number


def closed_is(receiver: Receiver, number: int) -> bool:
    return receiver.closed == number


def received(receiver: Receiver) -> list[str]:
    return [event["eventId"] for event in receiver.events]


def test_events_of_a_quiet_subscription_come_by_one_connection(tmp_path: Path, receiver: Receiver) -> None:
    """Each event was a new connection with a new TLS handshake."""
    hub = Hub(tmp_path, {"desk.py": SOURCE}, webhook_hosts=(HOST,))
    try:
        subscribe(hub, receiver.url)
        wanted = []
        for title in ("first", "second", "third"):
            report(hub, title=title)
            wanted.append(title)
            until(lambda: titles(receiver) == wanted, "the delivery")
        assert receiver.connections == 2  # the challenge, and the three events
    finally:
        hub.close()


def test_a_connection_that_the_endpoint_closed_is_opened_anew(sender: Sender, receiver: Receiver) -> None:
    receiver.closes = True
    for number, id in enumerate(("a", "b", "c"), 1):
        assert send(sender, receiver.url, id) == 200
        until(partial(closed_is, receiver, number), "the end of the connection")
    assert received(receiver) == ["a", "b", "c"] and receiver.connections == 3


def test_a_kept_connection_that_ends_without_an_answer_loses_no_event(sender: Sender, receiver: Receiver) -> None:
    """An endpoint may close its connection while the next event is on its way."""
    assert send(sender, receiver.url, "a") == 200
    receiver.drops_used = True
    assert send(sender, receiver.url, "b") == 200
    assert received(receiver) == ["a", "b"] and receiver.dropped == 1


def test_an_endpoint_gets_no_cookie_of_another_of_its_host(sender: Sender, receiver: Receiver) -> None:
    """One client serves all subscriptions of a host, also those of different principals."""
    receiver.cookie = "session=mallory; Path=/"
    assert send(sender, receiver.url, "a") == send(sender, receiver.url, "b") == 200
    assert receiver.cookies == [None, None]


def test_an_answer_that_breaks_off_after_its_status_is_no_failure(sender: Sender, receiver: Receiver) -> None:
    """A failure sends the event again, though the endpoint has accepted it."""
    receiver.breaks = True
    assert send(sender, receiver.url, "a") == 200
    assert received(receiver) == ["a"]


def test_an_answer_that_comes_byte_by_byte_is_not_awaited(
    sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes within the limit for one read; eight such answers would hold all senders."""
    receiver.drips = True
    monkeypatch.setattr(sending, "ANSWER_SECONDS", 0.5)
    assert send(sender, receiver.url, "a") == 200
    until(lambda: receiver.cut == 1, "the end of the connection")


def test_a_head_that_comes_byte_by_byte_is_not_awaited(
    sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes within the limit for one read. The endpoint fails, by a new connection and by a kept one."""
    assert send(sender, receiver.url, "a") == 200
    receiver.drips_head = True
    monkeypatch.setattr(sending, "REQUEST_SECONDS", 0.5)
    for cut in (1, 2):
        with pytest.raises(CallbackFailed) as caught:
            send(sender, receiver.url, "b")
        assert caught.value.reason == "timeout"
        until(partial(cut_is, receiver, cut), "the end of the connection")


def test_the_head_of_a_chunk_that_comes_byte_by_byte_is_not_awaited(
    sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of the body comes, so the client reads on by itself."""
    receiver.drips_chunk = True
    monkeypatch.setattr(sending, "ANSWER_SECONDS", 0.5)
    assert send(sender, receiver.url, "a") == 200
    until(lambda: receiver.cut == 1, "the end of the connection")


def test_a_new_connection_that_ends_without_an_answer_is_a_failure_of_the_endpoint(
    sender: Sender, receiver: Receiver
) -> None:
    """The endpoint may have taken the event, so only the plan of deliveries sends it again."""
    receiver.drops_new = True
    with pytest.raises(CallbackFailed) as caught:
        send(sender, receiver.url, "a")
    assert caught.value.reason == "connection_refused" and receiver.dropped == 1


def test_a_connection_is_not_used_for_another_host_at_the_same_address(sender: Sender, receiver: Receiver) -> None:
    """The certificate of localhost does not hold for 127.0.0.1."""
    assert send(sender, receiver.url, "a") == 200
    with pytest.raises(CallbackFailed) as caught:
        send(sender, receiver.url.replace(HOST, ADDRESS), "b")
    assert caught.value.reason == "tls_error" and received(receiver) == ["a"]


def test_a_connection_that_nothing_uses_is_closed(
    sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(sender, receiver.url, "a")
    sender.close_unused()
    send(sender, receiver.url, "b")
    assert receiver.connections == 1
    monkeypatch.setattr(kept_connections, "KEPT_SECONDS", 0.0)
    sender.close_unused()
    until(lambda: receiver.closed == 1, "the end of the connection")


def test_connections_to_many_destinations_are_bounded_and_those_in_use_stay(sender: Sender) -> None:
    kept = KeptConnections(sender._open_client)
    with kept.use("busy.example", 443) as busy:
        first = [kept.use(f"{number}.example", 443) for number in range(MAX_DESTINATIONS + 5)]
        clients = []
        for one in first:
            with one as destination:
                clients.append(destination.client)
        assert not busy.client.is_closed
        assert [client.is_closed for client in clients] == [True] * 6 + [False] * (MAX_DESTINATIONS - 1)
    kept.close()
    assert all(client.is_closed for client in (busy.client, *clients))
