"""The native view: what each event becomes, and that read back it is what MCP says of the same events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.errors import ProtocolError
from patchbay.events import (
    Ask,
    Content,
    Data,
    Detach,
    Done,
    Event,
    Failed,
    Log,
    Pause,
    Progress,
    Question,
    Text,
    ToolUse,
)
from patchbay.jsonrpc import Notification, Rendered, Result, encode, parse
from patchbay.views.fold import fold
from patchbay.views.native import BLOCK, JSON, TEXT, Item, Stamp, collected, guidance, items, notification

STAMP = Stamp("0123456789abcdef", ("bash",))
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def read_back(item: Item) -> Iterator[Event]:
    """What a client makes of an item: the event it came from."""
    kind = item["type"]
    if kind == "data" and item["content_type"] == TEXT:
        yield Text(item["data"])
    elif kind == "data" and item["content_type"] == BLOCK:
        yield Content(item["data"])
    elif kind == "data":
        yield Data(item["data"], item["content_type"], item.get("text"))
    elif "tool_use" in item:
        yield ToolUse(item["tool_use"]["name"], item["tool_use"]["input"], item["tool_use"].get("id"))
    elif kind == "error":
        yield Failed(item["error"])
    elif kind == "done":
        yield Done()


def seen(*events: Event) -> list[Item]:
    """The items of events as a client reads them, without what every item carries."""
    found = []
    for event in events:
        for item in items(event, STAMP):
            sent = parse(encode(notification("bash.execute", 7, item)))["params"]
            assert sent["subscription"] == 7
            assert sent["result"].pop("plexus_hash") == STAMP.hash
            assert sent["result"].pop("provenance") == {"segments": ["bash"]}
            found.append(sent["result"])
    return found


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Text("ls"), {"type": "data", "content_type": TEXT, "data": "ls"}),
        (Data({"a": 1}), {"type": "data", "content_type": JSON, "data": {"a": 1}}),
        (
            Data({"line": "a"}, "bash.stdout", "a\n"),
            {"type": "data", "content_type": "bash.stdout", "data": {"line": "a"}, "text": "a\n"},
        ),
        (Content(IMAGE), {"type": "data", "content_type": BLOCK, "data": IMAGE}),
        (Progress(1), {"type": "progress", "message": "", "progress": 1}),
        (
            Progress(1, 4, "one"),
            {"type": "progress", "message": "one", "progress": 1, "total": 4, "percentage": 25.0},
        ),
        (
            Log("warning", {"a": 1}, "x"),
            {
                "type": "progress",
                "message": '{\n  "a": 1\n}',
                "log": {"level": "warning", "data": {"a": 1}, "logger": "x"},
            },
        ),
        (
            ToolUse("Read", {"path": "a"}, "t1"),
            {
                "type": "progress",
                "message": "Using tool: Read",
                "tool_use": {"name": "Read", "input": {"path": "a"}, "id": "t1"},
            },
        ),
        (Done(), {"type": "done"}),
    ],
)
def test_each_event_is_one_item_with_hash_and_provenance(event: Event, expected: Item) -> None:
    """SUB-44, SUB-4: typed items, flat."""
    assert seen(event) == [expected]


@pytest.mark.parametrize("event", [Pause(), Detach(), Ask({"a": Question("roots/list", {})})])
def test_an_empty_event_gives_no_item(event: Event) -> None:
    assert items(event, STAMP) == ()


def test_a_failure_is_an_error_and_the_stream_is_done() -> None:
    """SUB-4: `error`, then `done`."""
    assert seen(Failed("no luck")) == [{"type": "error", "error": "no luck", "recoverable": False}, {"type": "done"}]


def test_a_tool_s_own_json_rpc_error_keeps_its_code_and_data() -> None:
    error = seen(Failed("no", ProtocolError("no", 7, {"a": 1})))[0]
    assert (error["code"], error["data"]) == (7, {"a": 1})


@pytest.mark.parametrize(("progress", "percentage"), [(-5, 0.0), (20, 100.0), (5, 50.0)])
def test_a_percentage_stays_between_0_and_100(progress: float, percentage: float) -> None:
    assert seen(Progress(progress, 10))[0]["percentage"] == percentage


def test_without_a_total_there_is_no_percentage() -> None:
    assert "percentage" not in seen(Progress(5, 0))[0]


def test_data_with_the_type_of_text_differs_from_text() -> None:
    assert [item["content_type"] for item in seen(Data("x", TEXT), Data("x", BLOCK), Text("x"))] == [JSON, JSON, TEXT]


def test_guidance_says_what_went_wrong_and_what_to_do() -> None:
    item = guidance("activation_not_found", {"activation": "foo", "action": "call_plexus_schema"}, STAMP)
    assert (item["type"], item["error_kind"], item["action"]) == (
        "guidance",
        "activation_not_found",
        "call_plexus_schema",
    )


def test_a_whole_stream_is_one_document() -> None:
    """SUB-3: buffered, for a client that takes no stream."""
    done = notification("m", 12, {"type": "done"})
    said: list[Result | Notification | Pause] = [Result(3, Rendered(b"12")), Pause(), done]
    assert collected(said) == Result(3, {"subscription": 12, "items": [{"type": "done"}]})


numbers = st.integers(-(2**63), 2**63 - 1)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
kinds = st.sampled_from([None, "bash.stdout", JSON, TEXT, BLOCK])
events = st.one_of(
    st.text().map(Text),
    st.builds(Data, values, kinds, st.none() | st.text()),
    st.sampled_from([Content(IMAGE), Content({"type": "text", "text": "alone"}), Pause(), Detach()]),
    st.builds(Progress, numbers, st.none() | numbers, st.none() | st.text()),
    st.builds(Log, st.sampled_from(["info", "error"]), values),
    st.builds(ToolUse, st.text(), values),
)
endings = st.one_of(st.just(Done()), st.text().map(Failed))


@settings(deadline=None)
@given(st.lists(events, max_size=12), endings)
def test_items_that_are_read_back_fold_to_the_answer_of_mcp(said: list[Event], ending: Event) -> None:
    """SUB-1, SUB-22, SUB-23, SUB-C4, SUB-C5: two views of one activation are equal in content."""
    stream: list[Event] = [*said, ending]
    sent: list[Any] = [parse(encode(notification("m", 1, item))) for event in stream for item in items(event, STAMP)]
    back = [event for one in sent for event in read_back(one["params"]["result"])]
    assert fold(back) == fold(stream)
    assert [one["params"]["result"]["type"] for one in sent].count("done") == 1
    assert sent[-1]["params"]["result"]["type"] == "done"
