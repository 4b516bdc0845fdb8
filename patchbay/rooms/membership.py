"""Joining and leaving: hello and its answers, resumed sessions, leaving, and lost sessions."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from patchbay.rooms.core import RoomCore
from patchbay.rooms.folding.acl import Participant
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.folding.rights import allowed_capabilities, is_banned, may_join, participant_of
from patchbay.rooms.folding.state import AGENT, HUMAN
from patchbay.rooms.record.envelope import Json, hub_envelope
from patchbay.rooms.record.errors import RoomRefused, TooMany, UnknownRoom
from patchbay.rooms.record.hello import Hello, read_hello
from patchbay.rooms.record.log import Logged
from patchbay.rooms.servers.calls import Calls
from patchbay.rooms.session import NO_LONGER_LET_IN, UNLIMITED, Desk, RoomSession, SessionRights
from patchbay.rooms.visibility import shown_envelope


class Members:
    """The sessions of one room in this process. The sessions pass received envelopes to `services`."""

    def __init__(self, room: RoomCore, calls: Calls) -> None:
        self.room = room
        self.calls = calls
        self.sessions: dict[str, RoomSession] = {}
        self.services: Desk | None = None

    def join(
        self, principal: str, found: Mapping[str, Any], after: int | None, rights: SessionRights = UNLIMITED
    ) -> RoomSession:
        """Let a participant in. Raises BadFrame, RoomRefused, TooMany."""
        hello = read_hello(found)
        session, chosen = str(uuid4()), secrets.token_hex(12)

        def make(fold: Fold, now: int) -> Json:
            return _presence(self.room, fold.now, now, principal, hello, session, chosen)

        self.room.log.writers.note(session, principal)
        try:
            logged = self.room.append(make)
        except BaseException:
            self.room.log.writers.forget(session)
            raise
        start = logged.entry.seq if after is None else min(after, logged.entry.seq)
        made = self._attach(session, principal, start, rights)
        made.greeting = _greeting(self.room, hello, logged, logged)
        return made

    def rejoin(
        self,
        principal: str,
        id: str,
        found: Mapping[str, Any],
        after: int | None,
        rights: SessionRights = UNLIMITED,
    ) -> RoomSession:
        """Return the session of a participant whose connection was lost; a new one when the session has ended.

        `after` applies to a new session; one that goes on reads from the position of `seek`, after `attach`.
        """
        hello = read_hello(found)
        try:
            known = self.resume(principal, id, rights)
        except RoomRefused:
            return self.join(principal, found, after, rights)
        joined = self.room.state_now["sessions"][known.id]["joined"]
        known.greeting = _greeting(self.room, hello, self.room.log.entry(joined), self.room.log.entry(self.room.seq))
        return known

    def resume(self, principal: str, id: str, rights: SessionRights = UNLIMITED) -> RoomSession:
        """Return the session of this id for its own principal. Raises RoomRefused."""
        self.room.feed.pump()
        known = self.sessions.get(id)
        record = self.room.state_now["sessions"].get(id)
        if record is None:
            raise RoomRefused(f"the session {id[:80]} is not in the room; say hello again")
        if known is not None:
            if known.principal != principal:
                raise RoomRefused("the session is of another caller")
            known.rights = rights
            return known
        if record["profile"] == "ghost" or record["member"] not in (principal, self.room.pseudonym(principal)):
            raise RoomRefused("the session is of another caller, or of a ghost, which cannot be resumed")
        return self._attach(id, principal, self.room.seq, rights)

    def _attach(self, id: str, principal: str, after: int, rights: SessionRights) -> RoomSession:
        assert self.services is not None, "a room sets the services of its members"
        made = RoomSession(self.room, id, principal, after, self.services, rights)
        session = self.sessions.setdefault(id, made)  # another request may have resumed it meanwhile
        if session is made:
            self.room.feed.add_reader(made.wake)
        self.room.log.writers.note(id, principal)
        if id not in self.room.state_now["sessions"]:
            self._close(id)  # it has ended meanwhile
            self.room.log.writers.forget(id)
        return session

    def leave(self, id: str, reason: str) -> None:
        """Log that a session has left, and end the calls of it and to it. A session that has left stays so."""
        self._close(id)
        if id not in self.room.state_now["sessions"]:
            return
        try:
            self.room.append(lambda fold, now: _parting(self.room, fold.now, now, id, reason))
        except (RoomRefused, UnknownRoom):
            return  # another process was first
        self.calls.end_all("the owner of the server has left the room", owner=id)
        self.calls.end_all("cancelled: the caller has left the room", caller=id)

    def end_revoked(self) -> None:
        """End the sessions of this process whose principals lost the right to stay, or are banned under any name."""
        for session in list(self.sessions.values()):
            if is_banned(self.room.state_now, session.names) or not session.rights.is_current():
                self.leave(session.id, NO_LONGER_LET_IN)

    def part(self, member: str, reason: str) -> None:
        """End every session of a member."""
        for id, record in self.room.state_now["sessions"].items():
            if record["member"] == member:
                self.leave(id, reason)

    def note_reader(self, message: bytes) -> None:
        """End the connection here of a session that a connection in another process reads now.

        The message is the order token of that connection (16 bytes) and the id of the session.
        """
        session = self.sessions.get(message[16:].decode())
        if session is not None:
            session.replace(message[:16])

    def notice(self, logged: Logged) -> None:
        """Close the session of this process that another process, or the room, has ended."""
        envelope = logged.entry.envelope
        if envelope["type"] == "presence.part":
            self.room.log.writers.forget(envelope["payload"]["session"])
            self.room.later(lambda: self._close(envelope["payload"]["session"]))

    def close_all(self) -> None:
        """Close the sessions of this process without an entry in the log: the room is deleted."""
        for id in list(self.sessions):
            self._close(id)

    def _close(self, id: str) -> None:
        session = self.sessions.pop(id, None)
        if session is not None:
            session.is_closed = True
            self.room.feed.remove_reader(session.wake)
            session.wake()


def _presence(room: RoomCore, state: Json, now: int, principal: str, hello: Hello, session: str, chosen: str) -> Json:
    """The envelope that says that a session has joined. Raises RoomRefused, TooMany."""
    if len(state["sessions"]) >= room.bounds.members:
        raise TooMany(f"{room.bounds.members} sessions are in the room (--room-members); try again later")
    profile, member = _name(room, state, principal, hello, chosen)
    decision = may_join(state, member, profile)
    if not decision:
        raise RoomRefused(decision.reason)
    role = _role(room, state, member, principal, profile, hello)
    caps = allowed_capabilities(state, member, role, hello.caps)
    payload: Json = {"session": session, "member": member, "profile": profile, "role": role, "caps": caps}
    if hello.agent is not None and profile in ("persistent", "pseudonymous"):
        payload["agent"] = dict(hello.agent)
    return hub_envelope(room.name, "presence.join", payload | ({"key": hello.key} if hello.key else {}), now)


def _parting(room: RoomCore, state: Json, now: int, session: str, reason: str) -> Json:
    """The envelope that says that a session has left, and which servers are gone with it."""
    gone = sorted(server for server, record in state["servers"].items() if record["owner"] == session)
    payload: Json = {"session": session, "reason": reason[:200]}
    return hub_envelope(room.name, "presence.part", payload | ({"servers": gone} if gone else {}), now)


def _name(room: RoomCore, state: Json, principal: str, hello: Hello, chosen: str) -> tuple[str, str]:
    """Return the effective profile, and the member's name under it.

    A persistent hello in a room that knows the principal by its pseudonym only becomes pseudonymous.
    """
    alias = room.pseudonym(principal)
    if is_banned(state, (principal, alias)):
        raise RoomRefused("the room has banned this member")
    if hello.profile == "ghost":
        return "ghost", f"ghost-{chosen}"
    if hello.profile != "persistent":
        return hello.profile, alias
    is_admitted = bool(may_join(state, principal, "persistent"))
    return ("persistent", principal) if is_admitted else ("pseudonymous", alias)


def _role(room: RoomCore, state: Json, member: str, principal: str, profile: str, hello: Hello) -> str:
    names = [member] if profile == "ghost" else [member, room.pseudonym(principal)]
    given = [state["members"][name]["role"] for name in names if name in state["members"]]
    usual = AGENT if hello.agent is not None else HUMAN
    return next((str(role) for role in given if role is not None), usual)


def _greeting(room: RoomCore, hello: Hello, joined: Logged, newest: Logged) -> tuple[Json, ...]:
    """`privacy.accepted`, `room.policy`, `presence.join`, and `tool.advertise` for each server that is there.

    `joined` is the entry of the join, `newest` the last entry of the room at that time.
    """
    now, state, presence = newest.entry.at, room.state_now, joined.entry.envelope["payload"]
    accepted: Json = {"profile": presence["profile"], "wantsE2E": False}
    accepted["negotiatedCaps"] = state["sessions"].get(presence["session"], presence)["caps"]
    accepted |= {name: presence[name] for name in ("session", "member", "role")}
    accepted |= {name: value for name, value in (("agent", hello.agent), ("cache", hello.cache)) if value is not None}
    policy: Json = {"policy": state["policy"], "flags": state["flags"], "room": room.id, "name": room.name}
    policy |= {"seq": newest.entry.seq, "head": newest.entry.cid, "key": state["key"]}
    reader = participant_of(state, presence["session"]) or Participant(presence["role"], presence["member"])
    adverts = [
        shown_envelope(state, [reader], room.log.entry(record["advert"]).envelope)["payload"]
        for record in state["servers"].values()
        if record["status"] == "ready"
    ]
    return (
        hub_envelope(room.name, "privacy.accepted", accepted, now),
        hub_envelope(room.name, "room.policy", policy, now),
        joined.envelope,
        *(hub_envelope(room.name, "tool.advertise", advert, now) for advert in adverts),
    )


class Liveness:
    """The sessions that are alive in other processes, as they report on the bus; times are of `time.monotonic`."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._seen: dict[str, float] = {}

    def beat(self) -> list[str]:
        """Return the sessions that are alive here: connected, or used within `room_idle` seconds."""
        idle = time.monotonic() - self._members.room.bounds.idle
        return [one.id for one in list(self._members.sessions.values()) if one.is_attached or one.used > idle]

    def note_alive(self, sessions: list[str]) -> None:
        """Note which sessions are alive in another process."""
        now = time.monotonic()
        self._seen |= dict.fromkeys(sessions, now)

    def lost(self) -> list[str]:
        """Return the sessions that no process has reported for `room_idle` seconds."""
        now, alive = time.monotonic(), set(self.beat())
        known = self._members.room.state_now["sessions"]
        self._seen = {id: self._seen.get(id, now) for id in known}
        for id in alive:
            self._seen[id] = now
        return [id for id in known if self._seen.get(id, now) < now - self._members.room.bounds.idle]
