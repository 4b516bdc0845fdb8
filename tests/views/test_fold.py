"""The one fold: events become a tool result."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.events import (
    Ask,
    Content,
    Data,
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
from patchbay.views.fold import Fold, fold

IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def test_adjacent_text_is_one_item_and_other_items_keep_their_order() -> None:
    """SUB-C4: one concatenated text between other items."""
    events: list[Event] = [Text("a"), Text("b"), Content(IMAGE), Text("c"), Done()]
    assert fold(events) == {"content": [text("ab"), IMAGE, text("c")]}


def test_silent_events_do_not_cut_a_text() -> None:
    question = Ask({"a": Question("roots/list", {})})
    silent: list[Event] = [Pause(), Progress(1), Log("info", "x"), ToolUse("t"), question]
    events: list[Event] = [Text("a"), *silent, Text("b"), Done()]
    assert fold(events) == {"content": [text("ab")]}


def test_the_only_data_is_structured_and_readable() -> None:
    """SUB-23: the result as pretty JSON text."""
    assert fold([Data({"ä": [1]}), Done()]) == {
        "content": [text('{\n  "ä": [\n    1\n  ]\n}')],
        "structuredContent": {"ä": [1]},
    }


def test_of_several_data_without_text_the_last_is_structured() -> None:
    events: list[Event] = [Data({"code": 1}, text=""), Text("a line"), Data({"code": 0}, text=""), Done()]
    assert fold(events) == {"content": [text("a line")], "structuredContent": {"code": 0}}


def test_falsy_data_is_structured_too() -> None:
    assert fold([Data(None), Done()]) == {"content": [text("null")], "structuredContent": None}
    assert fold([Data(False), Done()]) == {"content": [text("false")], "structuredContent": False}


def test_a_string_as_data_is_shown_without_quotes() -> None:
    assert fold([Data("red"), Done()]) == {"content": [text("red")], "structuredContent": "red"}


def test_several_data_are_items_of_their_own_and_not_structured() -> None:
    assert fold([Data(1), Data(2), Done()]) == {"content": [text("1"), text("2")]}


def test_data_with_words_of_its_own_is_text_and_the_one_without_is_structured() -> None:
    """SUB-C5: a command says lines, which are text, and an exit code, which is not."""
    lines = [Data({"line": "a"}, "bash.event", "a\n"), Data({"line": "b"}, "bash.event", "b")]
    end = Data({"code": 0}, "bash.event", "")
    assert fold([*lines, end, Done()]) == {"content": [text("a\nb")], "structuredContent": {"code": 0}}
    assert fold([*lines, end, Failed("broke")]) == {"content": [text("a\nb"), text("broke")], "isError": True}
    assert fold([lines[0], Done()]) == {"content": [text("a\n")], "structuredContent": {"line": "a"}}
    assert fold([*lines, Done()]) == {"content": [text("a\nb")]}
    assert fold([end, Done()]) == {"content": [text('{\n  "code": 0\n}')], "structuredContent": {"code": 0}}


def test_huge_integers_are_written_out() -> None:
    assert fold([Data([2**70]), Done()])["content"] == [text("[\n  1180591620717411303424\n]")]


def test_tool_use_is_noted_only_where_there_is_no_text() -> None:
    """SUB-C4: tool notes are in the result only if there is no text."""
    assert fold([ToolUse("bash"), Done()]) == {"content": [text("Using tool: bash")]}
    assert fold([ToolUse("bash"), Content(IMAGE), Done()]) == {"content": [IMAGE, text("Using tool: bash")]}
    assert fold([ToolUse("bash"), Text("x"), Done()]) == {"content": [text("x")]}


def test_a_failure_keeps_the_partial_output_and_adds_its_message_last() -> None:
    """SUB-C6: partial output, then the error."""
    assert fold([Text("half"), Data(1), Failed("broke")]) == {
        "content": [text("half"), text("1"), text("broke")],
        "isError": True,
    }


def test_a_stream_without_an_ending_counts_as_failed() -> None:
    """SUB-C6: the final message is always there."""
    assert fold([Text("half")]) == {"content": [text("half"), text("ended without a result")], "isError": True}
    assert fold([]) == {"content": [text("ended without a result")], "isError": True}


def test_nothing_captured_is_an_empty_result() -> None:
    assert fold([Done()]) == {"content": []}


def test_nothing_counts_after_the_ending() -> None:
    assert fold([Text("a"), Done(), Text("b"), Failed("late")]) == {"content": [text("a")]}


def test_the_ending_can_be_looked_at() -> None:
    collected = Fold()
    assert collected.ending is None
    collected.add(Failed("x"))
    assert collected.ending == Failed("x")


events = st.one_of(
    st.text().map(Text),
    st.just(Content(IMAGE)),
    st.integers().map(Data),
    st.builds(Data, st.integers(), st.none(), st.text(max_size=5)),
    st.just(Pause()),
    st.just(Progress(1)),
    st.just(ToolUse("t")),
)
endings = st.sampled_from([[Done()], [Failed("x")], []])


def in_pieces(said: list[Event], cuts: st.DataObject) -> list[Event]:
    """The same events, with the texts cut anywhere."""
    cut: list[Event] = []
    for event in said:
        if isinstance(event, Text):
            place = cuts.draw(st.integers(0, len(event.text)))
            cut += [Text(event.text[:place]), Pause(), Text(event.text[place:])]
        else:
            cut.append(event)
    return cut


@settings(deadline=None)
@given(st.lists(events), endings, st.data())
def test_the_result_does_not_depend_on_how_the_texts_are_cut(said: list[Event], end: list[Event], cuts: Any) -> None:
    """SUB-C4: chunks are not items."""
    assert fold(in_pieces([*said, *end], cuts)) == fold([*said, *end])


@settings(deadline=None)
@given(st.lists(events), endings)
def test_a_result_taken_early_again_and_again_changes_nothing(said: list[Event], end: list[Event]) -> None:
    """SUB-22: buffered equals streamed."""
    collected = Fold()
    for event in (*said, *end):
        collected.add(event)
        assert collected.result() == collected.result()
    assert collected.result() == fold([*said, *end])


def test_json_that_nests_deeply_does_not_become_hundreds_of_times_as_long() -> None:
    """THREATS 1.1 (unbounded consumption): a short filter makes such a value, and its text would be kept."""
    value: Any = [1] * 60_000
    for _ in range(200):
        value = [value]
    for one in (value, [2**70, value]):
        assert len(fold([Data(one), Done()])["content"][0]["text"]) < 1_000_000
    assert fold([Data([[1]]), Done()])["content"][0]["text"] == "[\n  [\n    1\n  ]\n]"
