"""One room in this process: its log and state, its sessions, its calls; what ways in, pages and other parts use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from patchbay.errors import PatchbayError
from patchbay.rooms import membership, past
from patchbay.rooms.bounds import Bounds
from patchbay.rooms.feed import Delivery, Feed
from patchbay.rooms.folding.rights import Action, Decision, decide
from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.record.envelope import Json, hub_envelope
from patchbay.rooms.record.log import Logged, Make, RoomLog
from patchbay.rooms.servers import announcements, client_calls
from patchbay.rooms.servers.announcements import AdvertisedTool
from patchbay.rooms.servers.calls import Calls
from patchbay.rooms.servers.gateway import Gateway, GatewayContext
from patchbay.rooms.session import Receipt, RoomSession
from patchbay.store import Store

TOOLS_TOPIC = "room-tools/"
"""Topic of the store's bus, with a room's id behind it, that says that the room's tools have changed."""

TOOL_TYPES = frozenset({"tool.advertise", "mcp.unmount", "mcp.mount", "mcp.mount.failed", "mcp.announce"})


class Room:
    """A room. `id` is the CID of its first entry, `name` what people call it. Safe to use from many threads."""

    def __init__(self, store: Store, id: str, signer: Signer, bounds: Bounds, context: GatewayContext) -> None:
        self.id = id
        self.bounds = bounds
        self.store = store
        self.signer = signer
        self.log = RoomLog(store, id, signer, bounds.log, bounds.replay)
        self.log.catch_up()
        self.name = str(self.log.fold.now["name"])
        self.sessions: dict[str, RoomSession] = {}
        self.calls = Calls(self)
        self.gateway = Gateway(self, context)
        self._later: list[Callable[[], Any]] = []
        self._lock = threading.RLock()
        self.feed = Feed(store, self.log, bounds.replay, self._notice)

    # who is here

    def join(self, principal: str, hello: Mapping[str, Any], after: int | None = None) -> RoomSession:
        """Answer a hello: a session, whose `greeting` has `privacy.accepted`, `room.policy`, the room's tools and
        `presence.join`.

        The session reads what comes after its own joining; with `after`, a seq, what the log has after that first.
        Raises BadFrame for a hello that cannot be read, RoomRefused for one that the room does not admit, TooMany.
        """
        return membership.join_room(self, principal, hello, after)

    def resume(self, principal: str, session_id: str) -> RoomSession:
        """Return a session that joined before, maybe in another process, for a way in that keeps no connection.

        Raises RoomRefused when it has ended, or is of another principal.
        """
        return membership.resume_session(self, principal, session_id)

    def leave(self, session: RoomSession, reason: str = "left") -> None:
        """End a session: its servers go, the calls of and to it end with a sentence."""
        membership.leave_room(self, session.id, reason)

    def leave_lost(self, session: str) -> None:
        """End a session of which nothing has been heard for long."""
        membership.leave_room(self, session, "the connection was lost")

    def part_member(self, member: str, reason: str) -> None:
        """End every session of a member."""
        for id, record in self.state_now["sessions"].items():
            if record["member"] == member:
                membership.leave_room(self, id, reason)

    def pseudonym(self, principal: str) -> str:
        """Return the name that a principal has in this room."""
        return self.signer.pseudonym(self.state_now["salt"], principal)

    # what it is

    @property
    def state_now(self) -> Json:
        """The state as it is, for reading only: it never changes, the next one takes its place."""
        return self.log.fold.now

    def state(self) -> Json:
        """Return a copy of the state (see `patchbay.rooms.folding.state`), as of now in every process."""
        self.log.catch_up()
        return self.log.fold.state()

    @property
    def seq(self) -> int:
        """The seq of the newest entry."""
        return self.log.fold.seq

    @property
    def head(self) -> str:
        """The CID of the newest entry, which stands for the whole past."""
        return self.log.fold.head

    @property
    def state_cid(self) -> str:
        """The CID of the state."""
        return self.log.fold.state_cid

    def tools(self) -> list[AdvertisedTool]:
        """Return every tool that can be called, with the digest of its descriptor, by server and name."""
        return announcements.advertised_tools(self)

    def decide(self, who: str, action: Action, about: str = "", member: str = "") -> Decision:
        """Decide whether a session (or, for `hub`, an MCP client as `member`) may do something here."""
        return decide(self.state_now, who, action, about, member)

    def lines(self, after: int = 0, principal: str | None = None) -> Iterator[bytes]:
        """Yield the signed log as lines of NDJSON without line breaks, entries after a seq.

        For a principal, what it may not see is one line `{"withheld": {...}}`; None sees everything (the operator).
        `verify` takes these lines.
        """
        return past.exported_lines(self, after, principal)

    def entries(self, after: int = 0, limit: int = 100) -> list[Logged]:
        """Return entries after a seq with the contents that are still there, for the operator's pages."""
        self.log.catch_up()
        return list(self.log.read(after, limit))

    def past(self, after: int, limit: int, principal: str, session: str) -> list[Delivery]:
        """Return what a session may read of the log after a seq; what is withheld is a `room.withheld` envelope."""
        return past.past_deliveries(self, after, limit, principal, session)

    # what is done

    def call(self, server_id: str, tool: str, arguments: Json, principal: str, ttl: float) -> client_calls.CallEvents:
        """Call a tool for an MCP client that has not joined: the events of one activation, then its ending.

        `ttl` in seconds. Closing the generator cancels the call. Waits say Pause, so that `activate` can notice a
        deadline and a cancellation.
        """
        return client_calls.call_tool(self, server_id, tool, arguments, principal, ttl)

    def append(self, make: Make) -> Logged:
        """Append an envelope to the log and deliver it. Raises what `RoomLog.append` raises."""
        logged = self.log.append(make)
        if not logged.is_duplicate:
            self.feed.announce()
        self.run_later()
        return logged

    def append_own(self, type: str, payload: Json, rel: Json | None = None) -> Logged:
        """Append an envelope of the hub itself."""
        return self.append(lambda fold, now: hub_envelope(self.name, type, payload, now, rel))

    def redact(self, envelope: Json) -> Logged:
        """Take the contents of an entry away; the chain holds. The envelope's payload names its `seq`."""
        return past.redact_entry(self, envelope)

    def end_calls_of(self, server: str = "", owner: str = "", caller: str = "", reason: str = "") -> None:
        """End the open calls of a server, of an owner's servers or of a caller."""
        for call, record in self.state_now["calls"].items():
            if (server and record["serverId"] == server) or record["owner"] == owner or record["caller"] == caller:
                self.calls.end(call, False, error=reason)

    # answers

    def refusal(self, envelope: Json, problem: PatchbayError) -> Json:
        """Return the envelope that tells a participant that its envelope was refused."""
        payload, kind = envelope["payload"], envelope["type"]
        if kind == "tool.call":
            said: Json = {"callId": payload.get("callId"), "ok": False, "error": problem.message}
            type = "tool.result"
        elif kind == "mcp.mount":
            said, type = {"serverId": payload.get("serverId"), "error": problem.message}, "mcp.mount.failed"
        else:
            said, type = {"id": envelope["id"], "type": kind, "error": problem.message}, "room.refused"
        return hub_envelope(self.name, type, said, int(time.time() * 1000), {"replyTo": envelope["id"]})

    def answer(self, session: RoomSession, envelope: Json) -> None:
        """Deliver an envelope to one participant, wherever it is connected."""
        if session.is_attached:
            session.push(envelope)
        else:
            self.feed.publish(envelope, to=session.id)

    @staticmethod
    def receipt(envelope: Json, logged: Logged | None = None, refusal: str = "", answer: Json | None = None) -> Receipt:
        """Return what came of an envelope."""
        seq, is_duplicate = (logged.entry.seq, logged.is_duplicate) if logged is not None else (None, False)
        return Receipt(envelope["id"], seq, is_duplicate, refusal, () if answer is None else (answer,))

    # the process around it

    def _notice(self, logged: Logged) -> None:
        self.calls.notice(logged)
        membership.notice(self, logged)
        past.notice(self, logged)
        if logged.entry.envelope["type"] in TOOL_TYPES | {"presence.part"}:
            self.later(lambda: self.store.bus.publish(TOOLS_TOPIC + self.id))

    def later(self, work: Callable[[], Any]) -> None:
        """Do something when nothing is locked any more."""
        with self._lock:
            self._later.append(work)

    def run_later(self) -> None:
        """Do what was put off."""
        with self._lock:
            work, self._later = self._later, []
        for one in work:
            one()

    @staticmethod
    def now() -> int:
        """Unix time in milliseconds."""
        return int(time.time() * 1000)

    def tick(self) -> None:
        """Take in what other processes did, end what is over; called every second and when the bus says so."""
        self.feed.pump()
        self.run_later()
        self.calls.expire(int(time.time() * 1000))

    def close(self) -> None:
        """End what this process holds of the room; its sessions leave."""
        for session in list(self.sessions.values()):
            membership.leave_room(self, session.id, "the hub is ending")
        self.gateway.close()
