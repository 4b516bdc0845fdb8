"""What becomes of one envelope of a participant: one function for each type, in a table.

Whatever is refused is answered: a call by `tool.result` with `ok: false`, a mount by `mcp.mount.failed`, anything else
by `room.refused`; each has a sentence, and `rel.replyTo` names the envelope that was refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from patchbay.errors import PatchbayError
from patchbay.rooms.errors import BadFrame, RoomRefused
from patchbay.rooms.folding.calls import NoRationale
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.folding.rights import Action, allowed_capabilities, decide
from patchbay.rooms.hello import read_capabilities
from patchbay.rooms.record.envelope import Json, hub_envelope, now_text
from patchbay.rooms.record.log import Logged
from patchbay.rooms.servers.announcements import announce

if TYPE_CHECKING:
    from patchbay.rooms.room import Room
    from patchbay.rooms.session import Receipt, RoomSession

log = logging.getLogger(__name__)

Handle = Callable[["Room", "RoomSession", Json], Logged | None]

ONLY_HUB = frozenset(
    ("room.create", "presence.join", "privacy.accepted", "tool.advertise", "mcp.mount.failed", "guardrail.violation")
) | {"cache.hit", "room.refused", "room.withheld"}
"""Types that only the hub sends."""


def receive(room: Room, session: RoomSession, envelope: Json) -> Receipt:
    """Take an envelope that was read. Raises BadFrame for a payload that cannot be read."""
    from_table = HANDLES.get(envelope["type"], _speak if envelope["kind"] == "event" else _stream)
    try:
        logged = from_table(room, session, session.addressed(envelope))
    except BadFrame:
        raise
    except PatchbayError as problem:
        return _refused(room, session, envelope, problem)
    if logged is None:
        return room.receipt(envelope)
    return room.receipt(envelope, logged)


def _refused(room: Room, session: RoomSession, envelope: Json, problem: PatchbayError) -> Receipt:
    log.info("the room %s refused %s of %s: %s", room.name, envelope["type"], session.id, problem.message)
    if isinstance(problem.__cause__, NoRationale):
        call = str(envelope["payload"].get("callId"))
        payload: Json = {"session": session.id, "callId": call, "reason": "missing-rationale"}
        room.append_own("guardrail.violation", payload, {"replyTo": envelope["id"]})
    answer = room.refusal(envelope, problem)
    room.answer(session, answer)
    return room.receipt(envelope, None, problem.message, answer)


def _append(room: Room, session: RoomSession, envelope: Json) -> Logged:
    return room.append(lambda fold, now: envelope)


def _speak(room: Room, session: RoomSession, envelope: Json) -> Logged:
    if envelope["type"] in ONLY_HUB:
        raise RoomRefused(f"only the hub sends {envelope['type']}")
    _need(room, session, "speak")
    return _append(room, session, envelope)


def _stream(room: Room, session: RoomSession, envelope: Json) -> None:
    _need(room, session, "speak")
    payload = envelope["payload"]
    if not isinstance(payload.get("streamId"), str) or not isinstance(payload.get("seq"), int):
        raise BadFrame("a stream envelope has no streamId or no seq in its payload")
    room.feed.publish(envelope)


def _need(room: Room, session: RoomSession, action: Action) -> None:
    decision = decide(room.state_now, session.id, action)
    if not decision:
        raise RoomRefused(decision.reason)


def _call(room: Room, session: RoomSession, envelope: Json) -> Logged:
    return room.calls.open(envelope)


def _partial(room: Room, session: RoomSession, envelope: Json) -> None:
    room.calls.partial(session.id, envelope)


def _result(room: Room, session: RoomSession, envelope: Json) -> Logged:
    return room.calls.answer(envelope)


def _cancel(room: Room, session: RoomSession, envelope: Json) -> Logged:
    return room.calls.cancel(envelope)


def _mount(room: Room, session: RoomSession, envelope: Json) -> Logged:
    return room.gateway.mount(envelope)


def _unmount(room: Room, session: RoomSession, envelope: Json) -> Logged:
    server = envelope["payload"].get("serverId")
    logged = _append(room, session, envelope)
    room.end_calls_of(server=str(server), reason="the server was unmounted")
    return logged


def _announce(room: Room, session: RoomSession, envelope: Json) -> Logged:
    return announce(room, envelope)


def _update_caps(room: Room, session: RoomSession, envelope: Json) -> Logged | None:
    """Answer with the whole set that counts from now on, under the next revision; nothing where nothing changes."""
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
        said: Json = {"session": session.id, "caps": after, **changed, **revision, **asked}
        return hub_envelope(room.name, "caps.update", said, now, {"replyTo": envelope["id"]})

    return room.append(make)


def _redact(room: Room, session: RoomSession, envelope: Json) -> Logged:
    return room.redact(envelope)


def _set_member(room: Room, session: RoomSession, envelope: Json) -> Logged:
    payload = dict(envelope["payload"])
    principal = payload.pop("principal", None)
    if isinstance(principal, str) and "sig" not in envelope:
        payload["member"] = room.pseudonym(principal)
    logged = _append(room, session, {**envelope, "payload": payload})
    if payload.get("membership") in ("left", "banned"):
        room.part_member(str(payload["member"]), f"the membership is {payload['membership']}")
    return logged


def _part(room: Room, session: RoomSession, envelope: Json) -> None:
    session.leave(str(envelope["payload"].get("reason") or "left")[:200])


def _pause(room: Room, session: RoomSession, envelope: Json) -> None:
    session.flow.pause(str(envelope["payload"].get("streamId")))


def _resume(room: Room, session: RoomSession, envelope: Json) -> None:
    for delivery in session.flow.resume(str(envelope["payload"].get("streamId"))):
        session.push(delivery.envelope)


def _nack(room: Room, session: RoomSession, envelope: Json) -> None:
    payload = envelope["payload"]
    for delivery in session.flow.missing(str(payload.get("streamId")), payload.get("missing")):
        session.push(delivery.envelope)


def _hello(room: Room, session: RoomSession, envelope: Json) -> None:
    raise RoomRefused("this session has said hello already")


HANDLES: Mapping[str, Handle] = {
    "hello": _hello,
    "tool.call": _call,
    "tool.partial": _partial,
    "tool.result": _result,
    "tool.cancel": _cancel,
    "mcp.mount": _mount,
    "mcp.unmount": _unmount,
    "mcp.announce": _announce,
    "caps.update": _update_caps,
    "room.redact": _redact,
    "room.policy": _append,
    "room.flags": _append,
    "room.member": _set_member,
    "act.rationale": _append,
    "act.intent": _append,
    "presence.part": _part,
    "flow.pause": _pause,
    "flow.resume": _resume,
    "flow.nack": _nack,
}
