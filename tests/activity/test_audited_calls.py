"""Rows of calls in the audit chain of a hub: what they name, what is dropped, and repeated calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access.approvals import Approval, CallDigest
from patchbay.access.audit.chain import AuditChain, newest_rows
from patchbay.access.audit.verification import verify
from patchbay.activity import recorder as writer
from patchbay.activity.audited_calls import QUEUE_FULL, AuditedCalls
from patchbay.activity.recorder import Activity
from patchbay.activity.records import Filter
from patchbay.catalogue.servers.server import Server
from patchbay.cid import canonical, cid_of
from patchbay.errors import InvalidParams, StaleUpdate, StoreAway
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.replaying import find_record, replay
from patchbay.settings import Settings
from patchbay.stores import open_store
from patchbay.stores.memory import MemoryStore
from tests.access.audit.chains import exported, signer
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub, modern_request

GRANTS = {
    "grants": [{"to": ["key:ann"], "may": ["see", "call", "read"], "on": ["notes.*"]}],
    "denials": [{"to": ["*"], "on": ["notes.delete_*"]}],
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    made = team_hub(tmp_path_factory.mktemp("hub"), activity_contents="keep")
    set_grants(made, GRANTS)
    yield made
    made.activity.close()
    made.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> dict[str, str]:
    return new_key(hub, "ann")


def last(hub: Hub) -> dict[str, Any]:
    """The row of the newest call."""
    hub.activity.flush()
    row = next(row for row in newest_rows(hub.catalogue.store.journal, 5) if row["kind"] == "call")
    return row | {name: row[name] and canonical(row[name]) for name in ("arguments", "result")}


def send(hub: Hub, ann: dict[str, str], server: str, method: str, params: dict[str, Any]) -> Any:
    body, headers = modern_request(method, params)
    return hub.send(server, body, headers | ann)


def test_a_row_names_who_called_what_and_why_it_was_allowed(hub: Hub, ann: dict[str, str]) -> None:
    """ACCESS 7: the fields of a row."""
    said = send(hub, ann, "notes", "tools/call", {"name": "search", "arguments": {"text": "a"}}).result
    row, server = last(hub), hub.catalogue.find("notes")
    assert (row["principal"], row["agent"], row["approval"]) == ("key:ann", "", None)
    document = hub.catalogue.store.names.get("variables/access")
    assert row["decision"] == {"allowed": True, "because": "grant 1", "document": document}
    assert row["configuration"] == server.config_cid and row["version"] == server.version
    assert row["tool"] == server.tools["search"].digest and row["outcome"] == "ok" and row["us"] > 0
    content = {"content": said["content"], "isError": said.get("isError", False)}
    assert row["arguments"] == cid_of(b'{"text":"a"}')
    assert row["result"] == cid_of(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))
    record = hub.activity.find(row["record"])
    assert record is not None and (record.arguments_cid, record.answer_cid) == (row["arguments"], row["result"])


def test_a_denied_call_has_a_row_with_the_denial(hub: Hub, ann: dict[str, str]) -> None:
    send(hub, ann, "notes", "tools/call", {"name": "delete_note", "arguments": {"id": "1"}})
    row = last(hub)
    assert row["decision"]["allowed"] is False and row["decision"]["because"] == "denial 1"
    assert row["name"] == "delete_note" and row["tool"] is None and row["outcome"] != "ok"


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("resources/read", {"uri": "notes://plan"}, "notes://plan"),
        ("resources/read", {"uri": "note://7"}, "note://{id}"),
        ("prompts/get", {"name": "ask", "arguments": {"topic": "x"}}, "ask"),
    ],
)
def test_resources_and_prompts_have_rows_with_the_grant_to_read(
    hub: Hub, ann: dict[str, str], method: str, params: dict[str, Any], name: str
) -> None:
    send(hub, ann, "notes", method, params)
    row = last(hub)
    assert (row["method"], row["name"], row["outcome"]) == (method, name, "ok")
    assert row["decision"]["allowed"] and row["decision"]["because"] == "grant 1"


def test_large_arguments_and_results_have_cids_without_being_stored(hub: Hub, ann: dict[str, str]) -> None:
    text = "x" * 40_000
    send(hub, ann, "notes", "tools/call", {"name": "search", "arguments": {"text": text}})
    row = last(hub)
    assert row["arguments"] == cid_of(orjson.dumps({"text": text})) and row["kept"] is False
    content = {"content": [{"text": f"found {text}", "type": "text"}], "isError": False}
    assert row["result"] == cid_of(orjson.dumps(content))


def test_calls_over_plain_http_have_rows_with_results(hub: Hub, ann: dict[str, str]) -> None:
    assert hub.client.post("/notes/search", json={"text": "b"}, headers=ann).text == "found b"
    row = last(hub)
    assert row["way"] == "plain"
    assert row["name"] == "search" and row["arguments"] == cid_of(b'{"text":"b"}') and row["result"] is not None


def test_repeated_calls_give_equal_results_for_a_deterministic_tool(hub: Hub, ann: dict[str, str]) -> None:
    """Issue 16: replay of 100 records gives equal result CIDs."""
    dispatcher = hub.app.parts.dispatcher
    for number in range(50):
        send(hub, ann, "notes", "tools/call", {"name": "search", "arguments": {"text": str(number)}})
        hub.send("notes", call_message("search", {"text": f"old {number}"}), ann)
    hub.activity.flush()
    newest = newest_rows(hub.catalogue.store.journal, 150)
    rows = [row for row in newest if row.get("name") == "search" and row["kept"]][:100]
    assert len(rows) == 100
    for row in rows:
        found = replay(dispatcher, find_record(dispatcher, str(row["seq"])))
        assert found.is_equal and found.now == canonical(row["result"])
    assert last(hub)["way"] == "replay" and last(hub)["principal"] == "local"


def call_message(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A tools/call as revisions without sessions send it."""
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def test_a_repeated_call_shows_another_result_and_refuses_what_it_cannot_repeat(hub: Hub, ann: dict[str, str]) -> None:
    dispatcher = hub.app.parts.dispatcher
    send(hub, ann, "notes", "tools/call", {"name": "delete_note", "arguments": {"id": "1"}})
    assert not replay(dispatcher, find_record(dispatcher, last(hub)["record"])).is_equal, "the operator may call it"
    send(hub, ann, "notes", "resources/read", {"uri": "note://8"})
    assert replay(dispatcher, find_record(dispatcher, last(hub)["record"])).is_equal
    send(hub, ann, "notes", "tools/call", {"name": "search", "arguments": {"text": "x" * 40_000}})
    with pytest.raises(InvalidParams, match="has no arguments or no result"):
        replay(dispatcher, find_record(dispatcher, last(hub)["record"]))
    for id, message in (("1", "no row 1"), ("999999", "no row 999999"), ("99999-1", "there is no record")):
        with pytest.raises(InvalidParams, match=message):
            find_record(dispatcher, id)


