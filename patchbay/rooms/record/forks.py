"""Forks of rooms: what a fork takes over from its predecessor, and the verification of a fork with its past.

The first entry of a fork names the room, the seq and the head that it goes on from. With the exported log of that room
its policy, flags and members can be checked too: nothing else was taken over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from patchbay.rooms.folding.acl import RULES, rules_of, with_exact_names
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.folding.state import OWNER
from patchbay.rooms.record.entry import read_line
from patchbay.rooms.record.envelope import Json
from patchbay.rooms.record.errors import WrongLog
from patchbay.rooms.record.verification import LogCheck, LogVerification, verify

TAKEN_OVER = ("salt", "policy", "flags", "members")


def make_fork_payload(then: Fold, room: str, seq: int, owner: str) -> Json:
    """Return the payload of the first entry of a fork that `owner` (a pseudonym) makes of a room as it was then."""
    members = {
        member: {**record, "membership": "joined" if member == owner else record["membership"]}
        for member, record in then.now["members"].items()
        if not member.startswith("ghost-")
    }
    members[owner] = {**members.get(owner, {"powers": []}), "membership": "joined", "role": OWNER}
    policy = then.now["policy"]
    if rules_of(then.now) < RULES:
        policy = {**policy, "acl": with_exact_names(policy["acl"])[0]}
    payload: Json = {"creator": owner, "salt": then.now["salt"], "policy": policy}
    payload |= {"flags": then.now["flags"], "members": members}
    return payload | {"predecessor": {"room": room, "seq": seq, "head": then.head}}


def verify_with_past(
    lines: Iterable[bytes], pasts: Sequence[Iterable[bytes]], head: str | None = None, key: str | None = None
) -> LogVerification:
    """Check an exported log, and of a fork its past too: `pasts` are the exported logs of its predecessors.

    Each has to reach the entry that was forked. `LogVerification.past` lists the rooms that were found and are right,
    the nearest first. A predecessor without a log in `pasts` is not checked; one whose log does not fit makes the
    verdict wrong.
    """
    fork = _without_ends(lines)
    verdict = verify(fork, head, key)
    if not verdict.ok or verdict.predecessor is None:
        return verdict
    known = {room_of(past): past for past in map(_without_ends, pasts)}
    found: list[str] = []
    try:
        while (named := _predecessor(fork)) is not None and named["room"] in known:
            past = known[named["room"]]
            _check_fork(fork, past, named, verdict.key)
            found.append(named["room"])
            fork = past
    except WrongLog as problem:
        return replace(verdict, ok=False, seq=problem.seq, reason=problem.why, past=tuple(found))
    return replace(verdict, past=tuple(found))


def room_of(lines: Iterable[bytes]) -> str:
    """Return the id of the room of an exported log; empty when its first line is no entry."""
    try:
        return read_line(next(iter(lines), b""), 1)[0].cid
    except WrongLog:
        return ""


def _without_ends(lines: Iterable[bytes]) -> list[bytes]:
    """Return the lines of a file without line feeds, and without empty ones."""
    return [line.rstrip(b"\n") for line in lines if line.strip()]


def _predecessor(lines: Iterable[bytes]) -> Json | None:
    found: Any = read_line(next(iter(lines)), 1)[0].envelope["payload"].get("predecessor")
    return found if isinstance(found, dict) else None


def _check_fork(fork: Sequence[bytes], past: Sequence[bytes], named: Json, key: str) -> None:
    """Check the past up to the forked entry, and what the fork took over. Raises WrongLog."""
    payload = read_line(fork[0], 1)[0].envelope["payload"]
    check = LogCheck(key)
    try:
        for line in past:
            if check.seq >= named["seq"]:
                break
            check.check_line(line)
    except WrongLog as problem:
        raise WrongLog(problem.seq, f"in the log of its predecessor {named['room']}: {problem.why}") from problem
    if (check.seq, check.head) != (named["seq"], named["head"]):
        raise WrongLog(
            1, f"its predecessor {named['room']} has the head {check.head} at {check.seq}; expected {named['head']}"
        )
    if check.fold is None:
        return  # withheld entries: the state of that time is unknown
    expected = make_fork_payload(check.fold, named["room"], named["seq"], payload["creator"])
    for part in TAKEN_OVER:
        if payload.get(part) != expected[part]:
            raise WrongLog(1, f"its {part} are not those of its predecessor {named['room']} at entry {named['seq']}")
