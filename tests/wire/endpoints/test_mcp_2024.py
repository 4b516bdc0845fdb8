"""The pair of routes of 2024-11-05: the stream, the address it begins with, and what both refuse."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.errors import ContentError
from patchbay.protocol.streams.legacy_channels import Channel
from patchbay.views.sse import COMMENT
from tests.hubs import Answer, Hub
from tests.waiting import until

Json = dict[str, Any]
CLIENT = {"name": "tests", "version": "1"}


class Pair:
    """A client of 2024-11-05: one stream, and posts to the address it began with."""

    def __init__(self, hub: Hub, server: str = "zoo", poster: Hub | None = None) -> None:
        self.hub, self.poster, self._open = hub, poster or hub, True
        headers = {"Accept": "text/event-stream", "Host": "localhost"}
        self.response = hub.app.test_client().get(f"/mcp/{server}/sse", headers=headers, buffered=False)
        assert self.response.status_code == 200, self.response.get_data()
        self._frames = iter(self.response.response)
        event, self.address = _event(next(self._frames))
        assert event == "endpoint"

    def post(self, value: Any, address: str | None = None, **headers: str) -> Answer:
        """POST one JSON value."""
        known = {"Content-Type": "application/json", "Host": "localhost"} | headers
        body = value if isinstance(value, bytes) else orjson.dumps(value)
        return Answer.of(self.poster.app.test_client().post(address or self.address, data=body, headers=known))

    def next(self) -> Any:
        """The next message on the stream; None at its end. Fails when there is none until a keep-alive comes.

        A hub that has just begun may still tell of its own beginning: changed lists are passed over.
        """
        for frame in self._frames:
            event, data = _event(frame)
            assert event == "message"
            message = orjson.loads(data)
            if not (isinstance(message, dict) and message.get("method", "").endswith("list_changed")):
                return message
        return None

    def request(self, method: str, params: Any = None, id: Any = 1) -> Json:
        """A request, and the next message on the stream."""
        message = {"jsonrpc": "2.0", "id": id, "method": method} | ({"params": params} if params is not None else {})
        answer = self.post(message)
        assert (answer.status, answer.body) == (202, b"")
        return dict(self.next())

    def open(self, version: str = "2024-11-05", capabilities: Any = None) -> Json:
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": CLIENT}
        result = self.request("initialize", params)["result"]
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
        return dict(result)

    def close(self) -> None:
        """Go away, as a client does that closes its connection."""
        if self._open:
            self._open = False
            self.response.close()


def _event(frame: Any) -> tuple[str, str]:
    assert isinstance(frame, bytes)
    assert frame != COMMENT, "nothing came"
    fields = dict(line.split(": ", 1) for line in frame.decode().strip().split("\n"))
    return fields["event"], fields["data"]


@pytest.fixture
def pair(zoo: Hub) -> Iterator[Pair]:
    pair = Pair(zoo)
    yield pair
    pair.close()


def call(tool: str, **arguments: Any) -> Json:
    return {"name": tool, "arguments": arguments}


def test_the_stream_begins_with_a_random_address(zoo: Hub) -> None:
    """SUB-41."""
    one, other = Pair(zoo), Pair(zoo)
    path, _, session = one.address.partition("?session=")
    assert path == "/mcp/zoo/messages"
    assert len(session) >= 32
    assert one.address != other.address
    one.close()
    other.close()


def test_every_answer_comes_on_the_stream(pair: Pair) -> None:
    assert pair.open()["protocolVersion"] == "2024-11-05"
    assert pair.request("ping", id="p") == {"jsonrpc": "2.0", "id": "p", "result": {}}
    result = pair.request("tools/call", call("greet", name="Ada"), 2)["result"]
    assert result["content"][0]["text"] == "Hello, Ada!"
    assert pair.request("no/such", id=3)["error"]["code"] == -32601


def test_the_handshake_comes_first(pair: Pair) -> None:
    """X-3."""
    assert pair.request("ping")["result"] == {}
    assert pair.request("tools/list", id=2)["error"]["code"] == -32002
    assert pair.open("2025-06-18")["protocolVersion"] == "2025-06-18"
    again = pair.request("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}}, 3)
    assert again["error"]["code"] == -32600


def test_revisions_without_a_handshake_are_refused(pair: Pair) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    assert pair.request("server/discover", {"_meta": meta})["error"]["code"] == -32600
    pair.open()
    assert pair.request("tools/list", {"_meta": meta}, 2)["error"]["code"] == -32600


def test_a_long_call_is_cancelled_by_a_post(pair: Pair) -> None:
    pair.open()
    assert pair.post({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call("hangs")}).status == 202
    assert pair.request("ping", id=8)["id"] == 8
    assert pair.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}).status == 202
    assert pair.request("tools/call", call("slow"), 9)["method"] == "notifications/message"


def test_a_tool_asks_on_the_stream_and_is_answered_by_a_post(pair: Pair) -> None:
    pair.open("2025-06-18", {"elicitation": {}})
    question = pair.request("tools/call", call("asks"), 3)
    assert question["method"] == "elicitation/create"
    answer = {"action": "accept", "content": {"name": "Ada"}}
    assert pair.post({"jsonrpc": "2.0", "id": question["id"], "result": answer}).status == 202
    assert pair.next()["result"]["content"][0]["text"] == "Hello, Ada!"


def test_changes_are_sent_on_the_stream(zoo: Hub, pair: Pair) -> None:
    pair.open()
    assert pair.request("resources/subscribe", {"uri": "zoo://note"}, 2)["result"] == {}
    zoo.catalogue.hub.updated("zoo", "zoo://note")
    assert pair.next() == {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": "zoo://note"},
    }


def test_arrays_are_answered_by_one_event(pair: Pair) -> None:
    pair.open()
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert pair.post([ping, ping | {"id": 2}]).status == 202
    assert [one["id"] for one in pair.next()] == [1, 2]


def test_the_session_ends_with_its_stream(pair: Pair) -> None:
    pair.open()
    pair.close()
    gone = pair.post({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    assert (gone.status, gone.error["code"]) == (404, -32600)


def test_a_stream_that_closed_before_the_handshake_takes_nothing_more(pair: Pair) -> None:
    pair.close()
    assert pair.post({"jsonrpc": "2.0", "id": 2, "method": "ping"}).status == 404


def test_a_call_that_runs_when_the_stream_closes_is_cancelled(pair: Pair) -> None:
    pair.open()
    pair.post({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call("hangs")})
    running = pair.hub.app.parts.dispatcher.services.running
    until(lambda: running._flags, "the call runs")
    pair.close()
    until(lambda: not running._flags, "the call is over")


def test_a_post_that_another_process_takes_in_is_answered_on_the_stream(tmp_path: Path) -> None:
    one = Hub(tmp_path, {"one.py": "def first() -> str:\n    return 'a'\n"}, store="sqlite", workers=2)
    other = Hub(tmp_path, store="sqlite", workers=2)
    pair = Pair(one, "one", poster=other)
    try:
        pair.open()
        assert pair.request("tools/call", call("first"), 2)["result"]["content"][0]["text"] == "a"
        pair.poster = one
        assert pair.request("tools/call", call("first"), 3)["result"]["content"][0]["text"] == "a"
        pair.close()
        pair.poster = other
        assert pair.post({"jsonrpc": "2.0", "id": 4, "method": "ping"}).status == 404
    finally:
        other.close()
        one.close()


def test_the_stream_ends_when_the_hub_stops(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"one.py": "def first() -> str:\n    return 'a'\n"})
    pair = Pair(hub, "one")
    pair.open()
    hub.app.parts.drain.begin()
    assert pair.next() is None
    pair.close()
    hub.close()


def test_silence_is_filled_with_comments(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"one.py": ""}, keepalive=0.01)
    headers = {"Accept": "text/event-stream", "Host": "localhost"}
    response = hub.app.test_client().get("/mcp/echo/sse", headers=headers, buffered=False)
    frames = iter(response.response)
    assert [next(frames)[:7], next(frames)] == [b"event: ", b":\n\n"]
    response.close()
    hub.close()


def test_the_number_of_streams_is_bounded(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"one.py": ""}, listeners=1)
    headers = {"Accept": "text/event-stream", "Host": "localhost"}
    pair = Pair(hub, "echo")
    busy = hub.app.test_client().get("/mcp/echo/sse", headers=headers)
    assert (busy.status_code, busy.headers["Retry-After"]) == (503, "5")
    pair.close()
    Pair(hub, "echo").close()
    hub.close()


def test_the_number_of_calls_is_bounded(tmp_path: Path) -> None:
    source = "import time\n\ndef hangs() -> str:\n    while True:\n        time.sleep(0.02)\n"
    hub = Hub(tmp_path, {"one.py": source}, threads=1)
    pair = Pair(hub, "one")
    pair.open()
    assert pair.post({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call("hangs")}).status == 202
    busy = pair.post({"jsonrpc": "2.0", "id": 3, "method": "tools/list"})
    assert (busy.status, busy.last["id"], busy.error["code"]) == (503, 3, -32603)
    pair.close()
    hub.close()


def get(hub: Hub, path: str, method: str = "GET", **headers: str) -> tuple[int, Mapping[str, str]]:
    """Return status and headers, without reading the body."""
    known = {"Host": "localhost", "Accept": "text/event-stream"} | headers
    response = hub.app.test_client().open(path, method=method, headers=known, buffered=False)
    response.close()
    return response.status_code, dict(response.headers)


@pytest.mark.parametrize("path", ["/mcp/zoo/sse", "/mcp/zoo/messages?session=x"])
def test_host_and_origin_are_checked(zoo: Hub, path: str) -> None:
    """T14.4."""
    for method in ("GET", "POST", "OPTIONS"):
        assert get(zoo, path, method, Host="evil.example")[0] == 421
        assert get(zoo, path, method, Origin="https://evil.example")[0] == 403


def test_an_allowed_origin_may_read_the_answers(zoo: Hub) -> None:
    """T9.9."""
    origin = "http://localhost:5000"
    status, headers = get(zoo, "/mcp/zoo/messages", "OPTIONS", Origin=origin)
    assert (status, headers["Access-Control-Allow-Origin"]) == (204, origin)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/mcp/zoo/sse", 405),
        ("HEAD", "/mcp/zoo/sse", 405),
        ("DELETE", "/mcp/zoo/sse", 405),
        ("GET", "/mcp/zoo/messages", 405),
        ("GET", "/mcp/nothing/sse", 404),
        ("POST", "/mcp/nothing/messages?session=x", 404),
    ],
)
def test_other_methods_and_servers_are_refused(zoo: Hub, method: str, path: str, status: int) -> None:
    assert get(zoo, path, method)[0] == status


def test_a_stream_has_to_be_wanted(zoo: Hub) -> None:
    assert get(zoo, "/mcp/zoo/sse", Accept="application/json")[0] == 406


def test_the_page_about_a_server_named_sse_is_a_page(zoo: Hub) -> None:
    assert get(zoo, "/mcp/meta/sse", Accept="application/json")[1]["Content-Type"].startswith("application/json")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"garbage", 400, -32700),
        (b"\xff", 400, -32700),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600),
        (b"[]", 400, -32600),
        (b'"' + b"x" * (4 * 1024 * 1024) + b'"', 413, -32600),
    ],
    ids=lambda value: repr(value[:20]) if isinstance(value, bytes) else str(value),
)
def test_a_body_that_is_not_a_message_is_refused_at_once(pair: Pair, body: bytes, status: int, code: int) -> None:
    refused = pair.post(body)
    assert (refused.status, refused.error["code"]) == (status, code)
    assert pair.request("ping")["result"] == {}


def test_another_media_type_is_refused(pair: Pair) -> None:
    assert pair.post(b"{}", **{"Content-Type": "text/plain"}).status == 415


@pytest.mark.parametrize(
    ("query", "status"),
    [("", 400), ("?session=", 400), ("?session=a&session=b", 400), ("?session=unknown", 404), ("?session=%00*", 404)],
)
def test_a_session_has_to_be_named_and_known(pair: Pair, query: str, status: int) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert pair.post(ping, f"/mcp/zoo/messages{query}").status == status


def test_a_session_belongs_to_its_server(pair: Pair) -> None:
    pair.open()
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert pair.post(ping, pair.address.replace("zoo", "echo")).status == 404


def test_a_hub_that_stops_answers_running_calls_before_the_stream_ends(tmp_path: Path) -> None:
    """THREATS X22: this stream carries answers, it does not only listen."""
    source = "import time\n\n\ndef slow() -> str:\n    time.sleep(0.5)\n    return 'done'\n"
    hub = Hub(tmp_path, {"slow.py": source})
    pair = Pair(hub, "slow")
    pair.open()
    assert pair.post({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call("slow")}).status == 202
    hub.app.parts.drain.begin()
    answer = pair.next()
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (9, "done")
    assert pair.next() is None
    pair.close()
    hub.close()


def test_nothing_is_left_of_a_stream_that_outlived_its_session(tmp_path: Path) -> None:
    """THREATS 1.2: the thread that tells of changes ends with the stream, also after `session_hours`."""
    hub = Hub(tmp_path, keepalive=0.1)
    before = set(threading.enumerate())
    pair = Pair(hub, "echo")
    pair.open()
    pair.post({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    next(frame for frame in pair._frames if frame != COMMENT)

    def telling() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "changes" and thread not in before]

    assert telling()
    hub.app.parts.dispatcher.services.sessions._seconds = -1.0
    pair.close()
    until(lambda: not telling(), "the thread to end")
    hub.close()


def test_a_stream_that_the_store_refuses_gives_its_place_back(zoo: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk must not use up the places of streams."""

    def fail(*values: Any) -> None:
        raise ContentError("the disk is full")

    monkeypatch.setattr(Channel, "open", fail)
    headers = {"Accept": "text/event-stream", "Host": "localhost"}
    answer = zoo.app.test_client().get("/mcp/zoo/sse", headers=headers)
    assert "the disk is full" in answer.get_data(as_text=True)
    assert zoo.app.parts.dispatcher.listening == 0
