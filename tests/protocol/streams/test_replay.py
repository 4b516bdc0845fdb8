"""Streams that are read again, sessions and channels: what other processes wrote, and what they can write no more."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pytest

from patchbay.coordination.process_liveness import Heartbeat, ProcessLiveness
from patchbay.errors import ContentError, UnknownSession
from patchbay.events import Pause, Wait, wait_blocking
from patchbay.messages.callers import LegacySession
from patchbay.messages.versions import REVISIONS
from patchbay.protocol.admission.sessions import Sessions
from patchbay.protocol.streams.legacy_channels import Channel
from patchbay.protocol.streams.replay import GONE, NOT_KEPT, Recorder, Replay
from patchbay.stores.memory import MemoryStore
from patchbay.topics import ENDING, SESSION_ENDED
from tests.waiting import BOUND

ANSWER = orjson.dumps({"jsonrpc": "2.0", "id": 7, "result": {}})
PROGRESS = orjson.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
MOST = 1024 * 1024


class Silent(Heartbeat):
    """The heartbeat of a process that was killed right after it began to write: it has no beat."""

    def begin(self) -> None:
        """Record no beat."""


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


@pytest.fixture
def session(store: MemoryStore) -> LegacySession:
    return Sessions(b"k" * 32, store.journal).open("zoo", REVISIONS["2025-11-25"], {}, "local")


def replay(store: MemoryStore, session: LegacySession, stream: str, keepalive: float = 60) -> Replay:
    found = Replay(ProcessLiveness(store), session, stream, keepalive, 60)
    assert found.is_stored()
    return found


def messages(events: Iterator[tuple[str, bytes] | Pause | Wait]) -> list[tuple[str, Any]]:
    """What came, without the pauses."""
    return [(item[0], orjson.loads(item[1])) for item in wait_blocking(events) if isinstance(item, tuple)]


def test_a_stream_whose_process_is_gone_ends_with_an_error_for_its_request(
    store: MemoryStore, session: LegacySession
) -> None:
    """SPEC-DIGEST 1.8: no reader waits for an event that cannot come; the end is written once for all readers."""
    recorder = Recorder(store, session, 60, 7, Silent(store), MOST)
    recorder.keep(PROGRESS)
    first = messages(replay(store, session, recorder.name)(0))
    assert [id for id, _ in first] == [f"{recorder.name}-1", f"{recorder.name}-2"]
    assert (first[1][1]["id"], first[1][1]["error"]["message"]) == (7, GONE)
    assert messages(replay(store, session, recorder.name)(0)) == first
    assert messages(replay(store, session, recorder.name)(2)) == []


def test_a_stream_of_a_request_with_a_huge_id_ends_with_that_id(store: MemoryStore, session: LegacySession) -> None:
    recorder = Recorder(store, session, 60, 10**30, Silent(store), MOST)
    recorder.keep(PROGRESS)
    events = wait_blocking(replay(store, session, recorder.name)(1))
    (answer,) = [item[1] for item in events if isinstance(item, tuple)]
    assert json.loads(answer)["id"] == 10**30


def test_a_stored_answer_is_the_only_one(store: MemoryStore, session: LegacySession) -> None:
    """The process was lost between the answer and the end of the stream."""
    recorder = Recorder(store, session, 60, 7, Silent(store), MOST)
    recorder.keep(ANSWER)
    assert messages(replay(store, session, recorder.name)(0)) == [(f"{recorder.name}-1", orjson.loads(ANSWER))]


def test_a_full_stream_stores_the_answer_and_no_more_progress(store: MemoryStore, session: LegacySession) -> None:
    """X-10: a tool that talks without end does not fill the store."""
    recorder = Recorder(store, session, 60, 7, Heartbeat(store), 2 * len(PROGRESS))
    ids = [recorder.keep(PROGRESS, needed=False) for _ in range(4)]
    assert ids == [f"{recorder.name}-1", f"{recorder.name}-2", None, None]
    assert recorder.keep(ANSWER) == f"{recorder.name}-3"
    recorder.end()
    recorder.leave()
    assert [id for id, _ in messages(replay(store, session, recorder.name)(1))] == [
        f"{recorder.name}-{n}" for n in (2, 3)
    ]


def failing(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The journal of the store takes nothing as long as there is something in the list that is answered."""
    append, reasons = store.journal.append_all, list[str]()

    def appended(entries: Sequence[tuple[str, bytes, float | None]], last: Mapping[str, int]) -> list[int]:
        if reasons:
            raise ContentError(reasons[0])
        return append(entries, last)

    monkeypatch.setattr(store.journal, "append_all", appended)
    return reasons


