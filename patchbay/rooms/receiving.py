"""Handling of one envelope of a participant: a table with one function for each type.

Each refusal is answered: a call by `tool.result` with `ok: false`, a mount by `mcp.mount.failed`, other types
by `room.refused`; each has a sentence, and `rel.replyTo` names the envelope that was refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import token_hex

from patchbay.errors import OverQuota, PatchbayError
from patchbay.pins.offers import TOOL
from patchbay.rooms.core import RoomCore, text_or_none
from patchbay.rooms.folding.acl import is_limited
from patchbay.rooms.folding.calls import NoRationale
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.folding.rights import Action, allowed_capabilities, decide
from patchbay.rooms.history import redact_entry
from patchbay.rooms.membership import Members
from patchbay.rooms.record.envelope import Json, hub_envelope, now_text
from patchbay.rooms.record.errors import BadFrame, NotShown, RoomRefused
from patchbay.rooms.record.hello import read_capabilities
from patchbay.rooms.record.log import Logged
from patchbay.rooms.servers.announcements import advertise_again, announce
from patchbay.rooms.servers.calls import Calls
from patchbay.rooms.servers.gateway import Gateway
from patchbay.rooms.session import Receipt, RoomSession

log = logging.getLogger(__name__)

ONLY_HUB = frozenset(
    ("room.create", "presence.join", "privacy.accepted", "tool.advertise", "mcp.mount.failed", "guardrail.violation")
) | {"cache.hit", "room.refused", "room.withheld", "mcp.replaced", "room.rules"}
"""Types that only the hub sends."""

FOR_READERS = frozenset({"presence.part", "presence.heartbeat", "flow.pause", "flow.resume", "flow.nack"})
"""Types that a participant with the right to read may send."""


@dataclass(frozen=True)
class Reception:
    """Receives the envelopes of a room's participants."""

    room: RoomCore
    calls: Calls
    gateway: Gateway
    members: Members

    def receive(self, session: RoomSession, envelope: Json) -> Receipt:
        """Take an envelope that was read; a payload that cannot be read is refused."""
        handle = HANDLES.get(envelope["type"], _speak if envelope["kind"] == "event" else _stream)
        try:
            _check_rights(session, envelope)
            logged = handle(self, session, session.addressed(envelope))
        except PatchbayError as problem:
            return self.refuse(session, envelope, problem)
        except Exception:
            # One envelope must not end the session, and the servers that it shares with it.
            number = token_hex(6)
            log.exception("incident %s at %s in the room %s", number, envelope["type"], self.room.name)
            return self.refuse(session, envelope, PatchbayError(f"internal error (incident {number})"))
        if logged is None:
            return Receipt(envelope["id"])
        return Receipt(envelope["id"], logged.entry.seq, logged.is_duplicate)

    def refuse(self, session: RoomSession, envelope: Json, problem: PatchbayError) -> Receipt:
        """Answer an envelope that has an id and a type with a refusal."""
        room = self.room
        log.info("the room %s refused %s of %s: %s", room.name, envelope["type"], session.id, problem.message)
        if isinstance(problem.__cause__, NoRationale):
            call = str(envelope["payload"].get("callId"))
            payload: Json = {"session": session.id, "callId": call, "reason": "missing-rationale"}
            room.append_own("guardrail.violation", payload, {"replyTo": envelope["id"]})
        answer = room.refusal(envelope, problem)
        if session.is_attached:
            session.push(answer)
        else:
            room.feed.publish(answer, to=session.id)
        return Receipt(envelope["id"], None, False, problem.message, (answer,), not isinstance(problem, BadFrame))

    def append(self, envelope: Json) -> Logged:
        """Log an envelope as it is."""
        return self.room.append(lambda fold, now: envelope)

    def leave(self, session_id: str, reason: str) -> None:
        """End a session."""
        self.members.leave(session_id, reason)


def _check_rights(session: RoomSession, envelope: Json) -> None:
    """Raise RoomRefused for what only the hub sends, and for what the principal of a session may not say.

    The rights to a call are checked where it begins (`_call`).
    """
    if envelope["type"] in ONLY_HUB:
        raise RoomRefused(f"only the hub sends {envelope['type']}")
    if envelope["type"] != "tool.call" and envelope["type"] not in FOR_READERS and not session.rights.may_speak():
        raise RoomRefused("this participant may only read the room")


Handle = Callable[[Reception, RoomSession, Json], Logged | None]


