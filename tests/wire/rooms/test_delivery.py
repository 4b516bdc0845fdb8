"""Deliveries to WebSockets: in batches, whose bytes are shared, each small enough that others do not wait long."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.frames import Frame
from websockets.protocol import Protocol, Side, State

from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from patchbay.wire.endpoints.websocket_routes import TextFrames, WebSocketRequest, WebSocketRoutes
from patchbay.wire.rooms.sockets import BATCH_BYTES, UNSENT_BYTES
from tests.hubs import Hub
from tests.rooms.people import Person, hello
from tests.waiting import until

Json = dict[str, Any]


class Reader:
    """A WebSocket of the room demo without a network. While `is_behind`, it leaves everything unread."""

    def __init__(self, routes: WebSocketRoutes) -> None:
        found = routes.find("/rooms/demo/ws")
        assert found is not None
        match, open_session = found
        request = WebSocketRequest("/rooms/demo/ws", match.groupdict(), "", {}, "127.0.0.1")
        self.batches: list[TextFrames] = []
        self.is_behind = False
        self.session = open_session(request, self._send, lambda code, reason: None)
        self.session.receive(json.dumps({"type": "hello", "payload": hello("can.speak")}))

    def _send(self, message: str | TextFrames) -> int:
        if isinstance(message, TextFrames):
            self.batches.append(message)
        return UNSENT_BYTES + 1 if self.is_behind else 0

    def texts(self) -> list[str]:
        """What was said, read from the frames as a client reads them."""
        client = Protocol(Side.CLIENT, state=State.OPEN, max_size=None)
        client.receive_data(b"".join(self.batches))
        frames = [json.loads(bytes(one.data)) for one in client.events_received() if isinstance(one, Frame)]
        envelopes = [one["payload"] for one in frames if one["payload"]["type"] == "chat.msg"]
        return [one["payload"]["text"] for one in envelopes]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path)
    yield hub
    hub.close()


@pytest.fixture
def rooms(hub: Hub) -> Rooms:
    rooms: Rooms = hub.app.parts.dispatcher.services.rooms
    rooms.create("demo", "alice", {"policy": {"history": "all"}})
    return rooms


@pytest.fixture
def routes(hub: Hub) -> WebSocketRoutes:
    routes: WebSocketRoutes = hub.app.parts.websockets
    return routes


@pytest.fixture
def room(rooms: Rooms) -> Room:
    return rooms.open("demo")


def test_readers_of_the_same_events_get_the_same_bytes_in_one_batch(room: Room, routes: WebSocketRoutes) -> None:
    """ENS-18: the frames of an event are made once, and events that wait go out together."""
    speaker, readers = Person(room, "alice"), [Reader(routes) for _ in range(3)]
    speaker.says("chat.msg", {"text": "before"})
    until(lambda: all(one.texts() == ["before"] for one in readers), "the event before")
    for reader in readers:
        reader.is_behind = True
    for number in range(20):
        speaker.says("chat.msg", {"text": f"event {number}"})
    for reader in readers:
        reader.is_behind = False
    wanted = [f"event {number}" for number in range(20)]
    until(lambda: all(one.texts()[-20:] == wanted for one in readers), "the events")
    last = [one.batches[-1] for one in readers]
    assert last[0] is last[1] is last[2]
    assert (last[0].count(b"event 0"), last[0].count(b"event 19")) == (1, 1)


def test_a_batch_ends_when_it_is_large_and_the_rest_follows(room: Room, routes: WebSocketRoutes) -> None:
    """ENS-18: other WebSockets of the room have their turn, and a slow reader is not given too much at once."""
    speaker, reader = Person(room, "alice"), Reader(routes)
    reader.is_behind = True
    size = BATCH_BYTES // 3
    texts = [str(number) + "x" * size for number in range(10)]
    for text in texts:
        speaker.says("chat.msg", {"text": text})
    reader.is_behind = False
    until(lambda: reader.texts() == texts, "all texts")
    assert max(map(len, reader.batches)) < BATCH_BYTES + 2 * size


def test_no_event_is_missed_while_many_threads_speak(room: Room, routes: WebSocketRoutes) -> None:
    """ENS-16: a wake-up that comes while a batch is read is not lost; the order is that of the log."""
    readers = [Reader(routes) for _ in range(5)]
    speakers = [Person(room, "alice") for _ in range(4)]

    def speak(speaker: Person, number: int) -> None:
        for count in range(100):
            speaker.says("chat.msg", {"text": f"{number} {count}"})

    threads = [threading.Thread(target=speak, args=(one, number)) for number, one in enumerate(speakers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logged = [one.envelope["payload"]["text"] for one in room.entries(0, 1000) if one.envelope["type"] == "chat.msg"]
    assert len(logged) == 400
    until(lambda: all(one.texts() == logged for one in readers), "everything at every reader")