def test_a_failing_store_loses_messages_but_not_the_call(
    store: MemoryStore, session: LegacySession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """T9.9: a full disk stops no tool."""
    reasons = failing(store, monkeypatch)
    recorder = Recorder(store, session, 60, 7, Heartbeat(store), MOST)
    assert recorder.keep(PROGRESS) == f"{recorder.name}-1"
    reasons.append("the disk is full")
    assert recorder.keep(PROGRESS, needed=False) is None
    reasons.clear()
    assert recorder.keep(ANSWER) == f"{recorder.name}-2"
    recorder.end()
    recorder.leave()
    assert [said for _, said in messages(replay(store, session, recorder.name)(1))] == [orjson.loads(ANSWER)]
    assert "is not stored for replay: the disk is full" in caplog.text


def test_an_answer_that_was_not_stored_is_an_error_for_a_resuming_client(
    store: MemoryStore, session: LegacySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = failing(store, monkeypatch)
    recorder = Recorder(store, session, 60, 7, Heartbeat(store), MOST)
    reasons.append("the disk is full")
    assert recorder.keep(ANSWER) is None
    reasons.clear()
    recorder.end()
    recorder.leave()
    ((id, said),) = messages(replay(store, session, recorder.name)(0))
    assert (id, said["id"], said["error"]["message"]) == (f"{recorder.name}-1", 7, NOT_KEPT)


def test_a_stream_of_a_living_process_is_waited_for(store: MemoryStore, session: LegacySession) -> None:
    recorder = Recorder(store, session, 60, 7, Heartbeat(store), MOST)
    steps = replay(store, session, recorder.name, keepalive=0.01)(0)
    events: Iterator[tuple[str, bytes] | Pause | Wait] = wait_blocking(steps)
    assert isinstance(next(events), Pause)
    recorder.keep(ANSWER)
    recorder.end()
    recorder.leave()
    assert [id for id, _ in messages(events)] == [f"{recorder.name}-1"]


@pytest.mark.parametrize("end", [(ENDING, b""), ("session", SESSION_ENDED)])
def test_a_replay_ends_with_the_hub_and_with_the_session(
    store: MemoryStore, session: LegacySession, end: tuple[str, bytes]
) -> None:
    """THREATS X22: also when another process says so, whose session object is not this one."""
    topic = f"session/{session.nonce}" if end[0] == "session" else end[0]
    heartbeat = Heartbeat(store)
    recorder = Recorder(store, session, 60, 7, heartbeat, MOST)
    recorder.keep(PROGRESS)
    events = replay(store, session, recorder.name)(0)
    next(events)
    # Another stream of changes of this session says that it is there: that is not an end.
    store.bus.publish(f"session/{session.nonce}", b"12345678")
    reader = threading.Thread(target=lambda: list(events), daemon=True)
    reader.start()
    store.bus.publish(topic, end[1])
    reader.join(BOUND)
    assert not reader.is_alive()
    recorder.leave()


def test_a_stream_without_its_beginning_is_unknown(store: MemoryStore, session: LegacySession) -> None:
    """V-C14: its messages could not be counted any more."""
    store.journal.append(f"stream/{session.nonce}/cut", b"m" + PROGRESS, 60)
    assert not Replay(ProcessLiveness(store), session, "cut", 60, 60).is_stored()


def test_the_end_of_a_session_is_seen_behind_any_number_of_changes(store: MemoryStore) -> None:
    """SPEC-DIGEST 2.3: and what was read is not read again."""
    here = Sessions(b"k" * 32, store.journal)
    session = here.open("zoo", REVISIONS["2025-11-25"], {}, "local")
    other = Sessions(b"k" * 32, store.journal, alone=False)
    for number in range(1001):
        here.change(session, level="info" if number % 2 else "debug")
    here.change(session, level="error")
    assert other.find(session.id, "zoo", "local").level == "error"
    here.change(session, level="alert")
    assert other.find(session.id, "zoo", "local").level == "alert"
    here.change(session, ended=True)
    with pytest.raises(UnknownSession):
        other.find(session.id, "zoo", "local")


def test_the_end_of_a_channel_is_seen_behind_any_number_of_changes(store: MemoryStore) -> None:
    channel = Channel.open(store, "zoo", "local", 60)
    for number in range(1001):
        channel.change(session=str(number))
    assert Channel.find(store, channel.id, "zoo", "local", 60).session_id == "1000"
    channel.change(ended=True)
    with pytest.raises(UnknownSession):
        Channel.find(store, channel.id, "zoo", "local", 60)
