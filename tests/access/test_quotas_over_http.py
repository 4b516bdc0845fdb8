"""Quotas over every way into a hub: what a caller gets whose quota is used up (ACCESS 6; issue 16 item 5)."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access.call_rates import CALLS_AT_ONCE
from tests.access.team import FILES, INLINE, new_key, set_grants
from tests.hubs import Answer, Hub, modern_request
from tests.protocol.events.test_emitting import EVENT, SOURCE
from tests.waiting import BOUND, until

EVERYTHING = [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]

GATE = '''"""A tool that waits."""

import time
from pathlib import Path


def hold(begun: str, end: str) -> str:
    """Make the file `begun`, then wait for the file `end`."""
    Path(begun).touch()
    while not Path(end).exists():
        time.sleep(0.01)
    return "held"
'''


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = FILES | {"gate.py": GATE, "gate.mcp.json": INLINE}
    hub = Hub(tmp_path_factory.mktemp("quotas"), files, access="shared", isolation="inline")
    yield hub
    hub.close()


def call(hub: Hub, headers: dict[str, str], tool: str = "search", **params: Any) -> Answer:
    return hub.send("notes", *modern_request("tools/call", {"name": tool, "arguments": {}, **params}, headers=headers))


def limit(hub: Hub, *rows: dict[str, Any]) -> None:
    set_grants(hub, {"grants": EVERYTHING, "quotas": list(rows)})


def test_a_call_begins_after_its_delay(hub: Hub) -> None:
    """The delay of a call is part of its duration: a burst of calls takes as long as its pace says."""
    key = new_key(hub, "paced")
    limit(hub, {"to": ["key:paced"], "calls_per_minute": 600})
    begun = time.monotonic()
    for _ in range(CALLS_AT_ONCE + 3):
        assert call(hub, key).text == "found x"
    assert time.monotonic() - begun >= 0.3 - 0.02


def test_mcp_answers_a_refused_tool_call_with_a_result_and_all_else_with_429(hub: Hub) -> None:
    key, other = new_key(hub, "mcp"), new_key(hub, "mcp-other")
    limit(hub, {"to": ["key:mcp"], "calls_per_minute": 2})
    assert call(hub, key).text == "found x"
    assert hub.client.get("/notes/search", headers=key | {"Host": "localhost"}).status_code == 405
    assert call(hub, key).text == "found x"
    for _ in range(2):
        refused = call(hub, key)
        assert refused.status == 200 and refused.result["isError"]
        assert re.search(r"each caller may have 2 calls in a minute; try again in \d+ seconds", refused.text)
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
    read = hub.send("notes", *modern_request("resources/read", {"uri": "notes://plan"}, headers=key))
    assert read.status == 429 and "too many calls" in read.error["message"]
    assert 1 <= int(read.headers["Retry-After"]) <= 60
    assert call(hub, other).text == "found x"


def test_a_refused_call_with_a_progress_token_is_answered_without_a_stream(hub: Hub) -> None:
    key = new_key(hub, "progress")
    limit(hub, {"to": ["key:progress"], "calls_per_minute": 1})
    message, headers = modern_request("tools/call", {"name": "search", "arguments": {}}, meta={"progressToken": 1})
    assert hub.send("notes", message, headers | key).streamed
    refused = hub.send("notes", message, headers | key)
    assert not refused.streamed and refused.result["isError"] and "Retry-After" in refused.headers


def test_an_older_client_gets_the_same_result(hub: Hub) -> None:
    key = new_key(hub, "older")
    limit(hub, {"to": ["key:older"], "calls_per_minute": 1})
    hub.client.environ_base["HTTP_AUTHORIZATION"] = key["Authorization"]
    try:
        assert hub.call("notes", "search").text == "found x"
        refused = hub.call("notes", "search")
        assert refused.status == 200 and refused.result["isError"] and "Retry-After" in refused.headers
        read = hub.legacy("notes", "resources/read", {"uri": "notes://plan"})
        assert "too many calls" in read.error["message"] and "Retry-After" in read.headers
    finally:
        del hub.client.environ_base["HTTP_AUTHORIZATION"]


def test_native_and_plain_http_answer_429(hub: Hub) -> None:
    key = new_key(hub, "native") | {"Host": "localhost"}
    limit(hub, {"to": ["key:native"], "calls_per_minute": 2})
    asked = {"jsonrpc": "2.0", "id": 1, "method": "notes.search", "params": {}}
    assert hub.client.post("/rpc", json=asked, headers=key).status_code == 200
    assert hub.client.post("/notes/search", json={}, headers=key).status_code == 200
    for accept in ("application/json", "text/event-stream", "application/x-ndjson"):
        refused = hub.client.post("/rpc", json=asked, headers=key | {"Accept": accept})
        assert refused.status_code == 429 and "too many calls" in orjson.loads(refused.data)["error"]["message"]
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
    plain = hub.client.post("/notes/search", json={}, headers=key)
    assert plain.status_code == 429 and "too many calls" in plain.text
    assert 1 <= int(plain.headers["Retry-After"]) <= 60


def test_a_running_call_counts_to_its_end(hub: Hub, tmp_path: Path) -> None:
    key = new_key(hub, "running")
    limit(hub, {"to": ["key:running"], "calls_in_flight": 1})
    paths = {"begun": str(tmp_path / "begun"), "end": str(tmp_path / "end")}
    message, headers = modern_request("tools/call", {"name": "hold", "arguments": paths}, headers=key)
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(hub.send("gate", message, headers)))
    thread.start()
    until((tmp_path / "begun").exists)
    assert "at the same time" in call(hub, key).text
    (tmp_path / "end").touch()
    thread.join(BOUND)
    assert answers[0].text == "held"
    assert call(hub, key).text == "found x"
    assert call(hub, key, "relay").text.find("at the same time") == -1, "a tool may call a tool in its caller's place"


def test_a_wrong_call_counts_nothing(hub: Hub) -> None:
    key = new_key(hub, "wrong")
    limit(hub, {"to": ["key:wrong"], "calls_per_minute": 1})
    for _ in range(3):
        assert "no tool" in call(hub, key, "absent").text
        assert hub.send(
            "notes", *modern_request("tools/call", {"name": "search", "arguments": {"text": 1}}, headers=key)
        ).result["isError"]
    assert call(hub, key).text == "found x"


def test_streams_are_counted_to_their_end(hub: Hub) -> None:
    key = new_key(hub, "streams")
    limit(hub, {"to": ["key:streams"], "streams": 1})
    message, headers = modern_request(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, headers=key
    )
    stream = hub.stream("notes", message, headers)
    next(stream)
    refused = hub.send("notes", message, headers)
    assert refused.status == 429 and "each caller may have 1 open streams" in refused.error["message"]
    assert refused.headers["Retry-After"] == "5"
    stream.close()
    again = hub.stream("notes", message, headers)
    next(again)
    again.close()


def test_event_streams_of_pages_count_as_streams(hub: Hub) -> None:
    """48.4"""
    key = new_key(hub, "pages")
    assert hub.client.put("/rooms/hall", json={}, headers=key).status_code == 201
    limit(hub, {"to": ["key:pages"], "streams": 1})
    for path in ("/activity/events", "/rooms/hall/changes"):
        with hub.client.get(path, headers=key, buffered=False) as opened:
            assert opened.status_code == 200
            next(iter(opened.response))
            for other in ("/activity/events", "/rooms/hall/changes"):
                refused = hub.app.test_client().get(other, headers=key)
                assert refused.status_code == 429 and refused.headers["Retry-After"] == "5"


def test_polls_of_events_count_as_calls_and_streams_of_events_as_streams(tmp_path: Path) -> None:
    """48.4"""
    with closing(Hub(tmp_path, {"desk.py": SOURCE}, access="shared")) as desk:
        key = new_key(desk, "polls")
        limit(desk, {"to": ["key:polls"], "calls_per_minute": 5, "streams": 1})
        poll = modern_request("events/poll", {"name": EVENT, "cursor": None}, headers=key)
        assert [desk.send("desk", *poll).status for _ in range(6)] == [200] * 5 + [429]
        sent = modern_request("events/stream", {"name": EVENT}, headers=key)
        stream = desk.stream("desk", *sent)
        next(stream)
        refused = desk.send("desk", *sent)
        assert refused.status == 429 and "each caller may have 1 open streams" in refused.error["message"]
        stream.close()


def test_stored_results_have_the_quota_of_their_owner(hub: Hub) -> None:
    key, other = new_key(hub, "stores"), new_key(hub, "stores-other")
    limit(hub, {"to": ["key:stores"], "bytes_stored": 100})
    assert call(hub, key).text == "found x", "the hub knows the principal"
    assert call(hub, other).text == "found x"
    results = hub.catalogue.contents.results
    assert results.keep(b"x" * 101, "key:stores") is None
    first, second = results.keep(b"y" * 60, "key:stores"), results.keep(b"z" * 60, "key:stores")
    assert first is not None and second is not None
    kept = [results.read(*uri.removeprefix("cid://").split("?key="), "key:stores") for uri in (first, second)]
    assert kept == [None, b"z" * 60]
    assert results.keep(b"x" * 101, "key:stores-other") is not None
