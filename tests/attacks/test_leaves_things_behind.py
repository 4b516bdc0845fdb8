"""One key leaves things in the store, each within its rights: answers for replay, subscriptions, sessions, tasks.

What is left is counted in the store itself, entry by entry.
Source: CWE-770 (allocation of resources without limits).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from patchbay.protocol.streams.call_names import CALL_KEY
from patchbay.topics import CALLS, CHANNELS, SESSIONS, STREAMS
from tests.attacks.leftovers import attacker, left, settled, shared_hub, two_nodes
from tests.databases import PostgresqlServer
from tests.hubs import BOTH, Hub, modern_request

MOST_BYTES = 1_000_000
ANSWER_BYTES = 100_000
ATTEMPTS = 30
CHANGES = 20


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = shared_hub(tmp_path, result_size=MOST_BYTES, session_changes=CHANGES, call_ids=ATTEMPTS)
    yield hub
    hub.close()


def open_session(hub: Hub, headers: dict[str, str], server: str = "large") -> dict[str, str]:
    """Return the headers of a new session."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "attack", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    return headers | {"Mcp-Session-Id": hub.send(server, message, headers).headers["Mcp-Session-Id"]}


def call_in_session(hub: Hub, session: dict[str, str], number: int) -> str:
    """Call the tool by a stream, which is kept for replay; return its text."""
    arguments = {"size": ANSWER_BYTES, "mark": f"{number},"}
    params = {"name": "large", "arguments": arguments, "_meta": {"progressToken": number}}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    answer = hub.send("large", message, session)
    assert answer.streamed
    return answer.text


def call_with_id(hub: Hub, headers: dict[str, str], number: int, id: str = "") -> str:
    """Call the tool so that the call survives its connection; return its text."""
    params = {"name": "large", "arguments": {"size": ANSWER_BYTES, "mark": f"{number},"}}
    sent = modern_request("tools/call", params, meta={CALL_KEY: id or str(uuid4())}, headers=headers)
    answer = hub.send("large", *sent)
    return answer.text if "result" in answer.last else str(answer.error["message"])


def test_answers_that_are_kept_for_replay_have_a_limit_together(hub: Hub) -> None:
    """48.4: 30 answers of 100 kB, in two kinds of calls and many sessions, leave 1 MB."""
    headers = attacker(hub)
    for number in range(ATTEMPTS):
        assert len(call_in_session(hub, open_session(hub, headers), number)) == ANSWER_BYTES
        assert len(call_with_id(hub, headers, number)) == ANSWER_BYTES
    settled()
    kept = left(hub.catalogue.store, STREAMS, CALLS)
    assert MOST_BYTES * 3 / 4 < kept.bytes <= MOST_BYTES + ATTEMPTS * 200  # beside the answers, what opens a call


def test_an_answer_that_gave_way_is_not_made_again(hub: Hub) -> None:
    headers, first = attacker(hub), str(uuid4())
    assert len(call_with_id(hub, headers, 0, first)) == ANSWER_BYTES
    for number in range(1, ATTEMPTS):
        call_with_id(hub, headers, number)
    assert "its result is no longer kept" in call_with_id(hub, headers, 0, first)


def test_the_hub_remembers_a_limited_number_of_calls_of_one_key(hub: Hub) -> None:
    headers, other = attacker(hub), attacker(hub, "other")
    for number in range(ATTEMPTS):
        call_with_id(hub, headers, number)
    settled()
    entries = left(hub.catalogue.store, CALLS).entries
    for number in range(5):
        assert f"each caller may have {ATTEMPTS} calls with an id" in call_with_id(hub, headers, number)
    assert left(hub.catalogue.store, CALLS).entries == entries
    assert len(call_with_id(hub, other, 1)) == ANSWER_BYTES


def test_answers_of_one_key_do_not_replace_those_of_another(hub: Hub) -> None:
    headers, other, id = attacker(hub), attacker(hub, "other"), str(uuid4())
    text = call_with_id(hub, other, 7, id)
    for number in range(ATTEMPTS):
        call_with_id(hub, headers, number)
    assert call_with_id(hub, other, 7, id) == text


def subscribe(hub: Hub, session: dict[str, str], uri: str, method: str = "subscribe") -> str:
    """Subscribe to a URI; return the error, "" for none."""
    message = {"jsonrpc": "2.0", "id": 1, "method": f"resources/{method}", "params": {"uri": uri}}
    last = hub.send("", message, session).last
    return str(last["error"]["message"]) if "error" in last else ""


