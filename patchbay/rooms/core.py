"""The base of one room: its log, its feed, and the functions by which the hub itself adds to them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from patchbay.catalogue.contents.ledger import Ledger
from patchbay.errors import PatchbayError
from patchbay.rooms.bounds import Bounds
from patchbay.rooms.feed import Feed
from patchbay.rooms.folding.acl import RULES, rules_of, with_exact_names
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.folding.rights import is_banned
from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.record.envelope import Json, hub_envelope
from patchbay.rooms.record.errors import RoomRefused
from patchbay.rooms.record.log import Logged, Make, RoomLog
from patchbay.store import Store

log = logging.getLogger(__name__)


class RoomCore:
    """The log and the feed of one room. `observers` are called for each logged entry, in order, once; they are quick.

    Safe to use from many threads.
    """

    def __init__(self, store: Store, id: str, signer: Signer, bounds: Bounds, ledger: Ledger | None = None) -> None:
        self.id = id
        self.bounds = bounds
        self.store = store
        self.signer = signer
        self.log = RoomLog(store, id, signer, bounds.log, bounds.replay, ledger)
        self.feed = Feed(store, self.log, bounds.replay, self._notice)
        self.name = str(self.log.fold.now["name"])
        self.observers: list[Callable[[Logged], None]] = []
        self._later: list[Callable[[], Any]] = []
        self._lock = threading.Lock()

    @property
    def state_now(self) -> Json:
        """The present state, for reading only: the object never changes; a new one replaces it."""
        return self.log.fold.now

    @property
    def seq(self) -> int:
        """The seq of the newest entry."""
        return self.log.fold.seq

    def pseudonym(self, principal: str) -> str:
        """Return the name that a principal has in this room, and in the forks of it."""
        return self.signer.pseudonym(self.state_now["salt"], principal)

    def list_names(self, principal: str) -> tuple[str, str]:
        """Return the names under which the room knows a principal that is no ghost: its own, and its pseudonym."""
        return principal, self.pseudonym(principal)

    def is_banned(self, principal: str) -> bool:
        """Whether the room has banned a principal, under any of its names."""
        return is_banned(self.state_now, self.list_names(principal))

    def append(self, make: Make) -> Logged:
        """Append an envelope to the log and deliver it. Raises the errors of `RoomLog.append`.

        The first entry that this version of the rules adds to a room of earlier rules is `room.rules`.
        """
        if rules_of(self.state_now) < RULES:
            self._renew_rules()
        logged = self.log.append(make)
        if not logged.is_duplicate:
            self.feed.announce(logged.position)
        self.run_later()
        return logged

    def _renew_rules(self) -> None:
        """Log that the present rules hold from now on, unless the log says so already."""

        def make(fold: Fold, now: int) -> Json:
            if rules_of(fold.now) >= RULES:
                raise RoomRefused("the room has the present rules")
            exact = with_exact_names(fold.now["policy"]["acl"])[1]
            if exact:
                log.warning("the room %s: %s were exact names, and still are: `*` is written `[*]`", self.name, exact)
            return self.make_own("room.rules", {"rules": RULES, "exact": exact}, now)

        with suppress(RoomRefused):
            self.feed.announce(self.log.append(make).position)

    def append_own(self, type: str, payload: Json, rel: Json | None = None) -> Logged:
        """Append an envelope of the hub itself."""
        return self.append(lambda fold, now: self.make_own(type, payload, now, rel))

    def make_own(self, type: str, payload: Json, at: int, rel: Json | None = None) -> Json:
        """Return an envelope of the hub itself; `at` is Unix time in milliseconds."""
        return hub_envelope(self.name, type, payload, at, rel)

    def publish_own(self, type: str, payload: Json, rel: Json | None = None, kind: str = "event", to: str = "") -> None:
        """Deliver an envelope of the hub itself that is not logged, to one session or to all."""
        self.feed.publish(hub_envelope(self.name, type, payload, now_ms(self.store), rel, kind), to or None)

    def refusal(self, envelope: Json, problem: PatchbayError) -> Json:
        """Return the envelope that tells a participant that its envelope, which has an id and a type, was refused.

        A `callId` or `serverId` that is not a text is None in the answer.
        """
        payload, kind = envelope.get("payload"), envelope["type"]
        call, server = (text_or_none(payload, name) for name in ("callId", "serverId"))
        if kind == "tool.call":
            outcome: Json = {"callId": call, "ok": False, "error": problem.message}
            type = "tool.result"
        elif kind == "mcp.mount":
            outcome, type = {"serverId": server, "error": problem.message}, "mcp.mount.failed"
        else:
            outcome, type = {"id": envelope["id"], "type": kind, "error": problem.message}, "room.refused"
        return hub_envelope(self.name, type, outcome, now_ms(self.store), {"replyTo": envelope["id"]})

    def later(self, work: Callable[[], Any]) -> None:
        """Run a function when no lock is held any more."""
        with self._lock:
            self._later.append(work)

    def run_later(self) -> None:
        """Run the functions that `later` was given."""
        with self._lock:
            work, self._later = self._later, []
        for one in work:
            one()

    def _notice(self, logged: Logged) -> None:
        for observer in self.observers:
            observer(logged)


def text_or_none(payload: Any, name: str) -> str | None:
    """Return a text of a payload that may have any form; None without one."""
    found = payload.get(name) if isinstance(payload, dict) else None
    return found if isinstance(found, str) else None


def now_ms(store: Store) -> int:
    """Return the time of the hub's store: Unix time in milliseconds."""
    return int(store.now() * 1000)
