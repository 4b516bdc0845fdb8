"""People of a room for tests: who says hello, sends envelopes and reads what comes, without any transport."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from patchbay.rooms.bounds import Bounds
from patchbay.rooms.feed import Delivery
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from patchbay.rooms.servers.mounting import GatewayContext
from patchbay.rooms.session import Receipt, RoomSession
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore
from tests.waiting import until

Json = dict[str, Any]

KEY = b"the key of a hub in tests, 32 b."
EVERYTHING = ["tool.call", "tool.host", "mcp.client", "mcp.server:fs", "mcp.server:git", "can.text.stream"]
READ: Json = {"name": "read", "description": "Read a file.", "inputSchema": {"type": "object"}}
LIST: Json = {"name": "list", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
NOTES: Json = {"uri": "file:///repo/notes.md", "name": "notes", "mimeType": "text/markdown"}
BOUNDS = Bounds(rate=100_000.0)


def hello(*caps: str, **more: Any) -> Json:
    """The payload of a hello."""
    return {"proto": "ENSO-1", "caps": list(caps or EVERYTHING), **more}


def envelope(type: str, payload: Json, **more: Any) -> Json:
    """An envelope as the reference client sends it."""
    made = {"id": str(uuid4()), "ts": "2026-11-22T12:00:00.000Z", "room": "local", "from": "enso-client"}
    return {**made, "kind": "event", "type": type, "payload": payload, **more}


def call(server: str = "fs", name: str = "read", args: Json | None = None, **more: Any) -> Json:
    """An envelope that calls a tool."""
    return envelope(
        "tool.call",
        {"callId": str(uuid4()), "provider": "mcp", "serverId": server, "name": name, **more} | ({"args": args or {}}),
    )


class Person:
    """One participant. `heard` has everything that was read so far."""

    def __init__(self, room: Room, principal: str, after: int | None = None, **said: Any) -> None:
        caps = said.pop("caps", ())
        self.room = room
        self.session: RoomSession = room.join(principal, hello(*caps, **said), after)
        self.session.is_attached = True
        self.heard: list[Delivery] = []

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def member(self) -> str:
        return str(self.room.state_now["sessions"][self.id]["member"])

    def says(self, type: str, payload: Json, **more: Any) -> Receipt:
        """Send one envelope."""
        return self.session.receive(envelope(type, payload, **more))

    def announces(self, server: str = "fs", *tools: Json, **more: Any) -> Receipt:
        """Announce a server; with the tools read and list where no others are given."""
        return self.says(
            "mcp.announce", {"serverId": server, "tools": list(tools or (READ, LIST)), "resources": [], **more}
        )

    def calls(self, server: str = "fs", name: str = "read", args: Json | None = None, **more: Any) -> str:
        """Call a tool; returns the callId."""
        made = call(server, name, args, **more)
        self.session.receive(made)
        return str(made["payload"]["callId"])

    def answers(self, call_id: str, result: Any = None, **more: Any) -> Receipt:
        """Answer a call."""
        return self.says("tool.result", {"callId": call_id, "ok": True, "result": result, **more})

    def reads(self) -> list[Delivery]:
        """Everything that is there to read now."""
        taken = self.session.read(100_000)
        self.heard += taken
        return taken

    def waits_for(self, type: str, condition: Callable[[Json], bool] = lambda payload: True) -> Json:
        """The first envelope of a type that has been or will be read, and whose payload fits."""

        def found() -> Json | None:
            self.reads()
            fitting = (one.envelope for one in self.heard if one.envelope["type"] == type)
            return next((one for one in fitting if condition(one["payload"])), None)

        envelope: Json = until(found, f"{type} for {self.id}")
        return envelope

    def result_of(self, call_id: str) -> Json:
        """The payload of the result of a call."""
        payload: Json = self.waits_for("tool.result", lambda payload: payload["callId"] == call_id)["payload"]
        return payload

    def types(self) -> list[str]:
        """The types of everything that was read, in order."""
        self.reads()
        return [one.envelope["type"] for one in self.heard]


@contextmanager
def serving(person: Person, answer: Callable[[Json], Json]) -> Iterator[None]:
    """Answer the calls of a person's servers in a thread: `answer` gives the payload of the result, without callId."""

    def serve() -> None:
        for delivery in person.session.events():
            if delivery is not None and delivery.envelope["type"] == "tool.call":
                payload = delivery.envelope["payload"]
                person.says("tool.result", {"callId": payload["callId"], "ok": True, **answer(payload)})

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    person.session.leave()
    thread.join()


@contextmanager
def rooms_of(
    store: Store | None = None, bounds: Bounds = BOUNDS, context: GatewayContext | None = None, key: bytes = KEY
) -> Iterator[Rooms]:
    """All rooms of one hub."""
    rooms = Rooms(store or MemoryStore(), key, bounds, context)
    yield rooms
    rooms.close()
