"""Verification of an exported log: every byte, every signature, the order, and the rules of rooms.

The check needs only the lines: the first entry has the hub's public key. Give the hub's key to check that this hub
wrote the log, and give the head to check that no entry is missing at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.record.canonical import canonical_bytes, cid_of_value, is_signed, signed_bytes
from patchbay.rooms.record.contents import content_cid, join
from patchbay.rooms.record.entry import Entry, read_line
from patchbay.rooms.record.envelope import WITHHELD, Json
from patchbay.rooms.record.errors import BadFrame, WrongLog


@dataclass(frozen=True, slots=True)
class LogVerification:
    """The result. `seq` is the first wrong entry and `reason` says why; both are empty for a valid log.

    `entries` were checked; `withheld` are those that the hub did not show. `state_cid` is "" where some were withheld:
    a state needs the whole log. `room` and `head` are CIDs, `key` is the hub's public key (base64). `predecessor` is
    what a fork goes on from (`room`, `seq`, `head`), and `past` are the rooms before it that were verified with it
    (`forks.py`).
    """

    ok: bool
    entries: int
    room: str = ""
    head: str = ""
    state_cid: str = ""
    key: str = ""
    seq: int | None = None
    reason: str = ""
    withheld: int = 0
    predecessor: Json | None = None
    past: tuple[str, ...] = ()


def verify(lines: Iterable[bytes], head: str | None = None, key: str | None = None) -> LogVerification:
    """Check an exported log (`Room.lines`), line by line; raises nothing for a log that is wrong."""
    check = LogCheck(key)
    try:
        for line in lines:
            if line.strip():
                check.check_line(line.rstrip(b"\n"))
        if check.seq == 0:
            raise WrongLog(1, "the log is empty")
        if head is not None and check.head != head:
            raise WrongLog(check.seq + 1, f"it is missing: the log ends with the head {check.head}; expected {head}")
    except WrongLog as problem:
        return check.verdict(problem)
    return check.verdict()


class LogCheck:
    """A log checked so far: its last entry (`seq`, `head`), and its state, None where entries were withheld."""

    def __init__(self, key: str | None) -> None:
        self.seq = 0
        self.head = ""
        self.fold: Fold | None = Fold()
        self._predecessor: Json | None = None
        self._room = ""
        self._key = key or ""
        self._wanted = key
        self._entries = 0
        self._withheld = 0

    def check_line(self, line: bytes) -> None:
        expected = self.seq + 1
        mark = _mark(line) if self.seq else None
        if mark is not None:
            self._skip(mark, expected)
            return
        entry, content = read_line(line, expected)
        if entry.seq != expected:
            raise WrongLog(expected, f"it is missing or not in its place: the entry here has the seq {entry.seq}")
        if (entry.prev or "") != self.head:
            raise WrongLog(expected, f"its prev is {entry.prev}; the entry before has the CID {self.head or 'null'}")
        if self.seq == 0:
            self._begin(entry)
        if not entry.is_signed_by(self._key):
            raise WrongLog(expected, "its signature is not of the hub that wrote the first entry")
        _check_content(entry, content)
        self._check_participant(entry, content)
        if self.fold is not None:
            self.fold.apply(entry)
        self.seq, self.head = entry.seq, entry.cid
        self._entries += 1

    def _begin(self, entry: Entry) -> None:
        found = entry.envelope["payload"].get("key")
        if not isinstance(found, str):
            raise WrongLog(1, "it has no key of the hub")
        if self._wanted is not None and found != self._wanted:
            raise WrongLog(1, f"it has the key {found}; expected the hub's key {self._wanted}")
        self._key, self._room = found, entry.cid
        predecessor = entry.envelope["payload"].get("predecessor")
        self._predecessor = predecessor if isinstance(predecessor, dict) else None

    def _skip(self, mark: Json, expected: int) -> None:
        last, head = mark.get("to"), mark.get("head")
        if mark.get("from") != expected or not isinstance(last, int) or last < expected or not isinstance(head, str):
            raise WrongLog(expected, "the mark of withheld entries does not say from which, to which, and the head")
        self._withheld += last - expected + 1
        self.seq, self.head, self.fold = last, head, None

    def _check_participant(self, entry: Entry, content: Json | None) -> None:
        envelope = entry.envelope
        if self.fold is None or "sig" not in envelope:
            return
        key = self.fold.now["sessions"].get(envelope["from"], {}).get("key")
        whole = join(envelope, content)
        has_all = content is not None or (whole is envelope and content_cid(envelope) is None)
        if not has_all or WITHHELD in whole["payload"]:
            return  # deleted contents cannot be checked any more; the hub checked them on arrival
        if key is None or not is_signed(signed_bytes(whole), envelope["sig"], key):
            raise WrongLog(entry.seq, "the participant's signature is not of this envelope")

    def verdict(self, problem: WrongLog | None = None) -> LogVerification:
        whole = self.fold is not None and problem is None
        state_cid = self.fold.state_cid if whole and self.fold is not None else ""
        found: dict[str, Any] = {"entries": self._entries, "room": self._room, "head": self.head, "key": self._key}
        found |= {"state_cid": state_cid, "withheld": self._withheld, "predecessor": self._predecessor}
        if problem is not None:
            found |= {"seq": problem.seq, "reason": problem.why}
        return LogVerification(problem is None, **found)


def _check_content(entry: Entry, content: Json | None) -> None:
    cid = content_cid(entry.envelope)
    if content is None:
        return
    try:
        found = cid_of_value(content)
    except BadFrame as problem:
        raise WrongLog(entry.seq, problem.message) from problem
    if cid is None:
        raise WrongLog(entry.seq, "the line has contents, and the entry has no CID of contents")
    if found != cid:
        raise WrongLog(entry.seq, f"its contents have the CID {found}; the entry says {cid}")


def _mark(line: bytes) -> Json | None:
    """The mark of withheld entries that a line is, or None."""
    if not line.startswith(b'{"withheld":'):
        return None
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    mark = found.get("withheld") if isinstance(found, dict) and len(found) == 1 else None
    return mark if isinstance(mark, dict) and canonical_bytes(found) == line else None
