"""The events of a call on a time line: what is kept of them, how much, and when nothing may be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.activity.event_summaries import MAX_EVENTS_PER_CALL, MAX_SUMMARY_CHARACTERS, moment
from patchbay.activity.records import (
    WIDTH,
    Filter,
    Record,
    records_in,
)
from patchbay.events import Ask, Content, Data, Done, Event, Failed, Log, Progress, Question, Text, ToolUse
from patchbay.protocol.streams.listener_slots import ListenerSlots
from patchbay.store import JournalEntry
from patchbay.topics import ACTIVITY
from tests.hubs import Hub

CHATTY = '''def talk(many: int, context) -> str:
    """Talk."""
    for number in range(many):
        context.progress(number, message="x" * 5000)
        context.log({"message": "secret plan"})
    return "done"
'''
CONFIG = '{"auto_discover": true, "isolation": "inline"}'


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, {"chatty.py": CHATTY, "chatty.mcp.json": CONFIG})
    yield hub
    hub.close()


def newest(hub: Hub) -> Record:
    found: Record = hub.activity.recent(Filter(), 1).records[0]
    return found


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        (Text("hello"), "text", "5 characters"),
        (Content({"type": "image", "data": "A" * 999}), "content", "image"),
        (Data({"a": 1}), "data", "JSON"),
        (Data("x", "text/csv"), "data", "text/csv"),
        (Progress(1, 4, "a quarter"), "progress", "1 of 4: a quarter"),
        (Progress(7), "progress", "7"),
        (Log("info", "said"), "log", "info: said"),
        (Log("error", {"a": 1}), "log", "error: an object of 1 values"),
        (Log("debug", [1]), "log", "debug"),
        (ToolUse("other"), "tooluse", "other"),
        (Ask({"q": Question("elicitation/create", {})}), "ask", "elicitation/create"),
        (Done(), "done", ""),
        (Failed("no luck"), "failed", "no luck"),
    ],
)
def test_every_kind_of_event_has_a_short_summary(event: Event, kind: str, words: str) -> None:
    assert moment(1.5, event) == (1.5, kind, words)


def test_no_event_takes_more_than_its_share() -> None:
    for event in (Progress(1, 1, "x" * 10_000), Log("info", "y" * 10_000), Failed("z" * 10_000), ToolUse("w" * 10_000)):
        assert len(moment(0.0, event)[2]) <= MAX_SUMMARY_CHARACTERS


def test_a_record_has_the_first_events_in_their_order_with_their_times(hub: Hub) -> None:
    hub.call("chatty", "talk", {"many": 2})
    record = newest(hub)
    assert [each.kind for each in record.moments] == ["progress", "log", "progress", "log", "text", "done"]
    times = [each.ms for each in record.moments]
    assert times == sorted(times) and times[0] >= 0 and times[-1] <= record.ms
    hub.call("chatty", "talk", {"many": 100})
    record = newest(hub)
    assert (record.events, len(record.moments)) == (202, MAX_EVENTS_PER_CALL)


def test_events_have_no_words_without_stored_contents(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"chatty.py": CHATTY, "chatty.mcp.json": CONFIG}, activity_contents="digest")
    hub.call("chatty", "talk", {"many": 1})
    assert [(each.kind, each.words) for each in newest(hub).moments] == [
        ("progress", ""),
        ("log", ""),
        ("text", ""),
        ("done", ""),
    ]
    journal = hub.catalogue.store.journal
    assert not any(
        b"secret" in orjson.dumps(row.to_json()) for each in journal.tail(ACTIVITY) for row in records_in(each)
    )
    hub.close()


def test_records_of_older_versions_have_no_events_and_can_be_read() -> None:
    row: list[Any] = [1000, 5000, None, "http", "s", "tools/call", "s", "v", None, "t", None, "ok", None, 2, 0, 7]
    row += ["local", None, None, None, None, None, "{}", None, None, None]
    assert len(row) == WIDTH
    [record] = records_in(JournalEntry(7, ACTIVITY, orjson.dumps([row]), 0.0))
    assert (record.id, record.ms, record.arguments, record.moments) == ("7-0", 5.0, {}, ())


@pytest.mark.parametrize(
    ("stored", "shown"), [("is_error", "tool_error"), ("asked", "input_required"), ("timeout", "timeout")]
)
def test_outcomes_in_records_of_older_versions_have_their_present_names(stored: str, shown: str) -> None:
    row: list[Any] = [1000, 5000, None, "http", "s", "tools/call", "s", "v", None, "t", None, stored, None, 2, 0, 7]
    row += ["local", None, None, None, None, None, None, None, None, None, []]
    for contents in (True, False):
        [record] = records_in(JournalEntry(7, ACTIVITY, orjson.dumps([row]), 0.0), contents)
        assert record.outcome == shown


def test_places_are_bounded_and_remember_how_many_were_taken() -> None:
    places = ListenerSlots(2)
    assert [places.acquire() for _ in range(3)] == [True, True, False]
    places.release()
    places.release()
    with pytest.raises(ValueError, match="no place was taken"):
        places.release()
    assert [number for _, number in places.changes()] == [0, 1, 2, 1, 0]
