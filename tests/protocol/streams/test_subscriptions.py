"""Listening for changes, in both eras."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import orjson
import pytest

from patchbay.access.principals import LOCAL_ID
from patchbay.topics import SESSION_ENDED, SESSIONS
from tests.hubs import Hub, modern_request
from tests.waiting import until

TAG = "io.modelcontextprotocol/subscriptionId"


def frames_of(stream: Any) -> Any:
    """The messages of a stream as they come."""
    for frame in stream:
        for line in frame.decode().split("\n"):
            if line.startswith("data: ") and line[6:]:
                yield orjson.loads(line[6:])


def listen(hub: Hub, id: Any = 5, **wanted: Any) -> Any:
    return frames_of(hub.stream("zoo", *modern_request("subscriptions/listen", {"notifications": wanted}, id=id)))


def test_the_acknowledgement_comes_first_with_the_accepted_filter_and_the_id_of_the_request(zoo: Hub) -> None:
    """SPEC-DIGEST 1.10, row 19: the id keeps its type."""
    stream = listen(zoo, id=5, toolsListChanged=True, promptsListChanged=False, resourceSubscriptions=["zoo://note"])
    first = next(stream)
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["zoo://note"]}
    assert first["params"]["_meta"][TAG] == 5
    stream.close()


def test_only_requested_changes_are_sent_and_every_message_is_tagged(zoo: Hub) -> None:
    tools, prompts = listen(zoo, id="t", toolsListChanged=True), listen(zoo, id="p", promptsListChanged=True)
    next(tools), next(prompts)
    assert zoo.call("zoo", "touched").text == "said"
    told = next(tools)
    assert told["method"] == "notifications/tools/list_changed"
    assert told["params"]["_meta"][TAG] == "t"
    tools.close(), prompts.close()


def test_listeners_of_both_eras_are_notified_of_a_saved_file(tmp_path: Any) -> None:
    hub = Hub(tmp_path, {"zoo.py": "def one() -> str:\n    return '1'\n"})
    try:
        modern = listen(hub, toolsListChanged=True)
        next(modern)
        session = hub.open("zoo")
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Host": "localhost"}
        opened = hub.client.get("/mcp/zoo", headers=headers, buffered=False)
        old = opened.iter_encoded()
        begin = next(old).decode().split("\n")[0][4:]
        (hub.servers / "zoo.py").write_text("def two() -> str:\n    return '2'\n")
        assert next(modern)["method"] == "notifications/tools/list_changed"
        assert next(frames_of(old)) == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        opened.close()
        again = hub.client.get("/mcp/zoo", headers=headers | {"Last-Event-ID": begin}, buffered=False)
        stream = iter(again.response)
        assert next(frames_of(stream))["method"] == "notifications/tools/list_changed"
        again.close()
        modern.close()
    finally:
        hub.close()


def test_a_drain_ends_every_stream_with_its_result(tmp_path: Any) -> None:
    """THREATS X22, SPEC-DIGEST 1.10."""
    hub = Hub(tmp_path, {"zoo.py": "def one() -> str:\n    return '1'\n"})
    try:
        stream = listen(hub, id=8, toolsListChanged=True)
        next(stream)
        hub.app.parts.drain.begin()
        rest = list(stream)
        assert rest[0]["method"] == "notifications/cancelled" and rest[0]["params"]["requestId"] == 8
        assert rest[1]["id"] == 8 and rest[1]["result"]["resultType"] == "complete"
        assert hub.client.get("/readyz", headers={"Host": "localhost"}).status_code == 503
    finally:
        hub.close()


def test_listeners_have_a_bound_and_their_place_comes_back(tmp_path: Any) -> None:
    """THREATS 1.2."""
    hub = Hub(tmp_path, {"zoo.py": "def one() -> str:\n    return '1'\n"}, listeners=1)
    try:
        body, headers = modern_request("subscriptions/listen", {"notifications": {}})
        known = headers | {"Content-Type": "application/json", "Accept": "text/event-stream", "Host": "localhost"}

        def open_one() -> Any:
            return hub.client.post("/mcp/zoo", data=orjson.dumps(body), headers=known, buffered=False)

        first = open_one()
        busy = open_one()
        assert (busy.status_code, busy.headers["Retry-After"]) == (503, "5")
        first.close()
        again = until(lambda: (got := open_one()).status_code == 200 and got, "the place comes back")
        again.close()
    finally:
        hub.close()


def test_a_wrong_filter_is_an_error(zoo: Hub) -> None:
    filters: tuple[Any, ...] = (None, [], {"toolsListChanged": "yes"}, {"resourceSubscriptions": "zoo://note"})
    for wanted in filters:
        assert zoo.modern("zoo", "subscriptions/listen", {"notifications": wanted}).error["code"] == -32602


def test_a_second_get_stream_of_a_session_ends_the_first(zoo: Hub) -> None:
    """SPEC-DIGEST 1.8: a message goes to exactly one stream."""
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": zoo.open("zoo"), "Host": "localhost"}
    first = zoo.client.get("/mcp/zoo", headers=headers, buffered=False)
    frames = iter(first.response)
    next(frames)
    second = zoo.client.get("/mcp/zoo", headers=headers, buffered=False)
    next(iter(second.response))
    assert list(frames) == []
    first.close()
    second.close()


def test_an_earlier_stream_of_another_process_does_not_end_the_newest(zoo: Hub) -> None:
    """Its message arrives up to a tenth of a second after it was sent, and so perhaps after the newest stream began."""
    session = zoo.open("zoo")
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Host": "localhost"}
    nonce = zoo.app.parts.dispatcher.services.sessions.find(session, "zoo", LOCAL_ID).nonce
    earlier = time.monotonic_ns().to_bytes(8) + b"anything"
    newest = zoo.client.get("/mcp/zoo", headers=headers, buffered=False)
    frames = iter(newest.response)
    next(frames)
    zoo.catalogue.store.bus.publish(SESSIONS + nonce, earlier)
    assert zoo.call("zoo", "touched").text == "said"
    assert next(frames_of(frames))["method"] == "notifications/tools/list_changed"
    zoo.catalogue.store.bus.publish(SESSIONS + nonce, time.monotonic_ns().to_bytes(8) + b"anything")
    assert list(frames_of(frames)) == []
    newest.close()


def test_one_of_two_streams_of_a_session_that_begin_at_once_ends_the_other(
    zoo: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPEC-DIGEST 1.8: the second begins in another process while the first is about to subscribe."""
    session, bus = zoo.open("zoo"), zoo.catalogue.store.bus
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Host": "localhost"}
    subscribe, streams = bus.subscribe, []

    def begin() -> Iterator[Any]:
        streams.append(zoo.client.get("/mcp/zoo", headers=headers, buffered=False))
        frames = iter(streams[-1].response)
        next(frames)
        return frames

    def subscribe_late(topics: Sequence[str], size: int = 256) -> Any:
        monkeypatch.setattr(bus, "subscribe", subscribe)
        others.append(begin())
        return subscribe(topics, size)

    others: list[Iterator[Any]] = []
    monkeypatch.setattr(bus, "subscribe", subscribe_late)
    first = begin()
    assert next(others[0], None) is None
    assert zoo.call("zoo", "touched").text == "said"
    assert next(frames_of(first))["method"] == "notifications/tools/list_changed"
    for stream in streams:
        stream.close()