def test_the_chain_of_the_hub_verifies(hub: Hub) -> None:
    hub.activity.close()
    found = exported(hub.catalogue.store.journal)
    verdict = verify(found)
    assert verdict.ok and verdict.rows > 100
    rooms = hub.app.parts.dispatcher.services.rooms
    assert verdict.key == rooms.signer.public


@pytest.mark.parametrize(
    ("settings", "is_audited"),
    [
        (Settings(), False),
        (Settings(access="open"), False),
        (Settings(access="shared"), True),
        (Settings(host="0.0.0.0"), True),
        (Settings(audit="on"), True),
        (Settings(access="shared", audit="off"), False),
    ],
)
def test_the_audit_chain_is_on_in_shared_mode_unless_it_is_set(settings: Settings, is_audited: bool) -> None:
    assert settings.is_audited is is_audited


SERVER = Server("alone", "bafkversion", "static")


def audited(store: Any, settings: Settings) -> Activity:
    return Activity(store, settings, audit=AuditedCalls(AuditChain(store.journal, signer()), lambda: None))


CALL = CallDigest("key:ann", "alone", "bafkversion", "t", "bafktool", cid_of(b"{}"))


def end_calls(activity: Activity, number: int, name: str = "t") -> None:
    for _ in range(number):
        activity.begin("tools/call", name, SERVER, TransportInfo("alone"), {"text": "x"}).end(
            Result(1, {"content": []})
        )


def test_calls_beyond_the_queue_are_a_row_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """ACCESS 7: what was dropped is itself a row."""
    monkeypatch.setattr(writer, "MAX_QUEUED_RECORDS", 20)
    store = MemoryStore()
    activity = audited(store, Settings())
    with activity._writing:
        end_calls(activity, 25)
    activity.close()
    rows = newest_rows(store.journal, 100)
    dropped = sum(row["count"] for row in rows if row["kind"] == "dropped")
    calls = sum(row["kind"] == "call" for row in rows)
    assert dropped == activity.dropped >= 5 and dropped + calls == 25
    assert verify(exported(store.journal)).ok


def test_rows_that_a_failing_store_lost_are_counted_in_the_next_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("sqlite", tmp_path)
    activity = audited(store, Settings())
    append_all = store.journal.append_all

    def fail(*_: Any) -> list[int]:
        raise StaleUpdate("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(store.journal, "append_all", fail)
        end_calls(activity, 3)
        activity.flush()
    assert store.journal.append_all == append_all
    end_calls(activity, 2)
    activity.close()
    rows = newest_rows(store.journal, 10)
    assert [row["count"] for row in rows if row["kind"] == "dropped"] == [3]
    assert sum(row["kind"] == "call" for row in rows) == 2 and verify(exported(store.journal)).ok
    store.close()


@pytest.mark.parametrize("is_stored", [True, False])
def test_rows_wait_while_the_store_is_away_and_are_written_once(
    is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.6: the rows of calls, of a decision and of what was dropped, also when only the answer was lost."""
    store = MemoryStore()
    activity = audited(store, Settings(activity_days=0))
    assert activity.audit is not None
    append_all = store.journal.append_all

    def lose_answer(*given: Any) -> list[int]:
        if is_stored:
            append_all(*given)
        raise StoreAway("no answer")

    with monkeypatch.context() as away:
        away.setattr(store.journal, "append_all", lose_answer)
        activity.audit.drop(5, QUEUE_FULL)
        activity.audit.add_decision(Approval("1", CALL, None, 0, 9, "approved", 1, "operator"))
        end_calls(activity, 3)
        activity.flush()
        end_calls(activity, 1)
        activity.flush()
        assert activity.waiting
    activity.close()
    rows = newest_rows(store.journal, 20)
    kinds = [row["kind"] for row in rows if row["kind"] != "head"]
    assert sorted(kinds) == ["approval", *["call"] * 4, "dropped"]
    assert [row["count"] for row in rows if row["kind"] == "dropped"] == [5]
    assert verify(exported(store.journal)).ok


def test_a_hub_that_keeps_no_records_has_a_chain_without_contents() -> None:
    store = MemoryStore()
    activity = audited(store, Settings(activity_days=0, activity_contents="none"))
    end_calls(activity, 2, "na\udc80me")
    activity.close()
    rows = [row for row in newest_rows(store.journal, 10) if row["kind"] == "call"]
    assert [(row["record"], row["arguments"], row["result"], row["name"]) for row in rows] == [
        (None, None, None, "na?me")
    ] * 2
    assert activity.recent(Filter()).records == [] and verify(exported(store.journal)).ok
