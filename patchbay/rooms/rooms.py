"""All rooms of a hub: create, open, fork and list them; and the thread that maintains them."""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.catalogue.contents.ledger import ROOM_BYTES, Ledger, owner_of
from patchbay.catalogue.contents.ledger import ROOMS as ROOM_ACCOUNT
from patchbay.coordination.mailbox_loop import MailboxLoop
from patchbay.errors import OverQuota, PatchbayError, StaleUpdate
from patchbay.pins.offers import SERVER_PREFIX, WHO, load_offer
from patchbay.rooms.bounds import Bounds
from patchbay.rooms.core import now_ms
from patchbay.rooms.folding.acl import RULES
from patchbay.rooms.folding.fold import Fold, fold
from patchbay.rooms.folding.rights import decide
from patchbay.rooms.folding.state import DEFAULT_POLICY, OWNER, copied
from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.record.entry import make_entry
from patchbay.rooms.record.envelope import Json, hub_envelope
from patchbay.rooms.record.errors import BadFrame, RoomExists, RoomRefused, TooMany, UnknownRoom
from patchbay.rooms.record.forks import make_fork_payload
from patchbay.rooms.record.log import RoomLog
from patchbay.rooms.record.writers import rows_of
from patchbay.rooms.removal import REMOVED, check_may_remove, delete_log, discard_unnamed, remove_room
from patchbay.rooms.room import Room
from patchbay.rooms.servers.mounting import GatewayContext
from patchbay.rooms.servers.offers import row_names
from patchbay.store import Store, Subscription
from patchbay.topics import (
    ACCESS_ENDED,
    NAMES_CHANGED,
    ROOM_ALIVE,
    ROOM_CREATORS,
    ROOM_LOGS,
    ROOM_NEWS,
    ROOM_OFFERS,
    ROOM_READERS,
    ROOM_REMOVALS,
    ROOMS,
)

log = logging.getLogger(__name__)

LOBBY = "lobby"
"""The room of a client that names no room; the first hello in it creates it."""

TICK_SECONDS = 1.0
BEAT_SECONDS = 10.0
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The form of a room's name."""


@dataclass(frozen=True, slots=True)
class RoomSummary:
    """One room in a list: its name and its id."""

    name: str
    id: str


