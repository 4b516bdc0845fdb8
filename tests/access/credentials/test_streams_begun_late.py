"""A stream that begins after the notice that its credentials ended: a worker may accept a token a moment longer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.access.credentials.names import name_token
from patchbay.access.principals import Principal
from patchbay.activity.records import Filter
from patchbay.events import Wait
from patchbay.jsonrpc import Message, Request, Sign
from patchbay.messages.callers import TransportInfo
from patchbay.web.activity.stream import stream_activity
from tests.access.members import META
from tests.access.team import team_hub
from tests.hubs import Hub
from tests.protocol.events.test_emitting import EVENT, SOURCE
from tests.waiting import BOUND, until


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = team_hub(tmp_path, {"desk.py": SOURCE}, keepalive=600)
    yield found
    found.close()


@pytest.fixture
def revoked(hub: Hub) -> Principal:
    """A principal whose key was revoked, which this process knows."""
    keys, validity = hub.app.parts.keys, hub.app.parts.dispatcher.services.access.validity
    assert validity is not None
    sender = keys.find_principal(keys.make("eve"))
    assert isinstance(sender, Principal)
    keys.revoke("eve")
    until(lambda: not validity.is_good(sender), "the end")
    return sender


def read_to_the_first_wait(hub: Hub, sender: Principal, method: str, params: dict[str, object]) -> list[Message | Sign]:
    wire = TransportInfo("desk", sender=sender, connection="one", waits=True)
    steps: Any = hub.app.parts.dispatcher.exchange(wire)(Request(1, method, {**params, "_meta": META}))
    found: list[Message | Sign] = []
    for step in steps:
        found.append(step)
        if isinstance(step, Wait):
            break
    steps.close()
    return found


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("events/stream", {"name": EVENT}),
        ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ],
)
def test_a_stream_of_ended_credentials_ends_at_once(
    hub: Hub, revoked: Principal, method: str, params: dict[str, object]
) -> None:
    good = Principal("key:ann", credential=_credential_of(hub, "ann"))
    assert isinstance(read_to_the_first_wait(hub, good, method, params)[-1], Wait)
    assert not any(isinstance(step, Wait) for step in read_to_the_first_wait(hub, revoked, method, params))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("events/stream", {"name": EVENT}),
        ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ],
)
def test_a_stream_ends_when_the_token_of_an_outside_issuer_expires(
    hub: Hub, method: str, params: dict[str, object]
) -> None:
    """The hub sends keepalives so rarely that the end alone can wake the stream."""
    sender = Principal("ann", "https://id.example", credential=name_token(hub.catalogue.store.now() + 2))
    wire = TransportInfo("desk", sender=sender, connection="one")
    steps: Any = hub.app.parts.dispatcher.exchange(wire)(Request(1, method, {**params, "_meta": META}))
    found: list[Message | Sign] = []
    reader = threading.Thread(target=lambda: found.extend(steps), daemon=True)
    reader.start()
    reader.join(BOUND)
    assert not reader.is_alive() and found
    assert not any(isinstance(step, Wait) for step in read_to_the_first_wait(hub, sender, method, params))


def test_a_stream_of_a_page_ends_at_once(hub: Hub, revoked: Principal) -> None:
    access = hub.app.parts.dispatcher.services.access
    frames = stream_activity(
        hub.catalogue.store, hub.settings, Filter(), lambda: [], lambda: bool(access.is_current(revoked))
    )
    assert len(list(frames)) == 1


def _credential_of(hub: Hub, name: str) -> str:
    keys = hub.app.parts.keys
    found = keys.find_principal(keys.make(name))
    assert found is not None
    return found.credential
