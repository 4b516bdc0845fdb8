"""A session in a room, over WebSocket: hello, envelopes out, envelopes in.

Source: ENSO-1 as `octave-commons/promethean`, packages/enso-protocol publishes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import orjson
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from patchbay import exit_codes
from patchbay.client.errors import Unreachable
from patchbay.client.network_failures import describe_failure
from patchbay.client.rooms.address import RoomAddress
from patchbay.errors import PatchbayError

Json = dict[str, Any]

OPEN_SECONDS = 20.0
"""How long a room may take to answer a hello."""

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Bytes of the largest frame that is taken."""

NO_ROOM_FOR_US = frozenset({1008, 1011})
"""Close codes by which a hub refuses a hello."""


class RoomRefusal(PatchbayError):
    """The hub refused a hello or a frame; the sentence is the hub's."""

    exit_code = exit_codes.FAILED


class RoomLost(Unreachable):
    """The connection to the room ended."""


def make_envelope(type: str, payload: Mapping[str, Any]) -> Json:
    """Return an envelope; the hub puts in which room it is for and which session it is from."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"id": str(uuid4()), "ts": now, "kind": "event", "type": type, "payload": dict(payload)}


GREETING_TYPES = frozenset({"privacy.accepted", "room.policy", "presence.join", "tool.advertise"})
"""What answers a hello, in frames without a place in the log. Events of the room may follow before the next pong."""

NEW = "new"
"""Asks for a session that stays for a while when its connection is lost."""


class RoomConnection:
    """An open session. Many threads may send, one receives. `greeting` is the hub's answer to the hello.

    `place` is the seq of the newest entry of the log that was received.
    """

    def __init__(self, socket: ClientConnection, room: RoomAddress, stack: ExitStack) -> None:
        self.room = room
        self._stack = stack
        self.greeting: list[Json] = []
        self.place = 0
        self._socket = socket
        self._early: deque[Json] = deque()

    @classmethod
    def open(
        cls,
        room: RoomAddress,
        caps: Iterable[str],
        agent: Mapping[str, str],
        after: int | None = None,
        headers: Mapping[str, str] | None = None,
        resume: str = "",
    ) -> RoomConnection:
        """Join a room; with `after`, a seq, read its log from there on first.

        `resume` is NEW for a session that can be resumed, or the id of the one to go on with; the hub makes a new
        session where that has ended. Raises RoomRefusal with the hub's sentence, Unreachable.
        """
        given = (("after", after), ("resume", resume or None))
        query = {name: str(value) for name, value in given if value is not None}
        url = f"{room.socket_url}?{urlencode(query)}" if query else room.socket_url
        stack = ExitStack()
        try:
            opening = connect(
                url,
                open_timeout=OPEN_SECONDS,
                max_size=MAX_FRAME_BYTES,
                additional_headers=dict(headers or {}),
                compression=None,
                proxy=None,
            )
            socket = stack.enter_context(opening)
        except (OSError, EOFError, WebSocketException) as problem:
            raise Unreachable(
                f"the hub of {room.url} cannot be reached: {describe_failure(problem, has_answered=False)}"
            ) from problem
        made = cls(socket, room, stack)
        try:
            made._greet({"proto": "ENSO-1", "caps": list(caps), "agent": dict(agent)})
            made.place = made._first_place() if after is None else after
        except BaseException:
            made.close()
            raise
        return made

    def _greet(self, hello: Json) -> None:
        """Say hello, and read its answers: they come before the answer to a ping that is sent after it."""
        try:
            self._send({"type": "hello", "payload": hello})
            self._send({"type": "ping", "ts": "greeting"})
        except RoomLost:
            pass  # a refused hello: its reason is read below
        while (frame := self._read(OPEN_SECONDS)) is None or frame["type"] != "pong":
            if frame is None:
                raise Unreachable(f"{self.room.url} did not answer the hello within {OPEN_SECONDS:g} s")
            if self._early or "seq" in frame or frame["payload"]["type"] not in GREETING_TYPES:
                self._early.append(frame)
            else:
                self.greeting.append(frame["payload"])

    def _first_place(self) -> int:
        """Return the place in the log after which the room's events come."""
        policies = (one["payload"] for one in self.greeting if one["type"] == "room.policy")
        return next((int(one["seq"]) for one in policies), 0)

    @property
    def adverts(self) -> dict[str, Json]:
        """The payload of `tool.advertise` of each server that the room had at the hello, by the server's id."""
        found = [one["payload"] for one in self.greeting if one["type"] == "tool.advertise"]
        return {one["serverId"]: one for one in found}

    @property
    def session(self) -> str:
        """The id of the session."""
        return str(self.greeting[0]["payload"]["session"])

    def send_new(self, type: str, payload: Mapping[str, Any]) -> str:
        """Send an envelope; returns its id. Raises RoomLost."""
        envelope = make_envelope(type, payload)
        self.send(envelope)
        return str(envelope["id"])

    def send(self, envelope: Json) -> None:
        """Send an envelope; one that is sent twice is one entry of the log. Raises RoomLost."""
        self._send({"type": "envelope", "payload": envelope})

    def receive(self, seconds: float | None = None) -> Json | None:
        """Return the next envelope, None after this many seconds without one. Raises RoomLost, RoomRefusal."""
        frame = self._early.popleft() if self._early else self._read(seconds)
        if frame is None:
            return None
        envelope: Json = frame["payload"]
        self.place = frame.get("seq", self.place)
        return envelope | ({"place": frame["seq"]} if "seq" in frame else {})

    def _read(self, seconds: float | None) -> Json | None:
        while True:
            try:
                frame: Json = orjson.loads(self._socket.recv(seconds))
            except TimeoutError:
                return None
            except ConnectionClosed as problem:
                raise self._explain_end(problem) from problem
            if frame.get("type") in ("envelope", "pong"):
                return frame

    def close(self) -> None:
        """Leave the room."""
        self._stack.close()

    def _send(self, frame: Json) -> None:
        try:
            self._socket.send(orjson.dumps(frame).decode())
        except ConnectionClosed as problem:
            raise self._explain_end(problem) from problem

    def _explain_end(self, problem: ConnectionClosed) -> PatchbayError:
        frame = problem.rcvd
        if frame is not None and frame.code in NO_ROOM_FOR_US:
            return RoomRefusal(f"{self.room.url}: {frame.reason or 'the hub refused the message'}")
        why = f": {frame.reason}" if frame is not None and frame.reason else ""
        return RoomLost(f"the connection to {self.room.url} ended{why}")