def test_a_number_from_the_future_is_taken_for_the_newest(zoo: Hub) -> None:
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": zoo.open("zoo"), "Host": "localhost"}
    stream = zoo.client.get("/mcp/zoo", headers=headers | {"Last-Event-ID": "changes-99999999"}, buffered=False)
    frames = iter(stream.response)
    assert b"changes-99999999" not in next(frames)
    zoo.call("zoo", "touched")
    assert next(frames_of(frames))["method"] == "notifications/tools/list_changed"
    stream.close()


def test_a_listener_that_missed_messages_is_notified_of_everything(zoo: Hub) -> None:
    """THREATS X9: never silently short."""
    stream = listen(zoo, promptsListChanged=True, resourceSubscriptions=["zoo://note"])
    next(stream)
    bus = zoo.catalogue.store.bus
    bus.publish("changed/zoo", b'{"kinds": ["prompts"]}')
    for _ in range(400):
        bus.publish("updated/zoo", b"zoo://other")
    told = {next(stream)["method"], next(stream)["method"]}
    assert told == {"notifications/prompts/list_changed", "notifications/resources/updated"}
    stream.close()


def test_subscriptions_are_bounded(zoo: Hub) -> None:
    long = "x://" + "y" * 9000
    assert zoo.legacy("zoo", "resources/subscribe", {"uri": long}, session=zoo.open("zoo")).error["code"] == -32602
    many = {"resourceSubscriptions": [f"x://{n}" for n in range(300)]}
    assert zoo.modern("zoo", "subscriptions/listen", {"notifications": many}).error["code"] == -32602


