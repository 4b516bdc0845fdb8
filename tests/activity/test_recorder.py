"""Activity: every call gets one record, with every ending, and no call waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.activation import Call
from patchbay.activity.call_recording import digest_of
from patchbay.activity.records import (
    OUTCOMES,
    Filter,
    Record,
)
from patchbay.errors import InvalidParams
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.topics import ACTIVITY
from tests.hubs import Hub, modern_request
from tests.protocol.tasks.jobs import FILES as JOBS
from tests.protocol.tasks.jobs import KNOWS

QUICK = '''"""Ends of every kind."""

import time


def say(text: str = "hello") -> str:
    """Say something."""
    return text


def counts(context) -> str:
    """Take three steps."""
    for step in range(3):
        context.progress(step + 1, 3)
    return "done"


def fails() -> str:
    """Fail."""
    raise ValueError("no luck")


def hangs() -> str:
    """Never end by itself."""
    while True:
        time.sleep(0.01)


def asks(context) -> str:
    """Ask the caller."""
    return str(context.elicit("Name?", {"type": "object", "properties": {}}, key="name"))


def login(user: str, password: str) -> str:
    """Know a secret."""
    return f"{user} {password}"


def note() -> str:
    """A resource."""
    return "noted"
'''

CONFIG: dict[str, Any] = {
    "auto_discover": True,
    "timeout": 0.3,
    "isolation": "inline",
    "tools": {
        "login": {
            "inputSchema": {
                "type": "object",
                "properties": {"user": {"type": "string"}, "password": {"type": "string", "format": "password"}},
            }
        }
    },
    "resources": {"note": {"uri": "quick://note", "name": "Note", "function": "note"}},
    "prompts": {
        "greet": {
            "arguments": [{"name": "who", "required": True}],
            "messages": [{"role": "user", "content": {"type": "text", "text": "Greet {{who}}."}}],
        }
    },
}
FILES = {"quick.py": QUICK, "quick.mcp.json": orjson.dumps(CONFIG).decode()} | JOBS


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("activity"), FILES)
    yield hub
    hub.close()


def newest(hub: Hub) -> Record:
    return hub.activity.recent(Filter(), 1).records[0]


def test_a_record_has_the_caller_the_call_and_its_outcome(hub: Hub) -> None:
    session = hub.open("quick")
    answer = hub.legacy("quick", "tools/call", {"name": "say", "arguments": {"text": "hi"}}, session)
    server, record = hub.catalogue.find("quick"), newest(hub)
    assert answer.text == "hi"
    assert (record.method, record.server, record.name, record.outcome) == ("tools/call", "quick", "say", "ok")
    assert (record.version, record.definition) == (server.version, server.definition)
    assert record.digest == server.tools["say"].digest
    assert (record.client, record.revision, record.way) == ("tests 1", "2025-11-25", "http")
    assert (record.endpoint, record.principal, record.code) == ("quick", "local", None)
    assert record.session is not None and record.session not in ("", session)
    assert record.events == 2 and record.progress == 0
    assert record.first_ms is not None and 0 < record.first_ms <= record.ms
    assert record.arguments == {"text": "hi"}
    assert record.answer == {"content": [{"type": "text", "text": "hi"}], "isError": False}
    assert record.size == len(orjson.dumps(record.answer))
    shown = record.to_json()
    assert shown["time"].endswith("+00:00") and orjson.loads(orjson.dumps(shown)) == shown
    assert "arguments" not in record.summary() and "arguments_cid" in record.summary()


ENDS = [
    ("tools/call", {"name": "say"}, "ok", None),
    ("tools/call", {"name": "fails"}, "tool_error", None),
    ("tools/call", {"name": "nobody"}, "tool_error", None),
    ("tools/call", {"name": "say", "arguments": {"text": 7}}, "tool_error", None),
    ("tools/call", {"name": 7}, "error", -32602),
    ("tools/call", {"name": "hangs"}, "timeout", None),
    ("resources/read", {"uri": "quick://note"}, "ok", None),
    ("resources/read", {"uri": "quick://nothing"}, "error", -32002),
    ("prompts/get", {"name": "greet", "arguments": {"who": "Ann"}}, "ok", None),
    ("prompts/get", {"name": "greet"}, "error", -32602),
]


@pytest.mark.parametrize(("method", "params", "outcome", "code"), ENDS)
def test_every_end_has_its_outcome(
    hub: Hub, method: str, params: dict[str, Any], outcome: str, code: int | None
) -> None:
    hub.legacy("quick", method, params)
    record = newest(hub)
    assert (record.method, record.outcome, record.code) == (method, outcome, code)
    assert record.outcome in OUTCOMES
    if outcome == "timeout":
        assert record.ms >= 300


@pytest.mark.parametrize(("seconds", "outcome"), [(60.0, "tool_error"), (0.0, "timeout")])
def test_a_failure_after_a_deadline_that_moved_is_no_timeout(hub: Hub, seconds: float, outcome: str) -> None:
    """A deadline moves with progress, and with the wait for an approval."""
    call = Call("quick", {}, {}, time.monotonic() - 1)
    server = hub.catalogue.find("quick")
    with hub.activity.begin("tools/call", "say", server, TransportInfo("quick")) as record:
        record.calls(server.tools["say"], call)
        call.deadline += seconds
        record.end(Result(1, {"content": [], "isError": True}))
    assert newest(hub).outcome == outcome


def test_a_question_and_a_task_are_outcomes_of_their_own(hub: Hub) -> None:
    assert hub.modern("quick", "tools/call", {"name": "asks"}, KNOWS).result["resultType"] == "input_required"
    assert newest(hub).outcome == "input_required"
    made = hub.modern("jobs", "tools/call", {"name": "work"}, KNOWS).result
    record = newest(hub)
    assert (record.outcome, record.task) == ("task", digest_of(made["taskId"]))


def test_a_caller_that_leaves_a_modern_stream_has_cancelled(hub: Hub) -> None:
    """X4"""
    meta = {"progressToken": 1, "io.modelcontextprotocol/clientInfo": {"name": "leaver", "version": "2"}}
    stream = hub.stream("quick", *modern_request("tools/call", {"name": "hangs"}, meta=meta))
    next(stream)
    running = {run.name for run in hub.activity.running}
    stream.close()
    record = newest(hub)
    assert running == {"hangs"} and not hub.activity.running
    assert (record.name, record.outcome, record.client) == ("hangs", "cancelled", "leaver 2")
    assert record.reason == "the caller disconnected" == record.for_strangers().reason
    page = hub.as_operator().client.get(f"/activity/{record.id}", headers={"Accept": "text/html"}).text
    assert "cancelled, no response: the caller disconnected" in page
    assert "There was no answer: the caller disconnected." in page


@pytest.mark.parametrize(("mode", "reason"), [("keep", "user pressed stop"), ("digest", "")])
def test_the_reason_of_a_cancellation_by_a_client_is_kept_with_contents_only(
    tmp_path: Path, mode: str, reason: str
) -> None:
    with closing(Hub(tmp_path, FILES, activity_contents=mode)) as hub:
        session = hub.open("quick")
        own = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": session}
        message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
        call = message | {"params": {"name": "hangs", "_meta": {"progressToken": 1}}}
        stream = hub.stream("quick", call, own | {"Accept": "application/json, text/event-stream"})
        next(stream)
        params = {"requestId": 5, "reason": "user pressed stop"}
        hub.send("quick", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}, own)
        assert not any(b'"result"' in part for part in stream)
        record = newest(hub)
        assert (record.outcome, record.reason) == ("cancelled", reason)
        assert record.for_strangers().reason == ""


def test_progress_is_counted(hub: Hub) -> None:
    hub.call("quick", "counts")
    record = newest(hub)
    assert (record.progress, record.events) == (3, 5)


def test_at_the_endpoint_of_all_servers_the_record_names_the_one_that_answered(hub: Hub) -> None:
    session = hub.open("")
    hub.legacy("", "tools/call", {"name": "quick.say"}, session)
    record = newest(hub)
    assert (record.endpoint, record.server, record.name) == ("", "quick", "say")


def test_methods_that_run_nothing_leave_no_record(hub: Hub) -> None:
    hub.call("quick", "say")
    before = newest(hub).id
    hub.legacy("quick", "tools/list")
    hub.legacy("quick", "ping")
    assert newest(hub).id == before


def test_secret_arguments_leave_no_trace_but_the_call_does(hub: Hub) -> None:
    """THREATS 1.7: neither they nor what was made of them, not even where the call is refused."""
    hub.call("quick", "login", {"user": "ann", "password": "canary-7"})
    hub.call("quick", "login", {"user": "ann", "password": 7})
    found = hub.activity.recent(Filter(tool="login")).records
    assert [record.outcome for record in found] == ["tool_error", "ok"]
    for record in found:
        assert (record.arguments, record.arguments_cid, record.answer, record.answer_cid) == (None,) * 4
    entries = hub.catalogue.store.journal.tail(ACTIVITY, 1000)
    assert not any(b"canary-7" in entry.data for entry in entries)


def recorded(folder: Path, **settings: Any) -> Record:
    """The record of one call in a hub with these settings."""
    config = settings.pop("config", {})
    files = {"quick.py": QUICK, "quick.mcp.json": orjson.dumps(CONFIG | config).decode()}
    hub = Hub(folder, files, **settings)
    with closing(hub):
        hub.call("quick", "say", {"text": settings.pop("text", "hi")})
        return newest(hub)


def test_in_digest_mode_the_cids_are_those_of_the_contents(tmp_path: Path) -> None:
    kept = recorded(tmp_path / "a")
    digested = recorded(tmp_path / "b", activity_contents="digest")
    assert (digested.arguments, digested.answer) == (None, None)
    assert digested.arguments_cid == kept.arguments_cid is not None
    assert digested.answer_cid == kept.answer_cid is not None


@pytest.mark.parametrize(
    ("settings", "kept", "known"),
    [
        ({"host": "0.0.0.0", "access": "open"}, False, True),
        ({"access": "open"}, False, True),
        ({"access": "open", "activity_contents": "keep"}, True, True),
        ({"host": "::1"}, True, True),
        ({"activity_contents": "none"}, False, False),
        ({"config": {"activity": "digest"}}, False, True),
        ({"config": {"activity": "none"}}, False, False),
        ({"config": {"activity": "keep"}, "activity_contents": "digest"}, False, True),
    ],
)
def test_the_stored_contents_are_the_minimum_of_hub_and_server(
    tmp_path: Path, settings: dict[str, Any], kept: bool, known: bool
) -> None:
    record = recorded(tmp_path, **settings)
    assert (record.arguments is not None, record.arguments_cid is not None) == (kept, known)
    assert (record.answer is not None, record.answer_cid is not None) == (kept, known)


def test_large_arguments_and_answers_are_not_stored(hub: Hub) -> None:
    hub.call("quick", "say", {"text": "x" * 20_000})
    record = newest(hub)
    assert (record.arguments, record.arguments_cid, record.answer, record.answer_cid) == (None,) * 4
    assert record.size == 20_000


def test_records_are_found_by_server_tool_outcome_and_time_page_by_page(tmp_path: Path) -> None:
    with closing(Hub(tmp_path, FILES)) as hub:
        activity = hub.activity
        for number in range(7):
            hub.call("quick", "say", {"text": str(number)})
            hub.call("quick", "fails")
            if number % 3 == 0:
                activity.flush()
        said = [record.arguments["text"] for record in activity.recent(Filter(tool="say")).records]
        assert said == ["6", "5", "4", "3", "2", "1", "0"]
        assert len(activity.recent(Filter(outcome="tool_error")).records) == 7
        assert activity.recent(Filter(server="jobs")).records == []
        every, before = [], None
        while True:
            page = activity.recent(Filter(), 4, before)
            every += [record.id for record in page.records]
            before = page.next
            if before is None:
                break
        assert len(every) == len(set(every)) == 14
        sixth = activity.find(every[5])
        assert sixth is not None
        assert [r.id for r in activity.recent(Filter(since=sixth.at + 0.001)).records] == [
            one for one in every[:5] if (found := activity.find(one)) and found.at >= sixth.at + 0.001
        ]


def test_an_invalid_id_is_refused_and_a_deleted_record_is_not_found(hub: Hub) -> None:
    activity = hub.activity
    for text in ("", "7", "a-b", "7-", "-1-2", "1-99999", "9" * 30 + "-1"):
        with pytest.raises(InvalidParams, match="not the id of a record"):
            activity.find(text)
    assert activity.find("999999999-0") is None
    hub.call("quick", "say")
    assert activity.find(newest(hub).id.split("-")[0] + "-9999") is None
