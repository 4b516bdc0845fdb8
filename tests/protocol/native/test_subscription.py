"""Native calls: valid requests, their answers, and the end of a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.activity.records import Filter
from patchbay.errors import InvalidParams, InvalidRequest
from patchbay.events import Pause
from patchbay.jsonrpc import Failure, Result, encode, parse
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.native.calls import NO_QUESTIONS
from patchbay.protocol.native.subscription import Stream, parse_request
from tests.hubs import Hub
from tests.protocol.native.natives import FILES, items, native, stream, text
from tests.waiting import until


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("native"), FILES, inline_limit=2000)
    yield hub
    hub.close()


# Messages


def test_a_notification_asks_for_nothing() -> None:
    """SUB-6: request, response, notification."""
    assert parse_request({"jsonrpc": "2.0", "method": "mail.send", "params": []}) is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([{"jsonrpc": "2.0", "id": 1, "method": "mail.send"}], "one message at a time"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, "this message is a response"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}, "this message is a response"),
        ({"jsonrpc": "2.0", "id": 1, "method": "a.b", "params": "x"}, '"params" has to be an array'),
        ({"jsonrpc": "1.0", "id": 1, "method": "a.b", "params": []}, '"jsonrpc" has to be "2.0"'),
        ({"jsonrpc": "2.0", "id": None, "method": "a.b", "params": []}, '"id" has to be'),
        ({"jsonrpc": "2.0", "id": 1, "method": "", "params": []}, '"method" has to be'),
        ("x", "a message is a JSON object"),
    ],
)
def test_other_messages_than_requests_are_refused_with_a_reason(value: Any, told: str) -> None:
    """SUB-6, SUB-34."""
    with pytest.raises(InvalidRequest, match=told):
        parse_request(value)


# What is said


def test_a_call_is_answered_by_a_number_then_by_items_that_name_it(hub: Hub) -> None:
    """SUB-4: subscription id, then notifications."""
    first, *rest = (parse(encode(said)) for said in stream(hub, "mail.send") if not isinstance(said, Pause))
    assert (first["id"], isinstance(first["result"], int)) == (1, True)
    assert [said["params"]["subscription"] for said in rest] == [first["result"]] * 2
    item = rest[0]["params"]["result"]
    assert (item["type"], item["data"], item["provenance"]) == ("data", "sent", {"segments": ["mail"]})


def test_progress_and_logs_are_sent_at_once(zoo: Hub) -> None:
    """SUB-24, SUB-43: progress, and tracing as logging."""
    said = items(zoo, "zoo.slow", {"steps": 2})
    assert [(item["type"], item.get("message", item.get("data"))) for item in said] == [
        ("progress", "step 1"),
        ("progress", "step 2"),
        ("progress", "did 2"),
        ("data", "done"),
        ("done", None),
    ]


def test_a_failing_tool_says_error_and_done(zoo: Hub) -> None:
    """SUB-19: with the message."""
    error, done = items(zoo, "zoo.fails")
    assert (error["error"], error["recoverable"], done["type"]) == ("ValueError: no luck", False, "done")


def test_a_tool_that_asks_its_caller_fails_and_says_why(zoo: Hub) -> None:
    error = items(zoo, "zoo.asks")[0]
    assert error["error"] == f"the client has to declare this capability first: elicitation; {NO_QUESTIONS}"


def test_a_tool_that_has_to_go_on_in_the_background_goes_on_in_its_subscription(zoo: Hub) -> None:
    """SUB-5: for as long as a task may."""
    assert text(zoo, "zoo.lasting", [True]) == "it lasted"


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_ended(zoo: Hub) -> None:
    """X-15."""
    error = items(zoo, "zoo.hangs")[0]
    assert error["error"].startswith("timed out after")


def test_a_text_beyond_the_limit_is_its_head_and_a_link(hub: Hub) -> None:
    """X-14, SUB-C3: as in MCP."""
    head, link, done = items(hub, "big.text", [5000])
    assert head["content_type"] == link["content_type"] == "mcp.content"
    assert [head["data"], link["data"]] == hub.call("big", "text", {"size": 5000}).result["content"]
    assert (link["data"]["type"], link["data"]["size"], done["type"]) == ("resource_link", 10000, "done")
    assert [item["type"] for item in items(hub, "big.text", [900])] == ["data", "done"]


def test_a_result_that_breaks_its_schema_is_an_error_at_the_end(hub: Hub) -> None:
    assert [item["type"] for item in items(hub, "typed.right", [1])] == ["data", "done"]
    data, error, _ = items(hub, "typed.wrong")
    assert (data["type"], error["type"]) == ("data", "error")
    assert error["error"] == hub.call("typed", "wrong").result["content"][-1]["text"]


def test_a_resource_shows_the_last_output_of_a_native_call_too(hub: Hub) -> None:
    """SUB-1: the same activation for every caller."""
    assert text(hub, "keeper.note", ["this"]) == "noted this"
    read = hub.modern("keeper", "resources/read", {"uri": "keeper://last"})
    assert read.result["contents"][0]["text"] == "noted this"


def test_tools_that_call_each_other_in_a_circle_are_found_out(hub: Hub) -> None:
    assert "loop.a -> loop.b -> loop.a" in text(hub, "loop.a")


def test_a_failure_of_the_hub_itself_is_an_incident(tmp_path: Path) -> None:
    # A setting of a wrong type stands for a mistake in the hub's own code.
    hub = Hub(tmp_path, {"big.py": FILES["big.py"]}, inline_limit="2000")
    error, done = items(hub, "big.text", [5000])
    assert error["error"].startswith("internal error (incident ")
    assert (len(error["error"]) < 50, done["type"]) == (True, "done")
    hub.close()


def test_every_call_leaves_a_record(zoo: Hub) -> None:
    activity = zoo.activity
    before = activity.recent(Filter(server="zoo")).records
    for method, params in (("zoo.greet", ["Ada"]), ("zoo.fails", []), ("zoo.greet", [])):
        items(zoo, method, params)
    said, id = begun(zoo, "zoo.hangs")
    assert unsubscribe(zoo, "plexus_unsubscribe", [id]) is True
    assert [one for one in said if not isinstance(one, Pause)] == []
    found = activity.recent(Filter(server="zoo")).records
    assert [(one.name, one.outcome) for one in found[: len(found) - len(before)]] == [
        ("hangs", "cancelled"),
        ("greet", "error"),
        ("fails", "tool_error"),
        ("greet", "ok"),
    ]


# Ending a call


def begun(hub: Hub, method: str) -> tuple[Stream, int]:
    """A call that runs, and its subscription id."""
    said = stream(hub, method)
    first = next(said)
    assert isinstance(first, Result)
    assert isinstance(next(said), Pause)
    return said, int(parse(encode(first))["result"])


def unsubscribe(hub: Hub, method: str, params: Any, owner: str = "me") -> bool:
    request = parse_request({"jsonrpc": "2.0", "id": 2, "method": method, "params": params})
    assert request is not None
    answer = native(hub).answer(request, TransportInfo("", connection=owner))
    assert isinstance(answer, Result)
    return bool(parse(encode(answer))["result"])


def running(hub: Hub) -> Callable[[], int]:
    flags = hub.app.parts.dispatcher.services.running._flags
    return lambda: len(flags)


@pytest.mark.parametrize(
    "method", ["plexus_unsubscribe", "plexus.unsubscribe", "zoo_unsubscribe_hangs", "zoo.unsubscribe_hangs"]
)
def test_unsubscribing_goes_by_several_names(zoo: Hub, method: str) -> None:
    """SUB-32: native clients send `<namespace>_unsubscribe_<method>`."""
    said, id = begun(zoo, "zoo.hangs")
    assert unsubscribe(zoo, method, [id]) is True
    said.close()


@pytest.mark.slow
def test_unsubscribing_cancels_the_call_and_ends_its_items(zoo: Hub) -> None:
    """SUB-5, SUB-32, SUB-33: cancellable at any time."""
    said, id = begun(zoo, "zoo.hangs")
    assert unsubscribe(zoo, "plexus_unsubscribe", {"subscription": id}) is True
    assert [one for one in said if not isinstance(one, Pause)] == []
    assert unsubscribe(zoo, "plexus_unsubscribe", [id]) is False


def test_another_connection_cannot_unsubscribe(zoo: Hub) -> None:
    """SUB-C12: what belongs to one connection."""
    said, id = begun(zoo, "zoo.hangs")
    assert unsubscribe(zoo, "plexus_unsubscribe", [id], "you") is False
    assert unsubscribe(zoo, "plexus_unsubscribe", [id]) is True
    said.close()


def test_a_call_is_cancelled_when_its_reader_leaves(zoo: Hub) -> None:
    """SUB-5."""
    count = running(zoo)
    before = count()
    said, _ = begun(zoo, "zoo.hangs")
    assert count() == before + 1
    said.close()
    until(lambda: count() == before, "the call is over")


@pytest.mark.parametrize("params", [[], [1, 2], ["1"], [True], [1.5], {}, {"id": 1}])
def test_unsubscribing_takes_one_number(zoo: Hub, params: Any) -> None:
    request = parse_request({"jsonrpc": "2.0", "id": 2, "method": "plexus_unsubscribe", "params": params})
    assert request is not None
    answer = native(zoo).answer(request, TransportInfo("", connection="me"))
    assert isinstance(answer, Failure)
    assert answer.error["code"] == InvalidParams.code


def test_a_tool_whose_name_begins_with_unsubscribe_is_a_tool(hub: Hub) -> None:
    assert text(hub, "mail.unsubscribe_all") == text(hub, "mail_unsubscribe_all") == "left"


def test_a_method_that_only_looks_like_unsubscribing_takes_no_time(zoo: Hub) -> None:
    """THREATS 1.5: time-bound every pattern. The caller chooses the method."""
    begun = time.thread_time()
    request = parse_request({"jsonrpc": "2.0", "id": 1, "method": "x_unsubscribe_" * 50_000 + "\n"})
    assert request is not None
    assert isinstance(native(zoo).answer(request, TransportInfo("")), Failure)
    assert time.thread_time() - begun < 5
