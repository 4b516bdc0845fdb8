"""One entry of a room's log: a link of a chain of CIDs, signed by the hub.

An entry is canonical JSON of `seq` (from 1), `prev` (CID of the entry before, null for the first), `at` (Unix time in
milliseconds, by the hub's clock), `envelope` (contents replaced by their CID) and `sig` (Ed25519 over the rest).
A line of an exported log is `{"content": ..., "entry": ...}`, canonical too; `content` is absent when it was deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from patchbay.cid import cid_of
from patchbay.rooms.record.canonical import Signer, canonical_bytes, is_signed
from patchbay.rooms.record.envelope import Json
from patchbay.rooms.record.errors import BadFrame, WrongLog

_SIG = b',"sig":"'
"""The beginning of the last field of an entry in canonical JSON; it is the last in the order of names."""

FIELDS = frozenset({"seq", "prev", "at", "envelope", "sig"})


@dataclass(frozen=True)
class Entry:
    """One entry of the log; `data` are its canonical bytes, of which the CID is made."""

    seq: int
    prev: str | None
    at: int
    envelope: Json
    sig: str

    @property
    def fields(self) -> Json:
        """The entry as a JSON object."""
        signed = {"seq": self.seq, "prev": self.prev, "at": self.at, "envelope": self.envelope}
        return {**signed, "sig": self.sig}

    @cached_property
    def data(self) -> bytes:
        return canonical_bytes(self.fields)

    @cached_property
    def cid(self) -> str:
        return cid_of(self.data)

    def is_signed_by(self, key: str) -> bool:
        """Whether the hub with this public key (base64) signed the entry."""
        return is_signed(self.data[: self.data.rindex(_SIG)] + b"}", self.sig, key)

    def line(self, content: Json | None) -> bytes:
        """Return the entry as one line of an exported log, without the line break."""
        before = b"" if content is None else b'"content":%b,' % canonical_bytes(content)
        return b'{%b"entry":%b}' % (before, self.data)


def make_entry(signer: Signer, seq: int, prev: str | None, at: int, envelope: Json) -> Entry:
    """Return a new entry, signed by the hub."""
    signed = canonical_bytes({"seq": seq, "prev": prev, "at": at, "envelope": envelope})
    made = Entry(seq, prev, at, envelope, signer.sign(signed))
    made.__dict__["data"] = b'%b%b%b"}' % (signed[:-1], _SIG, made.sig.encode())
    return made


def entry_of(found: Any, seq: int) -> Entry:
    """Return the entry of a JSON value. Raises WrongLog, with the expected `seq`."""
    if not isinstance(found, dict) or set(found) != FIELDS:
        raise WrongLog(seq, f"it is not an object of {', '.join(sorted(FIELDS))}")
    whole = (found["seq"], found["at"])
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in whole):
        raise WrongLog(seq, "its seq or at is not a whole number")
    if not isinstance(found["sig"], str) or not isinstance(found["prev"], str | None):
        raise WrongLog(seq, "its sig or prev is not a string")
    envelope = found["envelope"]
    if not isinstance(envelope, dict) or not isinstance(envelope.get("payload"), dict):
        raise WrongLog(seq, "its envelope is not an object with a payload")
    texts = ("id", "type", "from")
    if not all(isinstance(envelope.get(name), str) for name in texts):
        raise WrongLog(seq, f"its envelope has no {', '.join(texts)}")
    return Entry(found["seq"], found["prev"], found["at"], envelope, found["sig"])


def read_stored(data: bytes, seq: int) -> Entry:
    """Decode an entry from the bytes of a journal. Raises WrongLog for bytes that are not an entry."""
    try:
        return entry_of(orjson.loads(data), seq)
    except orjson.JSONDecodeError as problem:
        raise WrongLog(seq, f"it is not JSON: {problem}") from problem


def read_line(line: bytes, seq: int) -> tuple[Entry, Json | None]:
    """Return the entry and the contents of one line of an exported log. Raises WrongLog for any other bytes."""
    try:
        found = orjson.loads(line)
        if not isinstance(found, dict) or not set(found) <= {"entry", "content"} or "entry" not in found:
            raise WrongLog(seq, "the line is not an object of entry and content")
        entry, content = entry_of(found["entry"], seq), found.get("content")
        if entry.line(content) != line:
            raise WrongLog(seq, "the line is not canonical JSON (RFC 8785)")
    except (orjson.JSONDecodeError, RecursionError, BadFrame) as problem:
        raise WrongLog(seq, f"the line is not JSON: {problem}") from problem
    if content is not None and not isinstance(content, dict):
        raise WrongLog(seq, "its content is not an object")
    return entry, content
