"""How participants come and go: hello and its answers, resumed sessions, leaving, and sessions that are lost."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from patchbay.rooms.errors import RoomRefused, TooMany
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.folding.rights import allowed_capabilities, may_join
from patchbay.rooms.folding.state import AGENT, HUMAN
from patchbay.rooms.hello import Hello, read_hello
from patchbay.rooms.record.envelope import Json, hub_envelope
from patchbay.rooms.record.log import Logged
from patchbay.rooms.session import RoomSession

if TYPE_CHECKING:
    from patchbay.rooms.room import Room


def join_room(room: Room, principal: str, found: Mapping[str, Any], after: int | None) -> RoomSession:
    """Let a participant in. Raises BadFrame, RoomRefused, TooMany."""
    hello = read_hello(found)
    session, chosen = str(uuid4()), secrets.token_hex(12)

    def make(fold: Fold, now: int) -> Json:
        state = fold.now
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

    logged = room.append(make)
    start = logged.entry.seq if after is None else min(after, logged.entry.seq)
    made = RoomSession(room, session, principal, start, _greeting(room, hello, logged))
    room.sessions[session] = made
    room.feed.add_reader(made.wake)
    return made


def _name(room: Room, state: Json, principal: str, hello: Hello, chosen: str) -> tuple[str, str]:
    """The profile that counts and the member's name under it.

    A persistent hello in a room that knows the principal by its pseudonym only becomes pseudonymous.
    """
    alias = room.pseudonym(principal)
    if state["members"].get(alias, {}).get("membership") == "banned":
        raise RoomRefused("the room has banned this member")
    if hello.profile == "ghost":
        return "ghost", f"ghost-{chosen}"
    if hello.profile != "persistent":
        return hello.profile, alias
    is_admitted = bool(may_join(state, principal, "persistent"))
    return ("persistent", principal) if is_admitted else ("pseudonymous", alias)


def _role(room: Room, state: Json, member: str, principal: str, profile: str, hello: Hello) -> str:
    names = [member] if profile == "ghost" else [member, room.pseudonym(principal)]
    given = [state["members"][name]["role"] for name in names if name in state["members"]]
    usual = AGENT if hello.agent is not None else HUMAN
    return next((str(role) for role in given if role is not None), usual)


def _greeting(room: Room, hello: Hello, logged: Logged) -> tuple[Json, ...]:
    """`privacy.accepted`, `room.policy`, `presence.join`, and `tool.advertise` for each server that is there."""
    now, state = logged.entry.at, room.state_now
    joined = logged.entry.envelope["payload"]
    accepted: Json = {"profile": joined["profile"], "wantsE2E": False, "negotiatedCaps": joined["caps"]}
    accepted |= {"session": joined["session"], "member": joined["member"], "role": joined["role"]}
    accepted |= {name: value for name, value in (("agent", hello.agent), ("cache", hello.cache)) if value is not None}
    policy: Json = {"policy": state["policy"], "flags": state["flags"], "room": room.id, "name": room.name}
    policy |= {"seq": logged.entry.seq, "head": logged.entry.cid, "key": state["key"]}
    adverts = [
        room.log.entry(record["advert"]).envelope["payload"]
        for record in state["servers"].values()
        if record["status"] == "ready"
    ]
    return (
        hub_envelope(room.name, "privacy.accepted", accepted, now),
        hub_envelope(room.name, "room.policy", policy, now),
        logged.envelope,
        *(hub_envelope(room.name, "tool.advertise", advert, now) for advert in adverts),
    )


def resume_session(room: Room, principal: str, id: str) -> RoomSession:
    """Return the session of this id for its own principal. Raises RoomRefused."""
    room.feed.pump()
    known = room.sessions.get(id)
    record = room.state_now["sessions"].get(id)
    if record is None:
        raise RoomRefused(f"the session {id[:80]} is not in the room; say hello again")
    if known is not None:
        if known.principal != principal:
            raise RoomRefused("the session is of another caller")
        return known
    if record["profile"] == "ghost" or record["member"] not in (principal, room.pseudonym(principal)):
        raise RoomRefused("the session is of another caller, or a ghost's, which only its own connection carries on")
    made = RoomSession(room, id, principal, room.seq, ())
    room.sessions[id] = made
    room.feed.add_reader(made.wake)
    return made


def leave_room(room: Room, id: str, reason: str) -> None:
    """Log that a session has left, and end the calls of it and to it. A session that is gone already stays gone."""
    _close(room, id)
    if id not in room.state_now["sessions"]:
        return
    try:
        room.append_own("presence.part", {"session": id, "reason": reason[:200]})
    except RoomRefused:
        return  # another process was first
    room.end_calls_of(owner=id, reason="the owner of the server has left the room")
    room.end_calls_of(caller=id, reason="cancelled: the caller has left the room")


def notice(room: Room, logged: Logged) -> None:
    """Close the session here that another process, or the room, has parted."""
    envelope = logged.entry.envelope
    if envelope["type"] == "presence.part":
        room.later(lambda: _close(room, envelope["payload"]["session"]))


def _close(room: Room, id: str) -> None:
    session = room.sessions.pop(id, None)
    if session is not None:
        session.is_closed = True
        room.feed.remove_reader(session.wake)
        session.wake()


class Liveness:
    """Which sessions are alive in other processes, by what those say on the bus; in seconds of `time.monotonic`."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._seen: dict[str, float] = {}

    def beat(self) -> list[str]:
        """Return the sessions that are alive here: connected, or used within `room_idle` seconds."""
        idle = time.monotonic() - self._room.bounds.idle
        return [one.id for one in self._room.sessions.values() if one.is_attached or one.used > idle]

    def heard(self, sessions: list[str]) -> None:
        """Take note of what is alive elsewhere."""
        now = time.monotonic()
        self._seen |= dict.fromkeys(sessions, now)

    def lost(self) -> list[str]:
        """Return the sessions that nothing has been heard of for `room_idle` seconds, here or elsewhere."""
        now, alive = time.monotonic(), set(self.beat())
        known = self._room.state_now["sessions"]
        self._seen = {id: self._seen.get(id, now) for id in known}
        for id in alive:
            self._seen[id] = now
        return [id for id in known if self._seen.get(id, now) < now - self._room.bounds.idle]