class Rooms:
    """The rooms of a hub in this process. `key` is the hub's own key, of which the signing key is made.

    `ledger` counts the rooms that each principal has created, and what it writes into their logs; the hub puts its own
    here, which has limits.
    """

    def __init__(
        self,
        store: Store,
        key: bytes,
        bounds: Bounds | None = None,
        gateway: GatewayContext | None = None,
    ) -> None:
        self.store = store
        self.ledger = Ledger(store.journal)
        self.signer = Signer(key)
        self.bounds = bounds or Bounds()
        self._gateway = gateway or GatewayContext()
        self._open: dict[str, Room] = {}
        self._asked: dict[str, float] = {}
        """Time of the last `open` of each room (monotonic)."""
        self.limited: set[str] = set()
        """Ids of the rooms that hide something from some MCP client of the hub, as far as this process knows."""
        self._unnamed: dict[str, str] = {}
        """The names that rooms were to get whose creation failed, by id, until what they left is deleted."""
        self._lock = threading.RLock()
        self._beaten = self._ticked = 0.0
        self._is_prepared = False
        self._loop = MailboxLoop(
            "rooms",
            store.bus,
            [f"{ROOM_NEWS}*", f"{ROOM_ALIVE}*", f"{ROOM_READERS}*", ACCESS_ENDED],
            self._run,
            "a room could not be kept going; the next round tries again",
            size=4096,
            retry_seconds=0.0,
        )

    def create(self, name: str, principal: str, options: Mapping[str, Any] | None = None) -> Room:
        """Create a room; its creator has the role owner, under the pseudonym that a later hello gives it.

        `options` may have `policy` (parts of `DEFAULT_POLICY` to change) and `flags`.
        Raises RoomExists, BadFrame for a name of a wrong form, RoomRefused for a wrong policy, TooMany, and OverQuota
        for a principal that has created too many rooms.
        """
        options = options or {}
        policy = copied(DEFAULT_POLICY) | copied(dict(options.get("policy") or {}))
        salt = secrets.token_hex(16)
        owner = self.signer.pseudonym(salt, principal)
        members = {owner: {"membership": "joined", "role": OWNER, "powers": []}}
        flags = copied(dict(options.get("flags") or {}))
        return self._create(
            name, principal, {"creator": owner, "salt": salt, "policy": policy, "flags": flags, "members": members}
        )

    def fork(self, room: Room, seq: int, principal: str, name: str) -> Room:
        """Create a room that goes on from an entry of another room, with its policy, flags and members.

        Its first entry names its predecessor, and the seq and head there. Raises the errors of `create`.
        """
        if not 0 < seq <= room.seq:
            raise BadFrame(f"the room {room.name} has no entry {seq}; expected 1 to {room.seq}")
        owner = room.pseudonym(principal)
        self._check_fork(room, principal)
        then = fold(logged.entry for logged in room.core.log.read(0, seq, is_bare=True))
        payload = make_fork_payload(then, room.id, seq, owner)
        return self._create(name, principal, payload)

    def remove(self, room: Room, principal: str, head: str, is_operator: bool = False) -> None:
        """Delete a room with its log, whose newest entry is `head`; its sessions end in every process.

        Raises RoomRefused for a principal that neither created it nor is the operator, RoomChanged, UnknownRoom.
        """
        check_may_remove(room, principal, is_operator)
        room.core.log.end(head)
        self._finish_removal(room)

    def _finish_removal(self, room: Room) -> None:
        """Delete a room whose log is ended; another process may do so at the same time."""
        remove_room(self.store, room)
        self._drop(room.id)
        delete_log(self.store, self.ledger, room.core.log)

    def _finish_removals(self) -> None:
        """Delete the logs of deleted rooms, and of rooms that were not created, that a failure left."""
        for id in self.store.names.all(ROOM_REMOVALS).values():
            found = RoomLog(self.store, id, self.signer, self.bounds.log, self.bounds.replay)
            delete_log(self.store, self.ledger, found)
        for id, name in list(self._unnamed.items()):
            discard_unnamed(self.store, self.ledger, id, name)
            self._unnamed.pop(id, None)

    def _drop(self, id: str) -> None:
        """Forget a room that is deleted."""
        with self._lock:
            room = self._open.pop(id, None)
            self._asked.pop(id, None)
            self.limited.discard(id)
        if room is not None:
            room.drop()

    def _check_fork(self, room: Room, principal: str) -> None:
        theirs = (principal, room.pseudonym(principal))
        sessions = [id for id, one in room.state_now["sessions"].items() if one["member"] in theirs]
        if room.pseudonym(principal) == room.state_now["creator"]:
            return
        if not any(decide(room.state_now, id, "fork") for id in sessions):
            raise RoomRefused("only a member with the power to fork may fork a room; join it first")

    def _create(self, name: str, principal: str, payload: Json) -> Room:
        if not NAME.fullmatch(name):
            raise BadFrame(f"the room's name is {name!r:.80}; expected 1 to 64 of A-Z a-z 0-9 _ -")
        if len(self.store.names.all(ROOMS)) >= self.bounds.rooms:
            raise TooMany(f"the hub has {self.bounds.rooms} rooms (--room-count)")
        now = now_ms(self.store)
        payload = {"name": name, "key": self.signer.public, "rules": RULES, "predecessor": None, **payload}
        entry = make_entry(self.signer, 1, None, now, hub_envelope(name, "room.create", payload, now))
        trial = Fold()
        try:
            trial.apply(entry)
        except PatchbayError as problem:
            raise RoomRefused(problem.message) from problem
        id = self.store.blobs.put(entry.data)
        if self._unnamed:
            self._finish_removals()
        try:
            self._append_first(id, name, principal, entry.data)
            self._give_name(id, name)
        except OverQuota:
            raise
        except BaseException:
            self._unnamed[id] = name
            with suppress(PatchbayError):  # what fails now is repeated by the regular work
                self._finish_removals()
            raise
        self.store.bus.publish(NAMES_CHANGED)
        return self.open(id)

    def _give_name(self, id: str, name: str) -> None:
        """Name a room whose first entry is stored. Raises RoomExists."""
        try:
            moved = {ROOMS + name: id} | row_names(self.store, name, id)
            self.store.names.move(moved, WHO, "a room was created", dict.fromkeys(moved))
        except StaleUpdate as problem:
            raise RoomExists(f"a room is called {name} already; choose another name") from problem

    def _append_first(self, id: str, name: str, principal: str, data: bytes) -> None:
        """Append the first entry of a room, which counts for its creator; the lobby counts for no caller.

        Raises OverQuota.
        """
        topic = f"{ROOM_LOGS}{id}"
        entry, creator = (topic, data, None), (ROOM_CREATORS + id, owner_of(principal).encode(), None)
        if name == LOBBY:
            self.store.journal.append_all([entry], {topic: 0})
            return
        self.ledger.check(principal, ROOM_BYTES, len(data), 0)
        row = self.ledger.row(principal, ROOM_ACCOUNT, "", 0, None, things=1)
        written = rows_of(self.ledger, principal, id, len(data))
        self.ledger.add(principal, ROOM_ACCOUNT, [entry, creator, *written], row, {topic: 0})

    def open(self, room: str) -> Room:
        """Return a room by its name or its id. Raises UnknownRoom."""
        id = self.store.names.get(ROOMS + room) if NAME.fullmatch(room) else None
        if id is None:
            id = room if room in {one.id for one in self.all()} else None
        if id is None:
            raise UnknownRoom(f"there is no room {room!r:.80}")
        with self._lock:
            if id not in self._open:
                self._open[id] = Room(
                    self.store, id, self.signer, self.bounds, self._gateway, self.limited, self.ledger
                )
                self._loop.start()
            self._asked[id] = time.monotonic()
            found = self._open[id]
        if found.core.log.is_ended:
            self._finish_removal(found)
            raise UnknownRoom(f"there is no room {room!r:.80} any more")
        return found

    def open_to_join(self, room: str, principal: str) -> Room:
        """Return a room for a hello, like `open`. The first hello creates the lobby."""
        try:
            return self.open(room)
        except UnknownRoom:
            if room != LOBBY:
                raise
        try:
            return self.create(LOBBY, principal)
        except RoomExists:
            return self.open(LOBBY)

    def all(self) -> list[RoomSummary]:
        """Return every room, by name."""
        return [RoomSummary(name.removeprefix(ROOMS), id) for name, id in self.store.names.all(ROOMS).items()]

    def close(self) -> None:
        """End the sessions of this process, and the calls and mounts of its rooms."""
        self._loop.stop()
        with self._lock:
            rooms = list(self._open.values())
        for room in rooms:
            room.close()
        self._loop.join(threading.TIMEOUT_MAX)

    # the thread that maintains the rooms

    def start(self) -> None:
        """Start the thread if rooms offered tools when the hub ended, or a removal was not finished."""
        if self.store.names.all(ROOM_OFFERS) or self.store.names.all(ROOM_REMOVALS):
            with self._lock:
                self._loop.start()

    def _open_offering(self) -> None:
        for one in self.all():
            offer = load_offer(self.store, SERVER_PREFIX + one.name)
            if offer is not None and offer.tools and not self._loop.ending.is_set():
                self.open(one.id)

    def _prepare(self) -> None:
        """Do once, on the thread, what an earlier process of the hub left."""
        self._is_prepared = True
        self._beaten = self._ticked = time.monotonic()
        try:
            self._open_offering()
        except Exception:
            log.exception("the rooms that offered tools could not be opened; each is opened when it is used")
        try:
            self._finish_removals()
        except Exception:
            log.exception("what deleted rooms left could not be deleted; the next round tries again")

    def _run(self, mailbox: Subscription) -> None:
        if not self._is_prepared:
            self._prepare()
        found = mailbox.get(self._until_next_deadline())
        if self._loop.ending.is_set():
            return
        if found is not None:
            self._receive(*found)
        now = time.monotonic()
        if found is None or now - self._ticked > TICK_SECONDS:
            self._ticked = now
            self._tick_all()
        if now - self._beaten > min(BEAT_SECONDS, self.bounds.idle / 3):
            self._beaten = now
            self._beat()

    def _until_next_deadline(self) -> float:
        """Return the seconds until the next deadline of a call, at most TICK_SECONDS."""
        with self._lock:
            deadlines = [one for room in self._open.values() if (one := room.next_deadline()) is not None]
        left = (min(deadlines) - now_ms(self.store)) / 1000 if deadlines else TICK_SECONDS
        return max(0.0, min(TICK_SECONDS, left))

    def _receive(self, topic: str, message: bytes) -> None:
        if topic == ACCESS_ENDED:
            self._tick_all()
            return
        with self._lock:
            room = self._open.get(topic.partition("/")[2])
        if room is None:
            return
        if message == REMOVED and topic.startswith(ROOM_NEWS):
            self._drop(room.id)
        elif topic.startswith(ROOM_NEWS):
            room.tick()
        elif topic.startswith(ROOM_READERS):
            room.note_reader(message)
        else:
            room.liveness.note_alive(orjson.loads(message))

    def _tick_all(self) -> None:
        with self._lock:
            rooms = list(self._open.values())
        for room in rooms:
            room.tick()

    def _beat(self) -> None:
        """Report the sessions that are alive in this process, and end those that no process has reported."""
        with self._lock:
            rooms = list(self._open.values())
        for room in rooms:
            self.store.bus.publish(f"{ROOM_ALIVE}{room.id}", orjson.dumps(room.liveness.beat()))
            room.end_lost_sessions()
            room.core.log.keep_snapshot()
        self._put_away()
        self._drop_removed()
        for room in rooms:
            if room.core.log.is_ended:
                self._finish_removal(room)
        self._finish_removals()
        self._tick_all()

    def _drop_removed(self) -> None:
        """Forget the rooms that another process deleted, whose news may have been lost."""
        known = {one.id for one in self.all()}
        with self._lock:
            gone = [id for id in self._open if id not in known]
        for id in gone:
            self._drop(id)

    def _put_away(self) -> None:
        """Close the rooms without participants that were not opened for a while; the next `open` opens them again."""
        before = time.monotonic() - self.bounds.unused
        with self._lock:
            found = [id for id, room in self._open.items() if self._asked[id] < before and room.is_unused]
            rooms = [self._open.pop(id) for id in found]
            for id in found:
                del self._asked[id]
        for room in rooms:
            room.close()
