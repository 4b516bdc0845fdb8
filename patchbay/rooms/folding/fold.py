"""The fold: a pure function from a log to the room's state. Every process gets the same state from the same log.

Each type of envelope has one function here, which checks everything and then changes the state, replacing records
whole; an entry that may not follow raises WrongLog and changes nothing. Types that are not in the table change no
state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.rooms.folding.calls import CALL_TYPES
from patchbay.rooms.folding.checks import Impossible, check_right
from patchbay.rooms.folding.members import MEMBER_TYPES
from patchbay.rooms.folding.rights import decide
from patchbay.rooms.folding.servers import SERVER_TYPES
from patchbay.rooms.folding.state import copied, empty_state
from patchbay.rooms.record.canonical import cid_of_value
from patchbay.rooms.record.contents import content_cid
from patchbay.rooms.record.entry import Entry
from patchbay.rooms.record.envelope import HUB, Json
from patchbay.rooms.record.errors import WrongLog

Change = Callable[[Json, Entry], None]

CHANGES: Mapping[str, Change] = {**MEMBER_TYPES, **SERVER_TYPES, **CALL_TYPES}

UNLOGGED = frozenset({"tool.partial", "state.patch", "presence.heartbeat", "hello"})
"""Types that are never logged, beside those that begin with `flow.` and all streams."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A position of a fold to return to."""

    seq: int
    head: str
    now: Json


class Fold:
    """A log folded so far. `seq` and `head` are of the newest entry (0 and "" before the first)."""

    def __init__(self) -> None:
        self.seq = 0
        self.head = ""
        self.room = ""
        self.now = empty_state()
        """The state, for reading only: each entry makes a new object, and an old one never changes."""
        self.ids: dict[str, int] = {}
        """The seq of each envelope by its id, in lower case."""
        self.senders: list[str] = []
        """The member that sent each entry, in the order of the log; `hub` for the hub's own."""

    @property
    def key(self) -> str:
        """The public key of the hub that signs this log."""
        return str(self.now["key"])

    @property
    def state_cid(self) -> str:
        """The CID of the state in canonical JSON."""
        return cid_of_value(self.now)

    def state(self) -> Json:
        """Return a copy of the state."""
        found: Json = copied(self.now)
        return found

    def copy(self) -> Fold:
        """Return a fold that later entries of this one do not change."""
        made = Fold()
        made.seq, made.head, made.room, made.now = self.seq, self.head, self.room, self.now
        made.ids, made.senders = dict(self.ids), list(self.senders)
        return made

    def check(self, entry: Entry) -> None:
        """Raise WrongLog for an entry that cannot follow. Changes nothing."""
        self._check_place(entry)
        self._state_after(entry)

    def apply(self, entry: Entry) -> None:
        """Fold the next entry. Raises WrongLog, and changes nothing, if it cannot follow.

        Does not check the signature: the log is the hub's own, and `verify` checks logs of other hubs.
        """
        self._check_place(entry)
        session = self.now["sessions"].get(entry.envelope["from"])
        self.now = self._state_after(entry)
        self.senders.append(HUB if session is None else session["member"])
        self.seq, self.head = entry.seq, entry.cid
        self.room = self.room or entry.cid
        self.ids[entry.envelope["id"].lower()] = entry.seq

    def mark(self) -> Mark:
        """Return the present position, for `roll_back`."""
        return Mark(self.seq, self.head, self.now)

    def roll_back(self, mark: Mark) -> None:
        """Forget the entries that were folded after a mark."""
        del self.senders[mark.seq :]
        while len(self.ids) > mark.seq:
            self.ids.popitem()
        self.seq, self.head, self.now = mark.seq, mark.head, mark.now

    def find_refusal(self, envelope: Json, at: int, known: Json) -> str:
        """Return why an envelope cannot follow in the state `known`, which is the present one without some records.

        Empty when it can.
        """
        state = {name: dict(value) if isinstance(value, dict) else value for name, value in known.items()}
        try:
            self._change(state, Entry(self.seq + 1, self.head or None, at, envelope, ""))
        except Impossible as problem:
            return problem.sentence
        return ""

    def _check_place(self, entry: Entry) -> None:
        if entry.seq != self.seq + 1:
            raise WrongLog(self.seq + 1, f"it is missing: the next entry has the seq {entry.seq}")
        if (entry.prev or "") != self.head:
            raise WrongLog(entry.seq, f"its prev is {entry.prev}; the entry before has the CID {self.head or 'null'}")
        id = entry.envelope["id"].lower()
        if id in self.ids:
            raise WrongLog(entry.seq, f"the envelope {id} is in the log already, as entry {self.ids[id]}")

    def _state_after(self, entry: Entry) -> Json:
        state = self.now
        if entry.envelope["type"] in CHANGES or entry.envelope["type"] == "room.redact":
            # A change replaces records and never changes them, so that a copy of the maps is a copy of the state.
            state = {name: dict(value) if isinstance(value, dict) else value for name, value in state.items()}
        try:
            self._change(state, entry)
        except Impossible as problem:
            raise WrongLog(entry.seq, problem.sentence) from problem
        return state

    def _change(self, state: Json, entry: Entry) -> None:
        envelope = entry.envelope
        kind, sender = envelope["type"], envelope["from"]
        if (kind == "room.create") != (entry.seq == 1):
            raise Impossible("the first entry, and no other, has the type room.create")
        if envelope.get("kind") != "event" or kind in UNLOGGED or kind.startswith("flow."):
            raise Impossible(f"{kind} is never logged")
        _check_privacy(state, envelope)
        change = CHANGES.get(kind)
        if kind == "room.redact":
            self._redact(state, entry)
        elif change is not None:
            change(state, entry)
        elif sender != HUB:
            _check_speech(state, sender)

    def _redact(self, state: Json, entry: Entry) -> None:
        seq = entry.envelope["payload"].get("seq")
        if not isinstance(seq, int) or isinstance(seq, bool) or not 0 < seq < entry.seq:
            raise Impossible(f"the seq is {seq!r:.40}; expected the seq of an earlier entry")
        if str(seq) in state["redacted"]:
            raise Impossible(f"the entry {seq} is redacted already")
        check_right(state, entry.envelope, "redact", self.senders[seq - 1])
        state["redacted"][str(seq)] = entry.seq


def fold(entries: Iterable[Entry]) -> Fold:
    """Return a whole log folded. Raises WrongLog."""
    folded = Fold()
    for entry in entries:
        folded.apply(entry)
    return folded


def _check_privacy(state: Mapping[str, Any], envelope: Json) -> None:
    session = state["sessions"].get(envelope["from"])
    if session is not None and session["profile"] == "ghost" and content_cid(envelope) is not None:
        raise Impossible("the sender is a ghost, of whom no contents and no CID of contents may be logged")


def _check_speech(state: Mapping[str, Any], sender: str) -> None:
    decision = decide(state, sender, "speak")
    if not decision:
        raise Impossible(decision.reason)
