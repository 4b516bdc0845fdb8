"""Webhooks of events: verified, signed, in order, tried again, and ended."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.access.principals import Principal
from patchbay.occurrences.sources import JournalSource
from patchbay.protocol.event_methods.webhooks import find_end, renew
from patchbay.protocol.webhooks.delivery import WebhookDelivery
from patchbay.protocol.webhooks.sending import Sender
from patchbay.protocol.webhooks.subscriptions import Webhook, Webhooks, subscription_id
from patchbay.topics import EVENT_SUBSCRIPTIONS, LEASES
from tests.access.members import TOKEN, accept_member_tokens
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.protocol.events.test_emitting import EVENT, SOURCE, ask, poll, report
from tests.protocol.webhooks.receiver import HOST, SECRET, Receiver
from tests.waiting import until

ISSUER = "https://issuer.example"


@pytest.fixture
def hub(tmp_path: Path, receiver: Receiver) -> Iterator[Hub]:
    one = Hub(tmp_path, {"desk.py": SOURCE}, webhook_hosts=(HOST,))
    yield one
    one.close()


def subscribe(hub: Hub, url: str, server: str = "desk", name: str = EVENT, secret: str = SECRET, **more: Any) -> Any:
    delivery = {"mode": "webhook", "url": url, "secret": secret}
    return ask(hub, "events/subscribe", {"name": name, "delivery": delivery, **more}, server)


def made_by(sender: Principal, until: float) -> Webhook:
    """A subscription with the rights of a sender."""
    scopes = None if sender.scopes is None else tuple(sender.scopes)
    fields: dict[str, Any] = {"subject": sender.subject, "issuer": sender.issuer, "title": sender.name}
    fields |= {"groups": tuple(sender.groups), "agent": sender.agent, "scopes": scopes, "until": until}
    fields |= {"id": "sub_1", "is_operator": sender.is_operator, "url": "https://hooks.example", "secret": SECRET}
    fields |= {"server": "desk", "own_name": EVENT, "name": EVENT, "arguments": {}, "schemas": "digest"}
    return Webhook(**fields, old_secret="", old_secret_until=0.0, not_before=None, generation=1)


def titles(receiver: Receiver) -> list[str]:
    return [one["data"]["title"] for one in receiver.events]


def test_a_verified_endpoint_gets_signed_events_in_order_with_cursors_that_can_be_polled(
    hub: Hub, receiver: Receiver
) -> None:
    """37.1"""
    made = subscribe(hub, receiver.url)
    assert made["id"].startswith("sub_") and made["refreshBefore"] and made["truncated"] is False
    wanted = [f"number {n}" for n in range(20)]
    for title in wanted:
        report(hub, title=title)
    until(lambda: titles(receiver) == wanted, "the deliveries")
    assert receiver.wrong_signatures == 0
    later = poll(hub, receiver.events[9]["cursor"])["events"]
    assert [one["data"]["title"] for one in later] == wanted[10:]


def test_a_failing_endpoint_gets_the_same_events_again_in_order(hub: Hub, receiver: Receiver) -> None:
    """37.1"""
    receiver.failures = 0.3
    subscribe(hub, receiver.url)
    wanted = [f"number {n}" for n in range(15)]
    for title in wanted:
        report(hub, title=title)
    until(lambda: list(dict.fromkeys(titles(receiver))) == wanted, "the deliveries")
    ids = {one["data"]["title"]: one["eventId"] for one in receiver.events}
    assert all(ids[one["data"]["title"]] == one["eventId"] for one in receiver.events)


def test_an_endpoint_that_does_not_echo_the_challenge_gets_nothing(hub: Hub, receiver: Receiver) -> None:
    receiver.echoes = False
    refused = subscribe(hub, receiver.url)
    assert refused["code"] == -32027 and refused["data"]["reason"] == "challenge_failed"
    report(hub, title="unseen")
    assert receiver.events == [] and receiver.requests == 1


@pytest.mark.parametrize(
    ("url", "secret", "reason"),
    [
        ("http://localhost/hook", SECRET, "https://"),
        ("https://user:word@localhost/hook", SECRET, "without a user"),
        ("https://localhost/hook#part", SECRET, "fragment"),
        ("https://localhost/hook", "whsec_short", "whsec_"),
        ("https://localhost/hook", "secret", "whsec_"),
        ("https://" + "a" * 3000, SECRET, "2048"),
    ],
)
def test_urls_and_secrets_of_another_form_are_refused(hub: Hub, url: str, secret: str, reason: str) -> None:
    refused = subscribe(hub, url, secret=secret)
    assert refused["code"] == -32602 and reason in refused["message"]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0"])
def test_an_address_that_is_not_public_is_never_contacted(hub: Hub, host: str) -> None:
    refused = subscribe(hub, f"https://{host}/hook")
    assert refused["code"] == -32027 and "not a public address" in refused["message"]


def test_a_refresh_is_the_same_subscription_and_may_change_the_secret(hub: Hub, receiver: Receiver) -> None:
    first = subscribe(hub, receiver.url)
    fresh = "whsec_" + base64.b64encode(b"t" * 32).decode()
    again = subscribe(hub, receiver.url, secret=fresh, ttlMs=60_000)
    assert again["id"] == first["id"] and again["deliveryStatus"]["active"] is True
    receiver.secrets = [fresh]
    report(hub, title="new secret")
    until(lambda: titles(receiver) == ["new secret"], "the delivery")
    assert receiver.challenges == 1  # a refresh asks for no further one


def test_a_refresh_gives_the_subscription_the_rights_of_its_sender_now() -> None:
    """A person who left a group kept it in the subscription."""
    before = Principal("ann", ISSUER, "Ann", frozenset({"admins"}), "old-client", None, True)
    now = Principal("ann", ISSUER, "Ann B.", frozenset({"guests"}), "new-client", frozenset({"call:desk"}))
    first = made_by(before, until=100.0)
    again = renew(first, made_by(now, until=200.0), 50.0)
    assert again.principal == now and again.until == 200.0
    assert again.id == first.id and again.generation == first.generation


@pytest.mark.parametrize("params", [{"ttlMs": None}, {"ttlMs": 7 * 24 * 3600_000}, {"ttlMs": 3600_000}, {}])
def test_a_subscription_of_a_person_of_an_outside_issuer_ends_after_an_hour(params: dict[str, Any]) -> None:
    assert find_end(params, Principal("ann", ISSUER), 1000.0) == 1000.0 + 3600
    assert find_end({"ttlMs": None}, Principal("ann"), 1000.0) is None
    assert find_end({"ttlMs": 60_000}, Principal("ann", ISSUER), 1000.0) == 1060.0


def test_an_ended_subscription_gets_nothing_more(hub: Hub, receiver: Receiver) -> None:
    subscribe(hub, receiver.url)
    report(hub, title="first")
    until(lambda: titles(receiver) == ["first"], "the delivery")
    params = {"name": EVENT, "delivery": {"url": receiver.url}}
    assert ask(hub, "events/unsubscribe", params)["resultType"] == "complete"
    report(hub, title="second")
    assert ask(hub, "events/unsubscribe", params)["data"] == {"kind": "subscription"}
    assert titles(receiver) == ["first"]


def test_a_removed_event_type_ends_the_subscription_with_a_signed_message(hub: Hub, receiver: Receiver) -> None:
    subscribe(hub, receiver.url)
    (hub.servers / "desk.py").write_text(SOURCE.replace('"incident.opened": Incident', '"incident.other": Incident'))
    until(lambda: bool(receiver.controls), "the end")
    assert receiver.controls[0]["type"] == "terminated" and receiver.controls[0]["error"]["code"] == -32023


def test_refused_for_good_skips_one_event_only(hub: Hub, receiver: Receiver) -> None:
    subscribe(hub, receiver.url)
    receiver.status = 410
    report(hub, title="stale")
    until(lambda: receiver.requests == 2, "the refusal")
    receiver.status = 200
    report(hub, title="fresh")
    until(lambda: titles(receiver) == ["fresh"], "the next event")


def test_events_of_the_joined_endpoint_have_their_name_there(hub: Hub, receiver: Receiver) -> None:
    name = f"desk__{EVENT}"
    subscribe(hub, receiver.url, "", name)
    report(hub, title="joined")
    until(lambda: [one["name"] for one in receiver.events] == [name], "the delivery")


def test_a_hub_without_webhooks_takes_no_lease_and_the_first_webhook_takes_it(hub: Hub, receiver: Receiver) -> None:
    """37.1: an idle hub writes nothing."""
    store = hub.catalogue.store
    webhooks = Webhooks(store, b"0" * 32)
    unused = WebhookDelivery(webhooks, Sender(()), lambda webhook: None, lambda webhook: JournalSource(store, "", ""))
    assert not unused._look(True)
    assert store.journal.tail(f"{LEASES}webhooks", 1) == []
    subscribe(hub, receiver.url)
    until(lambda: store.journal.tail(f"{LEASES}webhooks", 1), "a process delivers")


def test_a_renewed_webhook_has_the_rights_of_the_credentials_that_renew_it(tmp_path: Path, receiver: Receiver) -> None:
    hub = team_hub(tmp_path, {"desk.py": SOURCE}, webhook_hosts=(HOST,))
    scheme = accept_member_tokens(hub)
    hub.client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    try:
        scheme.who = Principal("ann", groups=frozenset({"research"}))
        id = subscribe(hub, receiver.url)["id"]
        scheme.who = Principal("ann", scopes=frozenset({"see:desk", "read:desk"}))
        assert subscribe(hub, receiver.url)["id"] == id
        webhook: Any = hub.app.parts.dispatcher.services.webhooks.find(id)
        assert webhook.principal == scheme.who
    finally:
        hub.close()


def test_the_id_of_a_subscription_with_an_integer_beyond_64_bits_is_made() -> None:
    """Issue 50, item 11."""
    ids = [
        subscription_id(Principal("ann"), "", EVENT, {"count": 2**70 + more}, "https://a.example/")
        for more in (0, 1, 0)
    ]
    assert ids[0] == ids[2] != ids[1]


def test_a_redirect_of_an_endpoint_is_not_followed_and_its_answer_is_not_passed_on(
    hub: Hub, receiver: Receiver
) -> None:
    """49.4: status 307 would repeat the delivery at the other address."""
    id = subscribe(hub, receiver.url)["id"]
    receiver.status, receiver.location, receiver.answer = 307, "/elsewhere", b"words of the endpoint"
    report(hub, title="redirected")
    webhooks: Any = hub.app.parts.dispatcher.services.webhooks
    until(lambda: webhooks.progress(id)[0].last_error, "the failure is noted")
    assert set(receiver.paths) == {"/hook"}
    again = subscribe(hub, receiver.url)
    assert again["deliveryStatus"]["lastError"] == "http_4xx"
    assert "words of the endpoint" not in str(again)


def test_the_secret_of_a_subscriber_is_stored_sealed_with_the_key_of_the_hub(hub: Hub, receiver: Receiver) -> None:
    """49.4"""
    id = subscribe(hub, receiver.url)["id"]
    store = hub.catalogue.store
    [entry] = store.journal.tail(f"{EVENT_SUBSCRIPTIONS}{id}", 10)
    assert SECRET.removeprefix("whsec_").encode() not in entry.data and receiver.url.encode() not in entry.data
    found: Any = hub.app.parts.dispatcher.services.webhooks.find(id)
    assert found.secret == SECRET
    assert Webhooks(store, b"0" * 32).find(id) is None


def test_a_webhook_ends_when_the_grants_deny_its_principal_the_server(tmp_path: Path, receiver: Receiver) -> None:
    """49.4: each delivery asks for the rights of the subscriber anew."""
    hub = team_hub(tmp_path, {"desk.py": SOURCE}, webhook_hosts=(HOST,))
    try:
        hub.client.environ_base["HTTP_AUTHORIZATION"] = new_key(hub, "ann")["Authorization"]
        subscribe(hub, receiver.url)
        hub.client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {hub.token}"
        report(hub, title="before")
        until(lambda: titles(receiver) == ["before"], "the delivery")
        set_grants(hub, {"grants": [{"to": ["key:ann"], "may": ["call"], "on": ["date"]}]})
        report(hub, title="after")
        until(lambda: bool(receiver.controls), "the end")
        assert receiver.controls[0]["type"] == "terminated" and titles(receiver) == ["before"]
    finally:
        hub.close()