def test_subscriptions_in_many_sessions_have_a_limit_together(hub: Hub) -> None:
    """48.4: a key that may do nothing subscribes to what is not there, in one session after another."""
    headers = attacker(hub)
    refusals = []
    for number in range(3 * CHANGES):
        session = open_session(hub, headers, "")
        refusals.append(subscribe(hub, session, f"x://{number}"))
    assert refusals[:CHANGES] == [""] * CHANGES
    assert all(f"each caller may have {CHANGES} subscriptions" in one for one in refusals[CHANGES:])
    assert left(hub.catalogue.store, SESSIONS).entries == CHANGES
    assert subscribe(hub, open_session(hub, attacker(hub, "other"), ""), "x://1") == ""


def test_long_uris_are_counted_in_bytes(tmp_path: Path) -> None:
    hub = shared_hub(tmp_path, subscription_size=64 * 1024)
    session = open_session(hub, attacker(hub), "")
    refusals = [subscribe(hub, session, "x://" + "\N{SNOWMAN}" * 8000 + str(number)) for number in range(6)]
    assert refusals[:2] == ["", ""] and all("of 65536 bytes" in one for one in refusals[2:])
    assert left(hub.catalogue.store, SESSIONS).bytes <= 64 * 1024
    assert sum(len(uri.encode()) for uri in held_uris(hub)) <= 64 * 1024
    hub.close()


def held_uris(hub: Hub) -> list[str]:
    """The subscribed URIs in the memory of a hub."""
    known = hub.app.parts.dispatcher.services.sessions._at_hand.values()
    return [uri for one in known for uri in one.session.subscribed]


def test_a_change_of_a_session_without_effect_leaves_nothing(hub: Hub) -> None:
    session = open_session(hub, attacker(hub), "")
    level = {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "debug"}}
    for _ in range(3 * CHANGES):
        assert subscribe(hub, session, "x://same") == ""
        assert subscribe(hub, session, "x://other", "unsubscribe") == ""
        assert hub.send("", level, session).result == {}
    assert left(hub.catalogue.store, SESSIONS).entries == 2


def test_ended_sessions_have_a_limit(hub: Hub) -> None:
    headers = attacker(hub)
    for number in range(3 * CHANGES):
        session = open_session(hub, headers)
        assert hub.client.delete("/mcp/large", headers=session).status_code == 204
        assert hub.client.delete("/mcp/large", headers=session).status_code == 404, number
    assert left(hub.catalogue.store, SESSIONS).entries == CHANGES


def test_an_end_takes_the_place_of_earlier_changes_of_its_session(hub: Hub) -> None:
    headers = attacker(hub)
    session = open_session(hub, headers)
    for number in range(CHANGES):
        message = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": f"x://{number}"}}
        assert hub.send("large", message, session).result == {}
    assert hub.client.delete("/mcp/large", headers=session).status_code == 204
    assert left(hub.catalogue.store, SESSIONS).entries == 1


def test_streams_of_2024_11_05_that_are_opened_and_closed_have_a_limit(hub: Hub) -> None:
    headers = attacker(hub) | {"Accept": BOTH}
    statuses = []
    for _ in range(2 * CHANGES):
        with hub.client.get("/mcp/large/sse", headers=headers, buffered=False) as response:
            statuses.append(response.status_code)
    assert statuses == [200] * CHANGES + [429] * CHANGES
    assert left(hub.catalogue.store, CHANNELS).entries <= 2 * CHANGES


def test_two_nodes_count_one_key_together(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    """48.4: the limits hold for both nodes together, not for each of them."""
    settings = {"result_size": MOST_BYTES, "session_changes": CHANGES, "call_ids": ATTEMPTS}
    with two_nodes(tmp_path, postgresql.new_schema(), **settings) as hubs:
        headers = attacker(hubs[0])
        refusals = []
        for number in range(2 * CHANGES):
            hub = hubs[number % 2]
            refusals.append(subscribe(hub, open_session(hub, headers, ""), f"x://{number}"))
            assert len(call_in_session(hub, open_session(hub, headers), number)) == ANSWER_BYTES
        assert refusals[:CHANGES] == [""] * CHANGES and all(refusals[CHANGES:])
        store = hubs[0].catalogue.store
        settled()
        assert left(store, SESSIONS).entries == CHANGES
        assert left(store, STREAMS).bytes <= MOST_BYTES + 2 * CHANGES * 200
        texts = [call_with_id(hubs[number % 2], headers, number) for number in range(ATTEMPTS + 5)]
        assert all("each caller may have" in text for text in texts[ATTEMPTS:])
        assert all(len(text) == ANSWER_BYTES for text in texts[:ATTEMPTS])
