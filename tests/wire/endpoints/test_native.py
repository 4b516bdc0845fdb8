"""The native interface over HTTP and over a pipe: forms, checks, many calls at a time, and how they end."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchbay.catalogue.servers.rows import name_problem
from patchbay.wire.pipes.stdio import MAX_CONCURRENT_CALLS
from tests.hubs import Answer, Hub
from tests.waiting import until
from tests.wire.talks import Json, NativeTalk, item_of

JSON, STREAM, NDJSON = "application/json", "text/event-stream", "application/x-ndjson"


def raw(hub: Hub, body: bytes, headers: Mapping[str, str | None] | None = None) -> Any:
    known: dict[str, str | None] = {"Content-Type": JSON, "Accept": NDJSON, "Host": "localhost"}
    sent = {name: value for name, value in (known | dict(headers or {})).items() if value is not None}
    return hub.client.post("/rpc", data=body, headers=sent)


def post(hub: Hub, method: str, params: Any = None, accept: str | None = NDJSON, **more: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params} | more
    return raw(hub, orjson.dumps(message), {"Accept": accept})


def lines(response: Any) -> list[Json]:
    assert response.mimetype == NDJSON, response.get_data()
    return [orjson.loads(line) for line in response.get_data().split(b"\n") if line]


def said(messages: list[Json]) -> str:
    """The text of a call's items."""
    items = [one["params"]["result"] for one in messages if "method" in one]
    assert items[-1]["type"] == "done"
    return "".join(item["data"] for item in items if item["type"] == "data")


# Over HTTP


def test_a_call_is_answered_in_lines(zoo: Hub) -> None:
    """SUB-4: subscription id, then one message for each item."""
    first, *rest = lines(post(zoo, "zoo.greet", ["Ada"]))
    assert first == {"jsonrpc": "2.0", "id": 1, "result": first["result"]}
    assert [one["params"]["subscription"] for one in rest] == [first["result"]] * 2
    assert said([first, *rest]) == "Hello, Ada!"


def test_a_call_is_answered_by_an_event_stream(zoo: Hub) -> None:
    """SUB-4, SUB-24: one message an event."""
    answer = Answer.of(post(zoo, "zoo_greet", {"name": "Ada"}, STREAM))
    assert answer.streamed
    assert answer.headers["Cache-Control"] == "no-cache"
    assert said(answer.messages) == "Hello, Ada!"
    assert {one["method"] for one in answer.messages[1:]} == {"zoo_greet"}


def test_a_client_that_takes_no_stream_gets_one_document(zoo: Hub) -> None:
    """SUB-3, SUB-26: buffered."""
    document = post(zoo, "zoo.greet", ["Ada"], JSON).get_json()
    assert list(document["result"]) == ["subscription", "items"]
    assert [item["type"] for item in document["result"]["items"]] == ["data", "done"]


@pytest.mark.parametrize("accept", [NDJSON, STREAM, JSON])
def test_every_form_says_the_same(zoo: Hub, accept: str) -> None:
    """SUB-1."""
    response = post(zoo, "zoo.slow", [3], accept)
    if accept == JSON:
        items = response.get_json()["result"]["items"]
    else:
        messages = lines(response) if accept == NDJSON else Answer.of(response).messages
        items = [one["params"]["result"] for one in messages[1:]]
    told = [item.get("message", item.get("data")) for item in items]
    assert told == ["step 1", "step 2", "did 2", "step 3", "did 3", "done", None]


def test_an_accept_header_without_a_known_form_is_refused(zoo: Hub) -> None:
    response = post(zoo, "zoo.greet", ["Ada"], "text/html")
    assert (response.status_code, response.get_json()["error"]["code"]) == (406, -32600)


def test_no_accept_at_all_is_a_document(zoo: Hub) -> None:
    assert "items" in post(zoo, "zoo.greet", ["Ada"], None).get_json()["result"]


def test_an_error_keeps_its_http_status(zoo: Hub) -> None:
    """SUB-34, SUB-35: unknown method, parse error, invalid request."""
    unknown = post(zoo, "tools/list")
    assert (unknown.status_code, unknown.get_json()["error"]["code"]) == (404, -32601)
    broken = raw(zoo, b"{")
    assert (broken.status_code, broken.get_json()["error"]["code"]) == (400, -32700)
    batch = raw(zoo, b'[{"jsonrpc":"2.0","id":1,"method":"zoo.greet"}]')
    assert (batch.status_code, batch.get_json()["error"]["code"]) == (400, -32600)
    assert "one message at a time" in batch.get_json()["error"]["message"]
    bad = post(zoo, "zoo.greet", "Ada", id="mine")
    assert (bad.status_code, bad.get_json()["id"]) == (400, "mine")


