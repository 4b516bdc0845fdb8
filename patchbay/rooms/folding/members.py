"""The fold of a room's members and terms: creation, presence, capabilities, policy, flags, members."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchbay.rooms.folding.acl import RULES, with_exact_names
from patchbay.rooms.folding.checks import Impossible, check_right, from_hub, object_of, session_of, text_of
from patchbay.rooms.folding.policy import check_policy, check_role
from patchbay.rooms.folding.rights import may_join
from patchbay.rooms.folding.state import POWERS, copied
from patchbay.rooms.record.entry import Entry
from patchbay.rooms.record.envelope import HUB, Json
from patchbay.rooms.record.hello import PROFILES

MEMBERSHIPS = ("invited", "joined", "left", "banned")
PASSING = ("ephemeral", "ghost")
"""Profiles whose member is forgotten when its last session leaves."""


def _create(state: Json, entry: Entry) -> None:
    payload = from_hub(entry.envelope)
    policy = object_of(payload, "policy")
    check_policy(policy)
    state["name"], state["creator"] = text_of(payload, "name"), text_of(payload, "creator")
    state["key"], state["salt"] = text_of(payload, "key"), text_of(payload, "salt")
    state["predecessor"] = copied(payload.get("predecessor"))
    state["policy"], state["flags"] = copied(policy), copied(object_of(payload, "flags"))
    state["members"] = copied(object_of(payload, "members"))
    if "rules" in payload:
        state["rules"] = _known_rules(payload)


def _renew_rules(state: Json, entry: Entry) -> None:
    """From here on, later rules hold. What the policy says keeps its meaning: no name becomes a pattern."""
    if entry.envelope["from"] != HUB:
        return  # a word of a member, in a log from the time before this type
    state["rules"] = _known_rules(entry.envelope["payload"])
    state["policy"] = {**state["policy"], "acl": with_exact_names(state["policy"]["acl"])[0]}


def _known_rules(payload: Json) -> int:
    found = payload.get("rules")
    if type(found) is not int or not 1 < found <= RULES:
        raise Impossible(f"the room has the rules {found!r:.40}; this version of Patchbay knows those up to {RULES}")
    return found


def _join(state: Json, entry: Entry) -> None:
    payload = from_hub(entry.envelope)
    session, member = text_of(payload, "session"), text_of(payload, "member")
    profile, role = text_of(payload, "profile"), text_of(payload, "role")
    if session in state["sessions"] or session == HUB:
        raise Impossible(f"the session {session} is in the room already")
    if profile not in PROFILES:
        raise Impossible(f"the profile is {profile!r:.40}; expected one of {', '.join(PROFILES)}")
    if profile in PASSING and "agent" in payload:
        raise Impossible(f"the profile {profile} forbids that the agent is logged")
    if profile != "persistent" and not member.startswith("ghost-" if profile == "ghost" else "member-"):
        raise Impossible(f"the profile {profile} forbids that the member's own name is logged")
    if role not in state["policy"]["roles"]:
        raise Impossible(f"the room has no role {role!r:.40}")
    decision = may_join(state, member, profile)
    if not decision:
        raise Impossible(decision.reason)
    known = state["members"].get(member, {"role": None, "powers": []})
    state["members"][member] = {"joined": entry.seq, **known, "membership": "joined"}
    more = {name: copied(payload[name]) for name in ("agent", "key") if name in payload}
    caps = [cap for cap in payload.get("caps", []) if isinstance(cap, str)]
    rest = {"member": member, "role": role, "profile": profile, "caps": caps, "revision": 0, "joined": entry.seq}
    state["sessions"][session] = rest | more


def _part(state: Json, entry: Entry) -> None:
    payload = from_hub(entry.envelope)
    session = text_of(payload, "session")
    if session not in state["sessions"]:
        raise Impossible(f"the session {session} is not in the room")
    gone = state["sessions"].pop(session)
    for server in [name for name, record in state["servers"].items() if record["owner"] == session]:
        del state["servers"][server]
    for key in [name for name in state["rationales"] if name.startswith(f"{session}/")]:
        del state["rationales"][key]
    member = gone["member"]
    still_here = any(one["member"] == member for one in state["sessions"].values())
    if gone["profile"] in PASSING and not still_here and state["members"][member]["role"] is None:
        del state["members"][member]


def _update_caps(state: Json, entry: Entry) -> None:
    payload = from_hub(entry.envelope)
    session = state["sessions"].get(text_of(payload, "session"))
    if session is None:
        raise Impossible("caps.update is of a session that is not in the room")
    if payload.get("revision") != session["revision"] + 1:
        raise Impossible(f"the revision is {payload.get('revision')}; expected {session['revision'] + 1}")
    caps = [cap for cap in payload.get("caps", []) if isinstance(cap, str)]
    state["sessions"][payload["session"]] = {**session, "caps": caps, "revision": session["revision"] + 1}


def _set_policy(state: Json, entry: Entry) -> None:
    check_right(state, entry.envelope, "policy")
    policy = object_of(entry.envelope["payload"], "policy")
    check_policy(policy)
    state["policy"] = copied(policy)


def _set_flags(state: Json, entry: Entry) -> None:
    check_right(state, entry.envelope, "flags")
    flags = object_of(entry.envelope["payload"], "flags")
    for name, value in flags.items():
        if value is None:
            state["flags"].pop(name, None)
        else:
            state["flags"][name] = copied(value)


def _set_member(state: Json, entry: Entry) -> None:
    check_right(state, entry.envelope, "members")
    payload = entry.envelope["payload"]
    member = text_of(payload, "member")
    membership, role, powers = payload.get("membership"), payload.get("role"), payload.get("powers", [])
    if membership is not None and membership not in MEMBERSHIPS:
        raise Impossible(f"the membership is {membership!r:.40}; expected one of {', '.join(MEMBERSHIPS)}")
    if role is not None:
        check_role(state["policy"], role)
    if not isinstance(powers, list) or not all(one in POWERS for one in powers):
        raise Impossible(f"powers are not a list of {', '.join(POWERS)}")
    record = {"membership": "left", "role": None, "powers": [], **state["members"].get(member, {})}
    if membership is not None:
        record["membership"] = membership
        if membership == "invited":
            record.setdefault("invited", entry.seq)
    if "role" in payload:
        record["role"] = role
    if "powers" in payload:
        record["powers"] = sorted(powers)
    state["members"][member] = record
    if role is not None:
        theirs = {id: {**one, "role": role} for id, one in state["sessions"].items() if one["member"] == member}
        state["sessions"] |= theirs


def _note_rationale(state: Json, entry: Entry) -> None:
    session_of(state, entry.envelope)
    if state["flags"].get("eval") is not True:
        return
    call = entry.envelope["payload"].get("callId")
    if isinstance(call, str):
        state["rationales"][f"{entry.envelope['from']}/{call}"] = entry.seq


MEMBER_TYPES: Mapping[str, Callable[[Json, Entry], None]] = {
    "room.create": _create,
    "presence.join": _join,
    "presence.part": _part,
    "caps.update": _update_caps,
    "room.rules": _renew_rules,
    "room.policy": _set_policy,
    "room.flags": _set_flags,
    "room.member": _set_member,
    "act.rationale": _note_rationale,
}
