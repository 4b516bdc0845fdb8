"""Records beside a hub: the writer behind them, its bounds, and what becomes of them when the store does not help."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from patchbay.activity import recorder as writer
from patchbay.activity.recorder import Activity
from patchbay.activity.records import (
    Filter,
)
from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidParams
from patchbay.events import Failed
from patchbay.jsonrpc import Failure, Result
from patchbay.messages.callers import TransportInfo
from patchbay.settings import Settings
from patchbay.sqlite import sqlite3
from patchbay.stores import open_store
from patchbay.stores.memory import MemoryStore
from patchbay.topics import ACTIVITY
from tests.checkout import ROOT
from tests.waiting import until

SERVER = Server("alone", "bafkversion", "static")


def ended(activity: Activity, number: int = 1, text: str = "x") -> None:
    for _ in range(number):
        activity.begin("tools/call", "t", SERVER, TransportInfo("alone"), {"text": text}).end(
            Result(1, {"content": []})
        )


def total(activity: Activity) -> int:
    return sum(sum(count.outcomes.values()) for count in activity.counters.counts().values())


def test_a_blocked_store_blocks_no_call_and_lost_records_are_counted(tmp_path: Path) -> None:
    """DESIGN 6: a queue with a bound and a policy; the numbers stay right."""
    store = open_store("sqlite", tmp_path)
    activity = Activity(store, Settings(data=tmp_path))
    held = sqlite3.connect(tmp_path / "patchbay.sqlite3", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    many = writer.MAX_QUEUED_RECORDS + 3 * writer.BATCH
    ended(activity, many)
    assert activity.waiting <= writer.MAX_QUEUED_RECORDS
    held.execute("ROLLBACK")
    held.close()
    activity.flush()
    assert activity.dropped >= many - writer.MAX_QUEUED_RECORDS - 2 * writer.BATCH > 0
    assert total(activity) == many
    assert len(activity.recent(Filter(), many).records) == many - activity.dropped
    activity.close()
    store.close()


def test_a_store_that_fails_fails_no_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store("sqlite", tmp_path)
    activity = Activity(store, Settings())
    store.close()
    ended(activity, 3)
    activity.close()
    assert (activity.failed, total(activity)) == (3, 3)
    assert "could not be written: the store is closed" in caplog.text


def writers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "activity"}


def test_the_writer_ends_when_nothing_comes_and_comes_back(tmp_path: Path) -> None:
    store = MemoryStore()
    activity = Activity(store, Settings(), every=0.01)
    others = writers()

    def written(wanted: int) -> bool:
        return len(store.journal.tail(ACTIVITY)) == wanted

    for number in (1, 2):
        ended(activity)
        until(partial(written, number), "it is written without being asked")
        until(lambda: writers() <= others, "the thread has ended")


def test_records_of_all_processes_are_seen(tmp_path: Path) -> None:
    stores = [open_store("sqlite", tmp_path) for _ in range(2)]
    first, second = (Activity(store, Settings(data=tmp_path)) for store in stores)
    ended(first, text="one")
    first.flush()
    ended(second, text="two")
    assert [record.arguments for record in second.recent(Filter()).records] == [{"text": "two"}, {"text": "one"}]
    assert len(first.recent(Filter()).records) == 2
    for store in stores:
        store.close()


def test_new_records_are_announced_on_the_bus() -> None:
    store = MemoryStore()
    with store.bus.subscribe([ACTIVITY]) as mailbox:
        activity = Activity(store, Settings())
        ended(activity, 3)
        assert mailbox.get(10) == (ACTIVITY, b"")


def test_a_hub_that_keeps_no_records_counts_all_the_same() -> None:
    store = MemoryStore()
    activity = Activity(store, Settings(activity_days=0))
    ended(activity, 3)
    assert activity.recent(Filter()).records == [] and store.journal.tail(ACTIVITY) == []
    assert total(activity) == 3


def test_a_recording_ends_once_with_its_outcome() -> None:
    store = MemoryStore()
    activity = Activity(store, Settings())
    with activity.begin("tools/call", "t", SERVER, TransportInfo("alone")) as run:
        run.end(Result(1, {"content": []}))
        run.end(Failure(1, {"code": 1, "message": "no"}))
    with activity.begin("tools/call", "t", SERVER, TransportInfo("alone")):
        assert len(activity.running) == 1
    with pytest.raises(InvalidParams), activity.begin("tools/call", "t", SERVER, TransportInfo("alone")):
        raise InvalidParams("no")
    with pytest.raises(ValueError, match="no"), activity.begin("tools/call", "t", SERVER, TransportInfo("alone")):
        raise ValueError("no")
    found = [(record.outcome, record.code) for record in activity.recent(Filter()).records]
    assert found == [("error", -32603), ("error", -32602), ("cancelled", None), ("ok", None)]
    assert not activity.running


PROGRAM = """
import sys
from pathlib import Path
from patchbay.catalogue.servers.server import Server
from patchbay.jsonrpc import Result
from patchbay.activity.recorder import Activity
from patchbay.messages.callers import TransportInfo
from patchbay.settings import Settings
from patchbay.stores import open_store
store = open_store("sqlite", Path(sys.argv[1]))
activity = Activity(store, Settings())
for number in range(1200):
    sender = TransportInfo("alone")
    activity.begin("tools/call", "t", Server("alone", "v", "static"), sender).end(Result(1, {"content": []}))
"""


def test_a_process_writes_its_queue_before_it_exits(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=True, cwd=ROOT, timeout=60)
    store = open_store("sqlite", tmp_path)
    assert len(Activity(store, Settings()).recent(Filter(), 2000).records) == 1200
    store.close()


def test_text_that_json_cannot_hold_does_not_lose_other_records() -> None:
    """Half a surrogate pair in a message: names of files have them."""
    activity = Activity(MemoryStore(), Settings(activity_contents="keep"))
    for words in ("fine", "no file caf\udce9", "fine too"):
        with activity.begin("tools/call", "t", SERVER, TransportInfo("alone")) as run:
            run.saw(Failed(words))
            run.end(Result(1, {"content": []}))
    records = activity.recent(Filter()).records
    assert [record.moments[0].words for record in records] == ["fine too", "no file caf?", "fine"]


def test_calls_of_one_batch_keep_what_they_do_not_share(tmp_path: Path) -> None:
    """38.1: the writer finds once what calls of one tool have in common, and nothing of another call."""
    activity = Activity(MemoryStore(), Settings(data=tmp_path))
    other = Server("other", "bafkother", "static")
    given = [(SERVER, "a"), (SERVER, "b"), (other, "a"), (SERVER, "a")]
    for number, (server, name) in enumerate(given):
        run = activity.begin("tools/call", name, server, TransportInfo(server.name), {"number": number})
        run.end(Result(number, {"content": []}))
    records = activity.recent(Filter()).records[::-1]
    assert [(one.server, one.version, one.name) for one in records] == [
        (server.name, server.version, name) for server, name in given
    ]
    assert [one.arguments for one in records] == [{"number": number} for number in range(len(given))]
    assert len({one.id.partition("-")[0] for one in records}) == 1, "they are one entry of the journal"
    activity.close()
