"""One room in this process, as transports, pages and other parts of the hub use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSet
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from patchbay.activation import Events
from patchbay.catalogue.contents.ledger import Ledger
from patchbay.pins.offers import TOOL
from patchbay.rooms.bounds import Bounds
from patchbay.rooms.core import RoomCore, now_ms
from patchbay.rooms.folding.acl import Participant
from patchbay.rooms.folding.rights import Action, Decision, decide, participant_of
from patchbay.rooms.history import exported_lines, forget_redacted, readers_of
from patchbay.rooms.membership import Liveness, Members
from patchbay.rooms.receiving import Reception
from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.record.envelope import HUB, Json
from patchbay.rooms.record.log import Logged
from patchbay.rooms.servers.announcements import Advertised, advertised
from patchbay.rooms.servers.calls import Calls
from patchbay.rooms.servers.client_calls import CallTarget, call_server
from patchbay.rooms.servers.gateway import Gateway
from patchbay.rooms.servers.mounting import GatewayContext
from patchbay.rooms.servers.offers import keep_room_offer
from patchbay.rooms.session import UNLIMITED, RoomSession, SessionRights
from patchbay.store import Store
from patchbay.topics import ROOM_TOOLS

TOGETHER = 32
"""Sessions that leave at the same time when the hub ends, so that the store writes their entries in one step."""

TOOL_TYPES = frozenset(
    {"tool.advertise", "mcp.unmount", "mcp.mount", "mcp.mount.failed", "presence.part", "room.policy", "room.member"}
)
"""Types that change the tools of the room. An announcement is not one of them: the advertisement that follows it is."""


class Room:
    """A room. `id` is the CID of its first entry, `name` the name for people. Safe to use from many threads.

    `limited` gets its id while it hides something from some MCP client of the hub. `ledger` counts what callers write.
    """

    def __init__(
        self,
        store: Store,
        id: str,
        signer: Signer,
        bounds: Bounds,
        context: GatewayContext,
        limited: MutableSet[str],
        ledger: Ledger | None = None,
    ) -> None:
        self.core = RoomCore(store, id, signer, bounds, ledger)
        self.id = id
        self.name = self.core.name
        self.bounds = bounds
        self._calls = Calls(self.core)
        self._gateway = Gateway(self._calls, context)
        self._calls.run_mounted = self._gateway.run
        self._members = Members(self.core, self._calls)
        self._members.services = Reception(self.core, self._calls, self._gateway, self._members)
        self.liveness = Liveness(self._members)
        self.core.observers += [self._calls.notice, self._gateway.notice, self._members.notice, self._notice]
        self._limited = limited
        self._keep_offer()

    # participants

    def join(
        self,
        principal: str,
        hello: Mapping[str, Any],
        after: int | None = None,
        rights: SessionRights = UNLIMITED,
    ) -> RoomSession:
        """Answer a hello: a session, whose `greeting` has `privacy.accepted`, `room.policy`, `presence.join` and
        `tool.advertise` for each server that is there.

        The session reads the entries after its own join; with `after`, a seq, first the entries of the log after that.
        `rights` limit the session in addition to the rules of the room.
        Raises BadFrame for a hello that cannot be read, RoomRefused for one that the room does not admit, TooMany.
        """
        return self._members.join(principal, hello, after, rights)

    def resume(self, principal: str, session_id: str, rights: SessionRights = UNLIMITED) -> RoomSession:
        """Return a session that joined before, maybe in another process, for a transport without a connection.

        Raises RoomRefused when it has ended, or belongs to another principal.
        """
        return self._members.resume(principal, session_id, rights)

    def rejoin(
        self,
        principal: str,
        session_id: str,
        hello: Mapping[str, Any],
        after: int | None,
        rights: SessionRights = UNLIMITED,
    ) -> RoomSession:
        """Answer the hello of a participant that comes back: its session goes on, or a new one begins if it has ended.

        `privacy.accepted` in the greeting names the session. For one that goes on, call `attach`, then `seek`.
        Raises the errors of `join`.
        """
        return self._members.rejoin(principal, session_id, hello, after, rights)

    @property
    def sessions(self) -> dict[str, RoomSession]:
        """The sessions that are held in this process, by id."""
        return dict(self._members.sessions)

    def pseudonym(self, principal: str) -> str:
        """Return the name that a principal has in this room."""
        return self.core.pseudonym(principal)

    def is_banned(self, principal: str) -> bool:
        """Whether the room has banned a principal, under any of its names."""
        return self.core.is_banned(principal)

    # state

    def state(self) -> Json:
        """Return a copy of the state (see `patchbay.rooms.folding.state`), as of now in every process."""
        self.core.log.catch_up()
        return self.core.log.fold.state()

    @property
    def state_now(self) -> Json:
        """The state as this process knows it, for reading only."""
        return self.core.state_now

    @property
    def seq(self) -> int:
        """The seq of the newest entry."""
        return self.core.seq

    @property
    def head(self) -> str:
        """The CID of the newest entry; it identifies the whole log."""
        return self.core.log.fold.head

    @property
    def state_cid(self) -> str:
        """The CID of the state."""
        return self.core.log.fold.state_cid

    def client_now(self, principal: str) -> tuple[Json, Participant | None]:
        """Return the state as of now in every process, and who an MCP client of the hub is in it.

        None for a client that may call nothing: it is banned or not invited, or the room is closed to such clients.
        """
        self.core.log.catch_up()
        state, member = self.core.state_now, self.core.pseudonym(principal)
        may_call = not self.core.is_banned(principal) and decide(state, HUB, "call", "", member)
        return state, participant_of(state, HUB, member) if may_call else None

    def tools(self, principal: str | None = None) -> list[Advertised]:
        """Return every tool that can be called, with the digest of its descriptor, by server and name.

        For a principal, only those that the access list shows it; None is the operator, who sees all.
        """
        readers = None if principal is None else readers_of(self.core, principal)
        return [one for one in advertised(self.core, readers) if one.descriptor.kind == "tool"]

    def content_topics(self) -> list[str]:
        """Return the topics of the journal that hold contents of the room's envelopes."""
        return self.core.log.content_topics()

    def decide(self, who: str, action: Action, about: str = "", member: str = "") -> Decision:
        """Decide whether a session (or, for `hub`, an MCP client as `member`) may do something here."""
        return decide(self.core.state_now, who, action, about, member)

    def lines(self, after: int = 0, principal: str | None = None) -> Iterator[bytes]:
        """Yield the signed log as lines of NDJSON without line breaks, entries after a seq.

        For a principal, one line `{"withheld": {...}}` replaces the entries that it may not see; None is the
        operator, who sees all.
        `record.verification.verify` checks these lines.
        """
        return exported_lines(self.core, after, principal)

    def entries(self, after: int = 0, limit: int = 100) -> list[Logged]:
        """Return entries after a seq, with their contents unless they were deleted, for the operator's pages."""
        self.core.log.catch_up()
        return list(self.core.log.read(after, limit))

    # entries and calls

    def call(
        self, server_id: str, name: str, arguments: Json, principal: str, ttl: float, method: str = TOOL
    ) -> Events:
        """Call a tool for an MCP client that has not joined: the events of one activation, then its ending.

        With `method` `resources/read` or `prompts/get`, read the resource whose URI is `name`, or get the prompt of
        this name. `ttl` in seconds. Closing the generator cancels the call. A wait yields Pause, so that
        `activation.activate` can notice a deadline and a cancellation.
        """
        return call_server(self._calls, CallTarget(server_id, name, arguments, method), principal, ttl)

    # upkeep by the process

    def tick(self) -> None:
        """Read the entries of other processes, and end expired calls. Called every second and after messages."""
        self.core.feed.pump()
        self.core.run_later()
        self._calls.expire(now_ms(self.core.store))
        self._members.end_revoked()

    def note_reader(self, message: bytes) -> None:
        """Take note that a connection in another process reads a session (the message of ROOM_READERS)."""
        self._members.note_reader(message)

    def next_deadline(self) -> int | None:
        """Return the next deadline of a call (Unix time in milliseconds), None without open calls."""
        return self._calls.next_deadline()

    def end_lost_sessions(self) -> None:
        """End the sessions that are alive in no process."""
        for id in self.liveness.lost():
            self._members.leave(id, "the connection was lost")

    @property
    def is_unused(self) -> bool:
        """Whether the room has no participant in any process, and no open call."""
        state = self.core.state_now
        return not (state["sessions"] or state["calls"] or self._members.sessions)

    def close(self) -> None:
        """End the sessions and mounts of the room in this process."""
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(lambda id: self._members.leave(id, "the hub is ending"), list(self._members.sessions)))
        self._gateway.close()

    def answer_calls(self, reason: str) -> None:
        """Answer every open call with an error, in every process, without an entry in the log."""
        self._calls.answer_all(reason)

    def drop(self) -> None:
        """End what the room has in this process, without an entry in its log: it is deleted."""
        self._members.close_all()
        self._calls.stop_all()
        self._gateway.close()

    def _notice(self, logged: Logged) -> None:
        forget_redacted(self.core, logged)
        if logged.entry.envelope["type"] in TOOL_TYPES:
            self.core.later(self._announce_tools)

    def _keep_offer(self) -> None:
        if keep_room_offer(self.core):
            self._limited.add(self.id)
        else:
            self._limited.discard(self.id)

    def _announce_tools(self) -> None:
        self._keep_offer()
        self.core.store.bus.publish(ROOM_TOOLS + self.id)
