"""One participant of a room: it sends through `receive`, and reads with `read` or `events`."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from patchbay.activation import CallPlace
from patchbay.errors import OverQuota, PatchbayError
from patchbay.rooms.bounds import Rate
from patchbay.rooms.core import RoomCore
from patchbay.rooms.feed import Delivery
from patchbay.rooms.flow import Flow
from patchbay.rooms.folding.rights import participant_of
from patchbay.rooms.history import past_deliveries
from patchbay.rooms.owners import is_for
from patchbay.rooms.record.envelope import UNNAMED_ROOMS, UNNAMED_SENDER, Json, check_named, read_envelope
from patchbay.rooms.record.errors import BadFrame, RoomRefused, TooMany
from patchbay.rooms.record.hello import has_streams
from patchbay.rooms.signatures import check_signature
from patchbay.rooms.visibility import shown_envelope
from patchbay.topics import ROOM_READERS

MAX_DELIVERIES_PER_READ = 256

NO_LONGER_LET_IN = "the hub no longer lets this participant in"
"""Why a session ends whose principal lost its credentials, or the right to read the room."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of one envelope. `seq` is its place in the log, None if it was not logged or was refused.

    `refusal` is the reason of a refusal, "" without one; `is_duplicate` says that the log had the envelope already.
    `answers` are the envelopes that the hub answered with at once. `is_readable` is False for a badly formed envelope.
    """

    id: str
    seq: int | None = None
    is_duplicate: bool = False
    refusal: str = ""
    answers: tuple[Json, ...] = field(default=())
    is_readable: bool = True


class Desk(Protocol):
    """Receives the envelopes of a session, and its end."""

    def receive(self, session: RoomSession, envelope: Json) -> Receipt:
        """Handle an envelope, or refuse it."""
        ...

    def refuse(self, session: RoomSession, envelope: Json, problem: PatchbayError) -> Receipt:
        """Answer an envelope, which has an id and a type, with a refusal."""
        ...

    def leave(self, session_id: str, reason: str) -> None:
        """End a session."""
        ...


class SessionRights(Protocol):
    """The rights that the hub gives to the principal of a session; the rules of the room apply as well."""

    def may_speak(self) -> bool:
        """Whether it may say anything."""
        ...

    def begin_call(self, server: Any, name: Any, method: Any) -> CallPlace | None:
        """Count a call of the tool, resource or prompt `name` until the place is released; None without a limit.

        `method` says what is used (`tools/call`, `resources/read`, `prompts/get`). Raises RoomRefused for a call that
        the principal may not make here (NotShown where it may not know what it calls), OverQuota.
        """
        ...

    def count_bytes(self, size: int) -> None:
        """Count the bytes of an envelope, logged or not. Raises OverQuota for more than the principal may send."""
        ...

    def is_current(self) -> bool:
        """Whether the session may stay: its credentials are valid, and it may still read the room."""
        ...


class UnlimitedRights:
    """The rights of a session without limits."""

    def may_speak(self) -> bool:
        """Return True: anything may be said."""
        return True

    def begin_call(self, server: Any, name: Any, method: Any) -> None:
        """Return None: every call may begin, and none is counted."""

    def count_bytes(self, size: int) -> None:
        """Do nothing: every envelope may be sent."""

    def is_current(self) -> bool:
        """Return True: the session may stay."""
        return True


UNLIMITED = UnlimitedRights()


class RoomSession:
    """A participant's session in this process. `id` is its session id, `greeting` the answer to its hello.

    One thread or task reads (`read` or `events`); any may send (`receive`) and end it (`leave`).
    """

    def __init__(
        self,
        room: RoomCore,
        id: str,
        principal: str,
        after: int,
        services: Desk,
        rights: SessionRights = UNLIMITED,
    ) -> None:
        self.rights = rights
        self.room = room
        self.id = id
        self.principal = principal
        self.names = room.list_names(principal)
        """The names under which the room knows the principal, if this is no session of a ghost."""
        self.greeting: tuple[Json, ...] = ()
        self.is_closed = False
        self.used = time.monotonic()
        """Time of the last envelope that it sent or read (monotonic)."""
        self.is_attached = False
        """Whether a connection reads it and ends it; without one, it ends when it is idle."""
        self.rate = Rate(room.bounds.rate)
        self.flow = Flow()
        self._desk = services
        self._after = after
        self._position = room.log.position(after)
        self._index: int | None = None
        self._own: deque[Delivery] = deque()
        self._news = threading.Event()
        self._is_woken = False
        self._reading = threading.Lock()
        self._connecting = threading.RLock()
        self._replaced: Callable[[], None] | None = None
        self._reader = b""
        """The order token of the newest connection in this process."""
        self._listeners: tuple[Callable[[], None], ...] = ()

    # sending

    def receive(self, found: Any) -> Receipt:
        """Take one envelope of the participant.

        Raises BadFrame for a value without the id and the type of an envelope: a WebSocket is then closed with 1011,
        HTTP answers 400. A refusal by the room, also of a badly formed envelope or payload, is answered by an event to
        this session, and by the `refusal` of the receipt.
        """
        self.used = time.monotonic()
        if self.is_closed:
            raise RoomRefused("the session has ended; say hello again")
        if not self.rights.is_current():
            self.leave(NO_LONGER_LET_IN)
            raise RoomRefused(NO_LONGER_LET_IN)
        sent = found if isinstance(found, dict) else {}
        check_named(sent)
        if not self.rate.take():
            sentence = f"more than {self.room.bounds.rate:g} envelopes a second; send fewer (--room-rate)"
            return self._turn_away(sent, TooMany(sentence))
        try:
            envelope, size = read_envelope(sent, self.room.bounds.envelope)
        except BadFrame as problem:
            return self._desk.refuse(self, sent, problem)
        try:
            self.rights.count_bytes(size)
        except OverQuota as problem:
            return self._turn_away(sent, problem)
        return self._desk.receive(self, envelope)

    def _turn_away(self, sent: Json, problem: PatchbayError) -> Receipt:
        """Answer an envelope that comes too fast. It leaves no line in the log of the hub."""
        answer = self.room.refusal(sent, problem)
        self.push(answer)
        return Receipt(sent["id"], None, False, problem.message, (answer,))

    def addressed(self, envelope: Json) -> Json:
        """Return the envelope with its room and its session. Raises RoomRefused if it names others."""
        room, sender = envelope.get("room"), envelope.get("from")
        if sender not in (None, UNNAMED_SENDER, self.id):
            raise RoomRefused(f"the envelope is from {sender!r:.80}; this session may only send as {self.id}")
        if room is not None and room not in UNNAMED_ROOMS | {self.room.id, self.room.name}:
            raise RoomRefused(f"the envelope is for the room {room!r:.80}; this session is in {self.room.name}")
        check_signature(self.room.state_now, self.id, (self.room.id, self.room.name), envelope)
        whole = {**envelope, "room": self.room.name, "from": self.id}
        return envelope if "sig" in envelope else whole

    # connections

    def attach(self, replaced: Callable[[], None]) -> None:
        """Let a connection read this session. `replaced` is called when another connection, in any process, reads it
        in its place.
        """
        with self._connecting:
            reader = self.room.store.order_token()
            before, self._replaced, self._reader, self.is_attached = self._replaced, replaced, reader, True
        if before is not None:
            before()
        self.room.store.bus.publish(ROOM_READERS + self.room.id, reader + self.id.encode())

    def replace(self, reader: bytes) -> None:
        """End the connection here when the one with this order token, in another process, is newer."""
        with self._connecting:
            if reader <= self._reader:
                return
            before, self._replaced, self.is_attached = self._replaced, None, False
        if before is not None:
            before()

    def detach(self, replaced: Callable[[], None]) -> bool:
        """Note that a connection has ended; return whether it was the one that reads this session."""
        with self._connecting:
            if self._replaced != replaced:
                return False
            self._replaced, self.is_attached, self.used = None, False, time.monotonic()
            return True

    @property
    def has_servers(self) -> bool:
        """Whether the room has servers that it announced or mounted."""
        return any(one["owner"] == self.id for one in self.room.state_now["servers"].values())

    # reading

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever `read` may return something, on any thread; it must return at once."""
        self._listeners = (*self._listeners, wake)
        self._is_woken = False
        wake()

    def stop_listening(self, wake: Callable[[], None]) -> None:
        """Unsubscribe `wake`."""
        self._listeners = tuple(one for one in self._listeners if one != wake)

    def wake(self) -> None:
        """Notify the listeners of something to read, once until the next `read`."""
        if self._is_woken:
            return
        self._is_woken = True
        self._news.set()
        for listener in self._listeners:
            listener()

    def push(self, envelope: Json) -> None:
        """Deliver an envelope to this session of this process only."""
        self._own.append(Delivery(self._position, envelope, None, self.id))
        self.wake()

    def seek(self, after: int) -> None:
        """Read from the entry after this seq on: first from the log, then new entries.

        A new connection calls it after `attach`: the former one reads nothing any more.
        """
        with self._reading:
            self._after, self._position, self._index = after, self.room.log.position(after), None

    def read(self, limit: int = MAX_DELIVERIES_PER_READ, size: int | None = None) -> list[Delivery]:
        """Return the deliveries that can be read now, in order; never wait.

        Returns at most `limit` deliveries, and ends with the one that reaches `size` bytes. With fewer deliveries and
        fewer bytes than that, nothing is left to read.
        """
        self.used = time.monotonic()
        self._is_woken = False  # a later delivery wakes the reader again
        with self._reading:
            return self._read(limit, size)

    def _read(self, limit: int, size: int | None) -> list[Delivery]:
        found: list[Delivery] = []
        while self._own and len(found) < limit:
            found.append(self._own.popleft())
        left = math.inf if size is None else size - sum(len(one.data) for one in found)
        while len(found) < limit and left > 0:
            more = self._next(limit - len(found), left)
            if not more:
                break
            mine = [
                one if one.is_for_all else self._shown(one) for one in more if one.is_for_all or self._is_for_me(one)
            ]
            found += mine
            left -= 0 if size is None else sum([len(one.data) for one in mine])
        return found

    def _next(self, limit: int, size: float) -> list[Delivery]:
        """Return the next deliveries, including deliveries for other participants; the list may be empty."""
        while True:
            if self._index is None:
                self._index = self.room.feed.index_after(self._position)
            found = None if self._index is None else self.room.feed.read(self._index, limit)
            if self._index is not None and found is not None:
                found = _cut(found, size)
                self._index += len(found)
                self._moved(found)
                return found
            self._index = None
            found = _cut(self._from_log(limit), size)
            self._moved(found)
            if found:
                return found
            # No entry of the log precedes the deliveries in memory.
            self._position = max(self._position, self.room.feed.floor)

    def _from_log(self, limit: int) -> list[Delivery]:
        # Not beyond the entries that the feed has read: live envelopes belong between the entries.
        bound = self.room.feed.bound
        found = past_deliveries(self.room, self._after, limit, self.principal, self.id)
        return [one for one in found if one.position <= bound]

    def _moved(self, found: list[Delivery]) -> None:
        if found:
            self._position = found[-1].position
            self._after = next((one.seq for one in reversed(found) if one.seq is not None), self._after)

    def _shown(self, delivery: Delivery) -> Delivery:
        """Return a delivery as this session sees it: the access list of the room may hide entries of a list."""
        state = self.room.state_now
        reader = participant_of(state, self.id)
        if not delivery.is_list or reader is None or delivery.envelope["from"] == self.id:
            return delivery
        shown = shown_envelope(state, [reader], delivery.envelope)
        return delivery if shown is delivery.envelope else replace(delivery, envelope=shown)

    def _is_for_me(self, delivery: Delivery) -> bool:
        if delivery.to not in (None, self.id):
            return False
        if delivery.is_call:
            return is_for(self.room.state_now, self.id, delivery)
        if not delivery.is_stream:
            return True
        session = self.room.state_now["sessions"].get(self.id)
        return session is not None and has_streams(session["caps"]) and self.flow.lets_pass(delivery)

    def events(self, after: int | None = None, silence: float = 15.0) -> Iterator[Delivery | None]:
        """Yield all deliveries until the session ends; None after each `silence` seconds without one.

        `after` is the seq of the last entry that the reader has: later entries are read from the log first.
        """
        if after is not None:
            self.seek(after)
        while True:
            self._news.clear()
            found = self.read()
            yield from found
            if not found and self.is_closed:
                return
            if not found and not self._news.wait(silence):
                yield None

    def leave(self, reason: str = "left") -> None:
        """End the session, its servers and its calls, and notify the room. A second call does nothing."""
        self._desk.leave(self.id, reason)

    def __repr__(self) -> str:
        return f"RoomSession({self.id} in {self.room.name}, {'closed' if self.is_closed else 'open'})"


def _cut(found: list[Delivery], size: float) -> list[Delivery]:
    """Return deliveries up to the one that reaches this number of bytes."""
    if size == math.inf:
        return found
    for count, one in enumerate(found, 1):
        size -= len(one.data)
        if size <= 0:
            return found[:count]
    return found
