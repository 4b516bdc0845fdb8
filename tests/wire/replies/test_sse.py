"""The bodies of streams, and readers that leave them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from patchbay.activation import CancelFlag
from patchbay.coordination.process_liveness import Heartbeat
from patchbay.errors import ContentError
from patchbay.events import Pause
from patchbay.jsonrpc import Message, Notification, Request, Result, Sign
from patchbay.messages.callers import Caller, LegacySession, TransportInfo
from patchbay.messages.versions import REVISIONS
from patchbay.protocol.admission.sessions import Sessions
from patchbay.settings import Settings
from patchbay.stores.memory import MemoryStore
from patchbay.wire.replies.sse import Body, stream_body
from tests.waiting import BOUND, until

SAID = Request(7, "tools/call", {})


class Call:
    """A call that yields one message, then those it gets; `ended` is set when it is closed before its end."""

    def __init__(self) -> None:
        self.go, self.closed, self.done = threading.Event(), threading.Event(), threading.Event()

    def answers(self) -> Iterator[Message | Sign]:
        try:
            yield Notification("notifications/progress", {})
            assert self.go.wait(BOUND)
            yield Result(7, {})
            self.done.set()
        except GeneratorExit:
            self.closed.set()
            raise


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


def body(store: MemoryStore, call: Call, version: str, session: LegacySession | None, replay_size: int = 1000) -> Body:
    caller = Caller(REVISIONS[version], {}, None, TransportInfo("zoo"), session)
    settings = Settings(data=Path("unused"), store="memory", replay_size=replay_size)
    leave = CancelFlag().leave if caller.revision.modern else None
    return stream_body(Pause(), call.answers(), SAID, caller, Heartbeat(store), settings, lambda _: None, leave)


def test_a_call_whose_reader_leaves_is_cancelled_in_2026_07_28(store: MemoryStore) -> None:
    """SPEC-DIGEST 1.11: closing the stream is the cancellation."""
    call = Call()
    stream = body(store, call, "2026-07-28", None)
    frames = iter(stream)
    assert next(frames) == b":\n\n" and b"progress" in next(frames)
    stream.close()
    assert call.closed.is_set()
    assert list(stream) == []


def full(topic: str, data: bytes, keep: float | None = None) -> int:
    raise ContentError("the disk is full")


def test_progress_that_is_not_stored_has_no_event_id_and_the_answer_has_one(store: MemoryStore) -> None:
    """X-10: a client comes back with the last id that it read, and gets all that was kept after it."""
    call = Call()
    call.go.set()
    session = Sessions(b"k" * 32, store.journal).open("zoo", REVISIONS["2025-11-25"], {}, "local")
    said = [frame for frame in body(store, call, "2025-11-25", session, replay_size=0) if b"data: {" in frame]
    assert [(b"progress" in frame, b"id: " in frame) for frame in said] == [(True, False), (False, True)]


def test_a_stream_that_cannot_be_stored_is_answered_anyway(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails costs the replay, not the call; also when the hub ends while a call goes on alone."""
    session = Sessions(b"k" * 32, store.journal).open("zoo", REVISIONS["2025-11-25"], {}, "local")
    kept, lost = Call(), Call()
    stream = body(store, kept, "2025-11-25", session)
    stream.next_step()
    stream.close()
    monkeypatch.setattr(store.journal, "append", full)
    kept.go.set()
    assert kept.done.wait(BOUND)
    lost.go.set()
    said = [frame for frame in body(store, lost, "2025-11-25", session) if b"data: {" in frame]
    assert [b"id: " in frame for frame in said] == [False, False] and b'"result"' in said[1]


def test_a_call_of_a_session_goes_on_without_its_reader(store: MemoryStore) -> None:
    """SPEC-DIGEST 1.8: the messages that the client did not read are stored for it."""
    call = Call()
    session = Sessions(b"k" * 32, store.journal).open("zoo", REVISIONS["2025-11-25"], {}, "local")
    stream = body(store, call, "2025-11-25", session)
    name = next(iter(stream)).decode().split("\n")[0][4:].rpartition("-")[0]
    stream.close()
    call.go.set()
    assert call.done.wait(BOUND)
    topic = f"stream/{session.nonce}/{name}"
    until(lambda: store.journal.read(topic)[-1].data == b"e", "the end is kept")
    assert orjson.loads(store.journal.read(topic)[-2].data[1:])["id"] == 7
    assert list(stream) == [] and not call.closed.is_set()
    stream.close()