@pytest.mark.slow
def test_a_subscription_in_another_process_takes_effect(tmp_path: Any) -> None:
    """T9.8, VWR-37: the stream is read from one process, the subscription and the update come to another."""
    source = "def touch(context) -> str:\n    context.updated('x://a')\n    return 'touched'\n"
    config = '{"auto_discover": true, "resources": {"a": {"uri": "x://a", "text": "a"}}}'
    streaming = Hub(tmp_path, {"x.py": source, "x.mcp.json": config}, store="sqlite", workers=2, keepalive=2)
    posting = Hub(tmp_path, store="sqlite", workers=2)
    try:
        session = streaming.open("x")
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Host": "localhost"}
        stream = streaming.client.get("/mcp/x", headers=headers, buffered=False)
        frames = iter(stream.response)
        next(frames)
        assert posting.legacy("x", "resources/subscribe", {"uri": "x://a"}, session).result == {}
        posting.call("x", "touch")
        assert b"notifications/resources/updated" in next(frame for frame in frames if b"data: {" in frame)
        posting.legacy("x", "resources/unsubscribe", {"uri": "x://a"}, session)
        posting.call("x", "touch")
        assert b"notifications" not in next(frames)
        stream.close()
    finally:
        posting.close()
        streaming.close()


def test_a_stream_ends_when_another_process_ended_its_session_just_before_it_subscribed(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"x.py": "def one() -> str:\n    return '1'\n"}
    streaming = Hub(tmp_path, files, store="sqlite", workers=2, keepalive=0.2)
    ending = Hub(tmp_path, store="sqlite", workers=2)
    try:
        session, bus = streaming.open("x"), streaming.catalogue.store.bus
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Host": "localhost"}
        nonce = streaming.app.parts.dispatcher.services.sessions.find(session, "x", LOCAL_ID).nonce
        subscribe = bus.subscribe

        def subscribe_late(topics: Sequence[str], size: int = 256) -> Any:
            monkeypatch.setattr(bus, "subscribe", subscribe)
            with subscribe([SESSIONS + nonce]) as mailbox:
                assert ending.client.delete("/mcp/x", headers=headers).status_code == 204
                until(lambda: (mailbox.get(0.1) or ("", b""))[1] == SESSION_ENDED, "the message of the other process")
            return subscribe(topics, size)

        monkeypatch.setattr(bus, "subscribe", subscribe_late)
        stream = streaming.client.get("/mcp/x", headers=headers, buffered=False)
        assert len(list(islice(stream.response, 3))) <= 1
        stream.close()
    finally:
        ending.close()
        streaming.close()


def test_a_pinned_address_sends_no_changes(tmp_path: Any) -> None:
    """X-12: what its capabilities do not promise is neither acknowledged nor notified."""
    hub = Hub(tmp_path, {"zoo.py": "def one() -> str:\n    return '1'\n"}, keepalive=0.2)
    try:
        pinned = f"zoo@{hub.catalogue.find('zoo').version}"
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": hub.open(pinned), "Host": "localhost"}
        old = hub.client.get(f"/mcp/{pinned}", headers=headers, buffered=False)
        frames = iter(old.response)
        next(frames)
        (hub.servers / "zoo.py").write_text("def two() -> str:\n    return '2'\n")
        until(lambda: "two" in hub.catalogue.find("zoo").tools, "the change")
        assert not any(b"list_changed" in next(frames) for _ in range(3))
        old.close()
        wanted = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["zoo://note"]}}
        modern = frames_of(hub.stream(pinned, *modern_request("subscriptions/listen", wanted)))
        assert next(modern)["params"]["notifications"] == {}
        modern.close()
    finally:
        hub.close()