def test_a_notification_is_taken_and_nothing_is_run(zoo: Hub) -> None:
    """SUB-6."""
    response = raw(zoo, b'{"jsonrpc":"2.0","method":"zoo.touched","params":[]}')
    assert (response.status_code, response.get_data()) == (202, b"")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": None}, 415),
        ({"Content-Encoding": "gzip"}, 415),
    ],
)
def test_the_checks_are_those_of_mcp(zoo: Hub, headers: dict[str, str | None], status: int) -> None:
    """T9.9, T14.4: Host, Origin and the media types."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"zoo.greet","params":["Ada"]}'
    response = raw(zoo, body, headers)
    assert (response.status_code, "error" in response.get_json()) == (status, True)


def test_an_allowed_origin_may_read_the_answer(zoo: Hub) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"zoo.greet","params":["Ada"]}'
    response = raw(zoo, body, {"Origin": "http://localhost"})
    assert response.headers["Access-Control-Allow-Origin"] == "http://localhost"
    preflight = zoo.client.options("/rpc", headers={"Host": "localhost", "Origin": "http://localhost"})
    assert (preflight.status_code, "POST" in preflight.headers["Access-Control-Allow-Methods"]) == (204, True)


def test_a_body_beyond_the_limit_is_refused(zoo: Hub) -> None:
    response = raw(zoo, b" " * (zoo.settings.body_limit + 1))
    assert response.status_code == 413


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_only_post_is_served(zoo: Hub, method: str) -> None:
    response = zoo.client.open("/rpc", method=method, headers={"Host": "localhost"})
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")


def test_no_server_can_be_called_rpc() -> None:
    """T14.3."""
    assert "the hub has a page of its own" in (name_problem("rpc") or "")


class Reading:
    """An answer that is read as it comes."""

    def __init__(self, hub: Hub, method: str, accept: str = NDJSON) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": []}
        headers = {"Content-Type": JSON, "Accept": accept, "Host": "localhost"}
        self.response = hub.client.post("/rpc", data=orjson.dumps(message), headers=headers, buffered=False)
        self.frames: Iterator[bytes] = iter(self.response.response)  # type: ignore[arg-type]
        self.id = int(orjson.loads(next(self.frames).removeprefix(b"event: message\ndata: "))["result"])


@pytest.mark.parametrize(("accept", "alive"), [(NDJSON, b"\n"), (STREAM, b":\n\n")])
def test_a_silent_call_shows_that_it_is_alive(zoo: Hub, accept: str, alive: bytes) -> None:
    reading = Reading(zoo, "zoo.hangs", accept)
    assert next(reading.frames) == alive
    reading.response.close()


def test_unsubscribing_in_another_request_ends_the_stream(zoo: Hub) -> None:
    """SUB-5, SUB-32."""
    reading = Reading(zoo, "zoo.hangs")
    assert post(zoo, "zoo_unsubscribe_hangs", [reading.id], JSON).get_json() == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": True,
    }
    assert [frame for frame in reading.frames if frame != b"\n"] == []
    assert lines(post(zoo, "plexus_unsubscribe", [reading.id])) == [{"jsonrpc": "2.0", "id": 1, "result": False}]


def test_a_reader_that_leaves_cancels_its_call(zoo: Hub) -> None:
    """SUB-5, X-19: natively nothing is kept for a client that comes back."""
    reading = Reading(zoo, "zoo.hangs", STREAM)
    next(reading.frames)
    reading.response.close()
    until(lambda: not post(zoo, "plexus_unsubscribe", [reading.id], JSON).get_json()["result"], "the call is over")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(
    [
        *("zoo.greet", "zoo_same", "zoo.choose", "zoo", "plexus_schema", "plexus_activation_schema"),
        *(
            "plexus_unsubscribe",
            "nobody.nothing",
            "",
            ".",
            "_",
            "zoo.",
            "tools/list",
            "plexus.full_schema",
            "zoo_unsubscribe_x",
            "a" * 300,
        ),
    ]
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0") | VALUES, "method": METHODS | VALUES},
        optional={"id": st.integers() | st.text() | VALUES, "params": VALUES, "result": VALUES, "error": VALUES},
    )
    | VALUES,
    st.sampled_from([JSON, STREAM, NDJSON]),
)
def test_any_body_gets_an_answer_without_internal_details(zoo: Hub, value: Any, accept: str) -> None:
    try:
        body = orjson.dumps(value)
    except TypeError:  # integers beyond 64 bits
        body = str(value).encode()
    response = raw(zoo, body, {"Accept": accept})
    assert response.status_code < 500, response.get_data()
    assert b"Traceback" not in response.get_data() and b"incident" not in response.get_data()


# Over a pipe


@pytest.fixture
def talk(zoo: Hub) -> Iterator[NativeTalk]:
    """A native pipe, on which nothing was said yet."""
    talk = NativeTalk(zoo)
    yield talk
    talk.close()


def words(items: list[Json]) -> list[Any]:
    return [item.get("message", item.get("data")) for item in items[:-1]]


def test_a_pipe_needs_no_handshake(talk: NativeTalk) -> None:
    """SUB-40, SUB-37."""
    assert words(talk.items(talk.call("zoo.greet", ["Ada"]))) == ["Hello, Ada!"]
    assert "version" in str(talk.items(talk.call("plexus_schema", id=2)))
    talk.ask("initialize", {}, 3)
    assert talk.answer(3)["error"]["code"] == -32601


def test_calls_run_side_by_side_and_each_names_its_subscription(talk: NativeTalk) -> None:
    """SUB-5, SUB-C15: stdio streams too."""
    hanging = talk.call("zoo.hangs")
    ids = [talk.call("zoo.slow", [3], id=number) for number in range(2, 8)]
    for id in ids:
        assert words(talk.items(id)) == ["step 1", "step 2", "did 2", "step 3", "did 3", "done"]
    assert talk.legacy("plexus_unsubscribe", {"subscription": hanging}, "stop") == {
        "jsonrpc": "2.0",
        "id": "stop",
        "result": True,
    }


def test_an_unsubscribed_call_sends_no_more_items(talk: NativeTalk) -> None:
    """SUB-32."""
    id = talk.call("zoo.hangs")
    assert talk.legacy("zoo.unsubscribe_hangs", {"subscription": id}, 2)["result"] is True
    assert talk.end()
    assert [one for one in talk.said if item_of(one, id)] == []


def test_another_connection_cannot_unsubscribe(zoo: Hub, talk: NativeTalk) -> None:
    id = talk.call("zoo.hangs")
    other = NativeTalk(zoo)
    assert other.legacy("plexus_unsubscribe", {"subscription": id})["result"] is False
    other.close()
    assert talk.legacy("plexus_unsubscribe", {"subscription": id}, 2)["result"] is True


def test_an_invalid_message_is_answered_and_the_pipe_continues(talk: NativeTalk) -> None:
    """SUB-34, SUB-6: batches are refused; notifications are not answered."""
    talk.raw(b"{\n")
    assert talk.until(lambda one: "error" in one, "a parse error")["error"]["code"] == -32700
    talk.send([{"jsonrpc": "2.0", "id": 1, "method": "zoo.greet"}])
    batch = talk.until(lambda one: "one message at a time" in str(one), "a refused batch")
    assert (batch["id"], batch["error"]["code"]) == (None, -32600)
    talk.note("zoo.greet", name="Ada")
    talk.ask("tools/list", {}, 9)
    assert talk.answer(9)["error"]["code"] == -32601
    assert words(talk.items(talk.call("zoo.greet", ["Ada"], id=10))) == ["Hello, Ada!"]


def test_a_message_is_one_line_whatever_its_text(talk: NativeTalk) -> None:
    """SUB-C17, SUB-37."""
    text = "a\nb\r\nc\u2028d\u0085e"
    assert words(talk.items(talk.call("zoo.greet", [text, "x"]))) == [f"x, {text}!"]
    assert all(b"\xe2\x80\xa8" not in line and b"\r" not in line for line in talk.lines)


def test_more_calls_than_a_pipe_has_room_for_are_refused(talk: NativeTalk) -> None:
    for id in range(MAX_CONCURRENT_CALLS):
        talk.call("zoo.hangs", id=id)
    talk.ask("zoo.greet", {"name": "Ada"}, "more")
    assert "which is the limit" in talk.answer("more")["error"]["message"]
    assert talk.legacy("plexus_unsubscribe", {"subscription": 1}, "still")["result"] is False


def test_the_end_of_the_input_lets_calls_finish(talk: NativeTalk) -> None:
    id = talk.call("zoo.slow", [3])
    assert talk.end()
    assert words(talk.items(id))[-1] == "done"


def test_closing_cancels_what_is_running(zoo: Hub) -> None:
    """SUB-5."""
    talk = NativeTalk(zoo)
    id = talk.call("zoo.hangs")
    assert not talk.end(0)
    assert talk.pipe.close(10)
    assert [one for one in talk.said if item_of(one, id)] == []
    assert threading.active_count() < 200
