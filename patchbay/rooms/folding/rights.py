"""The rights in a room: one function decides, from the folded state alone.

Rules: powers come from the role and from the member's own additional powers; some actions also need a capability of
the session, because its hello (or a `caps.update`) lists the requests that it accepts; the rules of the policy's `acl`,
if there are any, limit servers and their entries further (`patchbay.rooms.folding.acl`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from patchbay.rooms.folding.acl import Participant, admits
from patchbay.rooms.record.envelope import HUB
from patchbay.rooms.record.hello import CALL, CLIENT, HOST, SERVER

Action = Literal["mount", "announce", "call", "speak", "redact", "policy", "flags", "members", "fork", "read"]

NEEDED: Mapping[str, tuple[str, ...]] = {"mount": (CLIENT,), "call": (CALL,), "announce": (HOST,)}
"""The capabilities that a session needs for an action, beside the power."""


NOTHING = 2**53 - 1
"""The value for the seq of the first visible entry when no entry is visible."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is allowed, and a sentence that says why not."""

    allowed: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.allowed


ALLOWED = Decision(True)


def decide(state: Mapping[str, Any], who: str, action: Action, about: str = "", member: str = "") -> Decision:
    """Decide whether `who` may do something in the room with this state.

    `who` is the id of a session, or `hub` for an MCP client of the hub; then `member` is the client's name as a member.
    `about` is a server's id for `mount`, `announce` and `call`, and the name of an entry's sender for `redact`.
    """
    if who == HUB:
        return _decide_for_client(state, member, action, about)
    session = state["sessions"].get(who)
    if session is None:
        return Decision(False, f"the session {who} is not in the room; expected a hello first")
    if action == "redact" and about and about == session["member"]:
        return ALLOWED
    if action == "read":
        return ALLOWED
    if action not in powers_of(state, session["member"], session["role"]):
        return Decision(False, f"the role {session['role']} has no power to {action} in this room")
    needed = [*NEEDED.get(action, ()), *([SERVER + about] if action == "announce" else [])]
    missing = [cap for cap in needed if cap not in session["caps"]]
    if missing:
        return Decision(False, f"the session lacks the capability {missing[0]}; add it to caps in its hello")
    if action in ("mount", "announce", "call") and about:
        return _admitted(state, about, Participant(session["role"], session["member"]))
    return ALLOWED


def participant_of(state: Mapping[str, Any], who: str, member: str = "") -> Participant | None:
    """Return who a session is, or for `hub` the MCP client with the name `member`; None for an unknown session."""
    if who == HUB:
        record = state["members"].get(member, {})
        return Participant(record.get("role") or "human", member)
    session = state["sessions"].get(who)
    return None if session is None else Participant(session["role"], session["member"])


def powers_of(state: Mapping[str, Any], member: str, role: str) -> frozenset[str]:
    """Return what a member may do in a role: the role's powers and its own."""
    own = state["members"].get(member, {}).get("powers", [])
    return frozenset([*state["policy"].get("roles", {}).get(role, []), *own])


def _decide_for_client(state: Mapping[str, Any], member: str, action: Action, about: str) -> Decision:
    record = state["members"].get(member, {})
    if action != "call":
        return Decision(False, f"an MCP client may not {action} in a room; join it first")
    if not state["policy"].get("gateway", False):
        return Decision(False, "the room's policy closes it to MCP clients that have not joined (gateway)")
    if record.get("membership") == "banned":
        return Decision(False, "the room has banned this caller")
    if state["policy"].get("join") == "invite" and record.get("membership") not in ("joined", "invited"):
        return Decision(False, "the room is for invited members, and this caller is not invited")
    return _admitted(state, about, Participant(record.get("role") or "human", member)) if about else ALLOWED


def _admitted(state: Mapping[str, Any], server: str, who: Participant) -> Decision:
    if admits(state, server, who):
        return ALLOWED
    return Decision(False, f"the room's ACL has no rule that admits the role {who.role} to the server {server}")


def may_join(state: Mapping[str, Any], member: str, profile: str) -> Decision:
    """Decide whether a member may join under a privacy profile."""
    record = state["members"].get(member, {})
    if profile not in state["policy"]["profiles"]:
        return Decision(
            False, f"the room accepts no {profile} profile; expected {', '.join(state['policy']['profiles'])}"
        )
    if record.get("membership") == "banned":
        return Decision(False, "the room has banned this member")
    if state["policy"]["join"] == "invite" and record.get("membership") not in ("joined", "invited"):
        return Decision(False, "the room is for invited members, and this member is not invited")
    return ALLOWED


def is_banned(state: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether a principal of these names is banned: a ban of one name counts for all of them."""
    return any(state["members"].get(name, {}).get("membership") == "banned" for name in names)


def visible_from(state: Mapping[str, Any], member: str) -> int:
    """Return the seq of the first entry that a member may see; NOTHING for one that may see none."""
    record, policy = state["members"].get(member, {}), state["policy"]
    membership = record.get("membership")
    if membership in ("banned", "left") or (membership is None and policy.get("join") != "public"):
        return NOTHING
    if policy.get("history") == "all":
        return 1
    joined = record.get("joined") or NOTHING
    return int(min(joined, record.get("invited") or joined) if policy.get("history") == "invited" else joined)


def allowed_capabilities(state: Mapping[str, Any], member: str, role: str, caps: Iterable[str]) -> list[str]:
    """Return those of some capabilities that a role can use; a capability that needs no power always stays."""
    powers = powers_of(state, member, role)
    needs = {CLIENT: "mount", CALL: "call", HOST: "announce"}

    def power_for(cap: str) -> str | None:
        return "announce" if cap.startswith(SERVER) else needs.get(cap)

    return [cap for cap in caps if power_for(cap) is None or power_for(cap) in powers]
