"""Listeners as a state machine: whatever is opened, changed, left and come back to, each hears what is its own.

Two servers; streams of 2026-07-28 with any filter, and GET streams of sessions that subscribe to resources. After each
run of steps every stream has given exactly what it should have: each change after its beginning, once, in order, and
nothing of another server, another session, or a kind that it did not ask for. A session has one GET stream at a time.
What a stream did not read before its reader left comes when the reader names the last event that it has read.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from patchbay.protocol.streams.subscriptions import SUBSCRIPTION_ID
from patchbay.views.sse import COMMENT
from tests.hubs import Hub, modern_request
from tests.waiting import until
from tests.wire.happenings import put

SERVERS = ("beasts", "plants")
KINDS = ("tools", "resources", "prompts")
FLAGS = {"tools": "toolsListChanged", "resources": "resourcesListChanged", "prompts": "promptsListChanged"}
URIS = [f"{server}://{number}" for server in SERVERS for number in (1, 2)]
SEEN = "seen://up/to/here"
"""A resource that every session is subscribed to, see `_read_up`."""

MOST = 6
"""Streams that are open at a time."""

Message = dict[str, Any]
Event = tuple[str | None, Message | None]


def listed(kind: str) -> Message:
    return {"method": f"notifications/{kind}/list_changed"}


def updated(uri: str) -> Message:
    return {"method": "notifications/resources/updated", "params": {"uri": uri}}


def events(response: Any) -> Iterator[Event]:
    """Id and message of each event. All of them have been told before they are read, so silence is wrong."""
    for frame in response.response:
        assert frame != COMMENT, "a comment, which says that there is nothing, in place of an event"
        fields = dict(line.partition(": ")[::2] for line in frame.decode().strip().split("\n"))
        data = fields.get("data", "").strip()
        yield fields.get("id"), orjson.loads(data) if data else None


@dataclass
class Stream:
    """An open stream and what it has still to give."""

    server: str
    response: Any
    events: Iterator[Event]

    def close(self) -> None:
        self.response.close()


@dataclass
class Modern(Stream):
    """A stream of 2026-07-28: one line of messages, in the order in which things happened."""

    id: int | str
    kinds: set[str]
    uris: set[str]
    waiting: deque[Message] = field(default_factory=deque)

    def tell(self, messages: list[Message]) -> None:
        self.waiting.extend(messages)

    def read(self) -> None:
        id, message = next(self.events)
        expected = self.waiting.popleft()
        params = {**expected.get("params", {}), "_meta": {SUBSCRIPTION_ID: self.id}}
        assert (id, message) == (None, {"jsonrpc": "2.0", **expected, "params": params})

    @property
    def left(self) -> int:
        return len(self.waiting)


@dataclass
class Session:
    """A session; `changes` are the kinds of each change of its server since it was opened."""

    server: str
    id: str
    uris: set[str] = field(default_factory=set)
    changes: list[list[str]] = field(default_factory=list)


@dataclass
class Legacy(Stream):
    """A GET stream. `place` is the change whose id was read last, `last` that id, `within` what follows it already.

    Changes come in order and so do updates; how the two are mixed is not promised.
    """

    session: Session
    place: int
    last: str
    within: int = 0
    waiting: deque[str] = field(default_factory=deque)

    @property
    def changed(self) -> list[str]:
        """The kinds of every change after the last event that has an id."""
        return [kind for kinds in self.session.changes[self.place :] for kind in kinds]

    @property
    def left(self) -> int:
        return len(self.changed) - self.within + len(self.waiting)

    def read(self) -> None:
        id, message = next(self.events)
        assert message is not None
        if message["method"] == "notifications/resources/updated":
            assert message == {"jsonrpc": "2.0", **updated(self.waiting.popleft())}
            assert id is None, "an update cannot be come back to, so it has no id"
            return
        assert message == {"jsonrpc": "2.0", **listed(self.changed[self.within])}
        self.within += 1
        if id is not None:
            assert id != self.last, "an id is given once"
            self._reached(id)

    def _reached(self, id: str) -> None:
        """An id stands for all of the changes before it: none may be half read."""
        read = 0
        while read < self.within:
            read += len(self.session.changes[self.place])
            self.place += 1
        assert read == self.within, "an event with an id was followed by more of the same change"
        self.last, self.within = id, 0


class Listening(RuleBasedStateMachine):
    """One hub, its listeners, and the expected messages of each."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.hub = Hub(Path(self.folder.name), listeners=1000, keepalive=0.2)
        self.listeners_at_rest = len(self._listeners())
        self.counts = {server: dict.fromkeys(KINDS, 0) for server in SERVERS}
        self.streams: list[Modern | Legacy] = []
        self.sessions: list[Session] = []
        self.gone: list[Legacy] = []
        for server in SERVERS:
            put(self.hub, server)

    @precondition(lambda self: len(self.streams) < MOST)
    @rule(
        server=st.sampled_from(SERVERS),
        kinds=st.sets(st.sampled_from(KINDS)),
        uris=st.sets(st.sampled_from(URIS)),
        id=st.one_of(st.integers(-5, 5), st.sampled_from(["", "5", "a"])),
    )
    def listen(self, server: str, kinds: set[str], uris: set[str], id: int | str) -> None:
        wanted: dict[str, Any] = {FLAGS[kind]: kind in kinds for kind in KINDS}
        body, headers = modern_request(
            "subscriptions/listen", {"notifications": wanted | {"resourceSubscriptions": sorted(uris)}}, id=id
        )
        known = headers | {"Content-Type": "application/json", "Accept": "text/event-stream", "Host": "localhost"}
        response = self.hub.client.post(f"/mcp/{server}", data=orjson.dumps(body), headers=known, buffered=False)
        stream = Modern(server, response, events(response), id, kinds, uris)
        _, first = next(stream.events)
        assert first is not None and first["method"] == "notifications/subscriptions/acknowledged"
        honoured = {FLAGS[kind]: True for kind in kinds} | {"resourceSubscriptions": sorted(uris)}
        assert first["params"] == {"notifications": honoured, "_meta": {SUBSCRIPTION_ID: id}}
        self.streams.append(stream)

    @precondition(lambda self: len(self.sessions) < MOST)
    @rule(server=st.sampled_from(SERVERS))
    def open_session(self, server: str) -> None:
        session = Session(server, self.hub.open(server))
        self.sessions.append(session)
        self._subscribe(session, SEEN, "resources/subscribe")
        session.uris.add(SEEN)

    @precondition(lambda self: self.sessions and len(self.streams) < MOST)
    @rule(data=st.data())
    def get(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.sessions))
        self._get(session, len(session.changes), None)

    @precondition(lambda self: self.gone and len(self.streams) < MOST)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        before = data.draw(st.sampled_from(self.gone))
        self._get(before.session, before.place, before.last)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), uri=st.sampled_from(URIS), subscribe=st.booleans())
    def subscribe(self, data: st.DataObject, uri: str, subscribe: bool) -> None:
        session = data.draw(st.sampled_from(self.sessions))
        self._read_up(session)
        method = "resources/subscribe" if subscribe else "resources/unsubscribe"
        self._subscribe(session, uri, method)
        (session.uris.add if subscribe else session.uris.discard)(uri)

    @rule(server=st.sampled_from(SERVERS), counts=st.tuples(*[st.integers(0, 2)] * 3))
    def change(self, server: str, counts: tuple[int, ...]) -> None:
        new = dict(zip(KINDS, counts, strict=True))
        put(self.hub, server, **new)
        self._changed(server, [kind for kind in KINDS if new[kind] != self.counts[server][kind]])
        self.counts[server] = new

    @rule(server=st.sampled_from(SERVERS), kind=st.sampled_from(KINDS))
    def announce(self, server: str, kind: str) -> None:
        """A server's author says that a list changed; the catalogue's own thread tells it."""
        journal = self.hub.catalogue.store.journal
        before = journal.last(f"changes/{server}")
        self.hub.catalogue.rerun(server, kind)
        until(lambda: journal.last(f"changes/{server}") > before, "the announcement is told")
        self._changed(server, [kind])

    @rule(server=st.sampled_from(SERVERS), uri=st.sampled_from(URIS))
    def update(self, server: str, uri: str) -> None:
        self._updated(server, uri)

    @precondition(lambda self: any(stream.left for stream in self.streams))
    @rule(data=st.data())
    def read_some(self, data: st.DataObject) -> None:
        stream = data.draw(st.sampled_from([stream for stream in self.streams if stream.left]))
        self._read(stream, data.draw(st.integers(1, stream.left)))

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self._left(data.draw(st.sampled_from(self.streams)))

    @invariant()
    def ended_streams_are_unsubscribed(self) -> None:
        if hasattr(self, "hub"):
            assert len(self._listeners()) == self.listeners_at_rest + len(self.streams)

    def _listeners(self) -> Sized:
        """Those who are told of the end of the hub: each stream, and the delivery of webhooks."""
        listeners: Sized = self.hub.catalogue.store.bus._exact.get("ending", ())
        return listeners

    def teardown(self) -> None:
        if not hasattr(self, "hub"):
            return
        try:
            for stream in self.streams:
                self._read(stream, stream.left)
            self.hub.app.parts.drain.begin()
            for stream in self.streams:
                rest = [message.get("method", "end") for _, message in stream.events if message]
                assert rest == (["notifications/cancelled", "end"] if isinstance(stream, Modern) else [])
        finally:
            for stream in self.streams:
                stream.close()
            self.hub.close()
            self.folder.cleanup()

    def _get(self, session: Session, place: int, last: str | None) -> None:
        """Open a GET stream. It takes the place of the session's earlier one, which gives what it has, then ends."""
        before = self._read_up(session)
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session.id, "Host": "localhost"}
        if last:
            headers["Last-Event-ID"] = last
        response = self.hub.client.get(f"/mcp/{session.server}", headers=headers, buffered=False)
        assert response.status_code == 200
        stream = events(response)
        begun, nothing = next(stream)
        assert nothing is None and begun == (last or begun)
        for one in before:
            assert next(one.events, None) is None
            self._left(one)
        self.streams.append(Legacy(session.server, response, stream, session, place, str(begun)))

    def _read_up(self, session: Session) -> list[Legacy]:
        """Have a session's stream look at everything that happened; answers the stream, if there is one.

        Streams are read by this thread, so they see late what a session is subscribed to. The last thing that
        happens is known to be told: then everything before it was looked at.
        """
        found = [one for one in self.streams if isinstance(one, Legacy) and one.session is session]
        if found:
            self._updated(session.server, SEEN)
        for stream in found:
            self._read(stream, stream.left)
        return found

    def _updated(self, server: str, uri: str) -> None:
        self.hub.catalogue.hub.updated(server, uri)
        for stream in self.streams:
            if stream.server == server and isinstance(stream, Modern) and uri in stream.uris:
                stream.tell([updated(uri)])
            elif stream.server == server and isinstance(stream, Legacy) and uri in stream.session.uris:
                stream.waiting.append(uri)

    def _left(self, stream: Modern | Legacy) -> None:
        self.streams.remove(stream)
        stream.close()
        if isinstance(stream, Legacy):
            self.gone.append(stream)

    def _changed(self, server: str, kinds: list[str]) -> None:
        if not kinds:
            return
        for session in self.sessions:
            if session.server == server:
                session.changes.append(kinds)
        for stream in self.streams:
            if isinstance(stream, Modern) and stream.server == server:
                stream.tell([listed(kind) for kind in kinds if kind in stream.kinds])

    def _subscribe(self, session: Session, uri: str, method: str) -> None:
        assert self.hub.legacy(session.server, method, {"uri": uri}, session.id).result == {}

    def _read(self, stream: Modern | Legacy, times: int) -> None:
        for _ in range(times):
            stream.read()


Listening.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestListening = pytest.mark.slow(Listening.TestCase)
