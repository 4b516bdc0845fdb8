"""A subscriber aims webhooks at machines that only the hub reaches, or at somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hubs import Hub
from tests.protocol.events.test_emitting import SOURCE, report
from tests.protocol.webhooks.receiver import HOST, Receiver, receiving
from tests.protocol.webhooks.test_webhooks import subscribe


@pytest.fixture
def receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving(tmp_path) as (one, authority):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        yield one


def test_a_host_at_a_private_address_is_not_contacted_unless_the_operator_allows_it(
    tmp_path: Path, receiver: Receiver
) -> None:
    """37.1"""
    hub = Hub(tmp_path, {"desk.py": SOURCE})
    try:
        refused = subscribe(hub, receiver.url)
        assert refused["code"] == -32027 and "--webhook-hosts" in refused["message"]
        assert receiver.requests == 0
    finally:
        hub.close()


def test_the_error_does_not_tell_whether_an_internal_name_exists(tmp_path: Path, receiver: Receiver) -> None:
    """Nothing is connected to for either, so that the time tells no more. An address is refused in the same words."""
    hub = Hub(tmp_path, {"desk.py": SOURCE})
    try:
        answers = set()
        for host in ("localhost", "no-such-name.invalid", "127.0.0.1", "[::1]", "10.0.0.1"):
            refused = subscribe(hub, receiver.url.replace(HOST, host))
            answers.add(repr(refused).replace(host.strip("[]"), "HOST"))
        assert len(answers) == 1 and "is not a public address" in answers.pop()
        assert receiver.requests == 0
    finally:
        hub.close()


def test_a_third_party_gets_one_challenge_and_no_event(tmp_path: Path, receiver: Receiver) -> None:
    """37.1"""
    receiver.echoes = False
    hub = Hub(tmp_path, {"desk.py": SOURCE}, webhook_hosts=(HOST,))
    try:
        assert subscribe(hub, receiver.url)["data"]["reason"] == "challenge_failed"
        for title in ("one", "two"):
            report(hub, title=title)
        assert receiver.requests == 1 and receiver.events == []
    finally:
        hub.close()


def test_a_stranger_of_an_open_hub_has_no_webhooks(tmp_path: Path, receiver: Receiver) -> None:
    """37.1"""
    hub = Hub(tmp_path, {"desk.py": SOURCE}, access="open", webhook_hosts=(HOST,))
    try:
        assert subscribe(hub, receiver.url)["code"] == -32024
        assert receiver.requests == 0
    finally:
        hub.close()