def _append(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    return services.append(envelope)


def _speak(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    _need(services.room, session, "speak")
    return _append(services, session, envelope)


def _stream(services: Reception, session: RoomSession, envelope: Json) -> None:
    _need(services.room, session, "speak")
    payload = envelope["payload"]
    if not isinstance(payload.get("streamId"), str) or type(payload.get("seq")) is not int:
        raise BadFrame("a stream envelope has no streamId or no seq in its payload")
    if services.room.state_now["calls"].get(payload["streamId"], {}).get("owner", session.id) != session.id:
        raise RoomRefused(f"the stream {payload['streamId']!r:.80} is the call of another session")
    services.room.feed.publish(envelope)


def _pass_on(services: Reception, session: RoomSession, envelope: Json) -> None:
    _need(services.room, session, "speak")
    services.room.feed.publish(envelope)


def _need(room: RoomCore, session: RoomSession, action: Action) -> None:
    decision = decide(room.state_now, session.id, action)
    if not decision:
        raise RoomRefused(decision.reason)


def _call(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    payload = envelope["payload"]
    what = (payload.get("serverId"), payload.get("name"), payload.get("method", TOOL))
    try:
        place = session.rights.begin_call(*what)
    except NotShown as problem:
        return services.calls.open(envelope, problem.place, problem.hide)
    return services.calls.open(envelope, place)


def _partial(services: Reception, session: RoomSession, envelope: Json) -> None:
    services.calls.partial(session.id, envelope)


def _result(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    """Log a result; a caller does not wait for one that its owner may not store."""
    try:
        return services.calls.answer(envelope)
    except OverQuota as problem:
        call = text_or_none(envelope["payload"], "callId")
        if call is not None and services.room.state_now["calls"].get(call, {}).get("owner") == session.id:
            services.calls.end(call, False, error=f"the result is not stored: {problem.message}")
        raise


def _cancel(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    return services.calls.cancel(envelope)


def _mount(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    return services.gateway.mount(envelope)


def _unmount(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    server = envelope["payload"].get("serverId")
    logged = _append(services, session, envelope)
    services.calls.end_all("the server was unmounted", server=str(server))
    return logged


def _announce(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    return announce(services.room, envelope)


def _update_caps(services: Reception, session: RoomSession, envelope: Json) -> Logged | None:
    """Answer with all effective capabilities, under the next revision; without a change there is no answer."""
    payload = envelope["payload"]
    wanted = {name: read_capabilities(payload[name]) for name in ("caps", "grant", "revoke") if name in payload}

    def make(fold: Fold, now: int) -> Json:
        record = fold.now["sessions"].get(session.id)
        if record is None:
            raise RoomRefused(f"the session {session.id} is not in the room")
        before = record["caps"]
        after = list(wanted.get("caps", before))
        after += [cap for cap in wanted.get("grant", ()) if cap not in after]
        after = [cap for cap in after if cap not in wanted.get("revoke", ())]
        after = allowed_capabilities(fold.now, record["member"], record["role"], after)
        changed = {"granted": [cap for cap in after if cap not in before]}
        changed["revoked"] = [cap for cap in before if cap not in after]
        asked = {name: payload[name] for name in ("reason", "requestId") if isinstance(payload.get(name), str)}
        revision = {"revision": record["revision"] + 1, "acknowledgedAt": now_text(now)}
        body: Json = {"session": session.id, "caps": after, **changed, **revision, **asked}
        return hub_envelope(services.room.name, "caps.update", body, now, {"replyTo": envelope["id"]})

    return services.room.append(make)


def _set_policy(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    before = services.room.state_now["policy"]["acl"]
    logged = _append(services, session, envelope)
    if not logged.is_duplicate and services.room.state_now["policy"]["acl"] != before:
        advertise_again(services.room)
    return logged


def _redact(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    return redact_entry(services.room, envelope)


def _set_member(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    payload = dict(envelope["payload"])
    principal = payload.pop("principal", None)
    if isinstance(principal, str) and "sig" not in envelope:
        payload["member"] = services.room.pseudonym(principal)
    logged = _append(services, session, {**envelope, "payload": payload})
    if not logged.is_duplicate and "role" in payload and is_limited(services.room.state_now):
        advertise_again(services.room)
    if payload.get("membership") in ("left", "banned"):
        services.members.part(str(payload["member"]), f"the membership is {payload['membership']}")
        services.members.end_revoked()
    return logged


def _part(services: Reception, session: RoomSession, envelope: Json) -> None:
    session.leave(str(envelope["payload"].get("reason") or "left")[:200])


def _pause(services: Reception, session: RoomSession, envelope: Json) -> None:
    session.flow.pause(_text_of(envelope, "streamId"))


def _resume(services: Reception, session: RoomSession, envelope: Json) -> None:
    for delivery in session.flow.resume(_text_of(envelope, "streamId")):
        session.push(delivery.envelope)


def _nack(services: Reception, session: RoomSession, envelope: Json) -> None:
    numbers = envelope["payload"].get("missing")
    if not isinstance(numbers, list) or not all(type(one) is int for one in numbers):
        raise BadFrame("a flow.nack envelope has no list of whole numbers as missing in its payload")
    for delivery in session.flow.missing(_text_of(envelope, "streamId"), numbers):
        session.push(delivery.envelope)


def _note_rationale(services: Reception, session: RoomSession, envelope: Json) -> Logged:
    _text_of(envelope, "callId")
    return _append(services, session, envelope)


def _text_of(envelope: Json, name: str) -> str:
    """Return a text of the payload. Raises BadFrame when it is missing, empty or no text."""
    found = envelope["payload"].get(name)
    if not isinstance(found, str) or not found:
        raise BadFrame(f"the payload of {envelope['type']} has no text {name}")
    return found


def _hello(services: Reception, session: RoomSession, envelope: Json) -> None:
    raise RoomRefused("this session has said hello already")


HANDLES: Mapping[str, Handle] = {
    "hello": _hello,
    "tool.call": _call,
    "tool.partial": _partial,
    "tool.result": _result,
    "tool.stream": _stream,
    "tool.cancel": _cancel,
    "mcp.mount": _mount,
    "mcp.unmount": _unmount,
    "mcp.announce": _announce,
    "caps.update": _update_caps,
    "room.redact": _redact,
    "room.policy": _set_policy,
    "room.flags": _append,
    "room.member": _set_member,
    "act.rationale": _note_rationale,
    "act.intent": _append,
    "presence.part": _part,
    "presence.heartbeat": _pass_on,
    "state.patch": _pass_on,
    "flow.pause": _pause,
    "flow.resume": _resume,
    "flow.nack": _nack,
}
