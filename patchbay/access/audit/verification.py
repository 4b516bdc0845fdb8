"""Verifies an exported audit chain: the order, each link, and each signed head. Needs no hub, only the lines.

A changed byte breaks the link to the row that follows it, or its own one to the row before. The rows around the broken
link show which of the two is changed: the one that the next row, or its own signature, does not confirm. The public key
comes from the first head. A reader who wants to be sure of the hub gives the hub's key, and a reader who wants to be
sure that no rows are cut off at the end gives the CID of the last row.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain as joined
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from patchbay.access.audit.rows import FORMAT, HEAD, KINDS, Row, is_head_signed, line_cid, row_bytes
from patchbay.errors import InvalidParams
from patchbay.rooms.record.canonical import decode_key

MAX_ROW_BYTES = 1024 * 1024
"""Limit on the bytes of one line; a longer line is not a row."""

_HEAD_SEQ = re.compile(rb'"seq":([0-9]{1,15}),"sig":')


@dataclass(frozen=True, slots=True)
class ChainVerification:
    """The outcome of a verification.

    `first` and `last` are the `seq` of the first and the last verified row, `begins_at` the Unix time of the first one
    in milliseconds; `rows` and `heads` are numbers, and so is `unsigned`: the
    rows since the last signed head. `tip` is the CID of the last row, `key` the public key (base64).
    `wrong` is the `seq` of the first row that is changed, missing or not in its place, and `reason` says why; None and
    empty for a chain without a fault.
    """

    rows: int
    heads: int
    unsigned: int
    first: int
    last: int
    begins_at: int
    tip: str
    key: str
    wrong: int | None = None
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether no fault was found."""
        return self.wrong is None

    def sentence(self) -> str:
        """Return the outcome for people."""
        if not self.ok:
            return f"row {self.wrong} {self.reason}"
        begin = datetime.fromtimestamp(self.begins_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        before = f"; the {self.first - 1} rows before it are not in the file" if self.first > 1 else ""
        return (
            f"{self.rows} rows are intact and in order: {self.first} to {self.last}, {self.heads} of them signed heads."
            f" The chain begins at row {self.first}, a signed head of {begin}{before}."
        )


class _Wrong(Exception):
    """Verification stops: the row `seq` is wrong."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(seq, reason)
        self.seq, self.reason = seq, reason


@dataclass(slots=True)
class _Line:
    """One line that has been read: its bytes, its row, and its CID."""

    data: bytes
    row: Row
    cid: str
    is_broken: bool = False


def verify(
    lines: Iterable[bytes], key: str | None = None, tip: str | None = None, is_running: bool = False
) -> ChainVerification:
    """Verify the lines of an exported file, each with its line feed; raises nothing for a wrong file.

    `key` is the expected public key (base64), `tip` the expected CID of the last row. The chain of a hub that
    `is_running` may end with rows that no head has signed yet.
    """
    check = _Check(key, is_running)
    try:
        check.read(iter(lines))
        if tip is not None and check.tip != tip:
            raise _Wrong(check.last + 1, f"is missing: the last row has the CID {check.tip}; expected {tip}")
    except _Wrong as problem:
        return check.verdict(problem)
    return check.verdict()


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of a file, each with its line feed; only a line feed ends a line."""
    return re.findall(rb"[^\n]*\n|[^\n]+\Z", data)


def load_public_key(text: str) -> str:
    """Return a public key as base64, from base64 or from the path of a PEM file. Raises InvalidParams."""
    if decode_key(text) is not None:
        return text
    try:
        key = load_pem_public_key(Path(text).read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as problem:
        raise InvalidParams(f"{text!r:.80} is not an Ed25519 public key: expected base64 or a PEM file") from problem
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidParams(f"the key in {text!r:.80} is not an Ed25519 key")
    return b64encode(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


class _Check:
    """The state of one verification. Three neighbouring lines are in memory."""

    def __init__(self, key: str | None, is_running: bool) -> None:
        self._wanted = key
        self._is_running = is_running
        self.unsigned = 0
        self.key = key or ""
        self.rows = self.heads = self.first = self.last = self.begins_at = 0
        self.tip = ""

    def read(self, lines: Iterator[bytes]) -> None:
        """Verify all lines. Raises _Wrong."""
        before: _Line | None = None
        for line in map(_parsed, self._begin(lines)):
            if before is not None and (
                line.is_broken or line.row["prev"] != before.cid or line.row["seq"] != before.row["seq"] + 1
            ):
                self._blame(before, line, lines)
            self._accept(line)
            before = line
        if self.unsigned and not self._is_running:
            raise _Wrong(self.last + 1, "is missing: the file does not end with a signed head, so its end is cut off")

    def _begin(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Check that the first line is a signed head; return all lines."""
        pair = list(islice(lines, 2))
        if not pair:
            raise _Wrong(1, "is missing: the file is empty")
        line, second = _parsed(pair[0]), _parsed(pair[1]) if len(pair) > 1 else None
        row, seq = line.row, _first_seq(line, second)
        if line.is_broken:
            raise _Wrong(seq, "is changed: the first line of the file is not a row in canonical JSON")
        if row["kind"] != HEAD:
            raise _Wrong(max(1, row["seq"] - 1), "is missing: the file does not begin with a signed head")
        if not is_head_signed(row) or (row["seq"] == 1) != (row["prev"] is None):
            raise _Wrong(seq, "is changed: its signature does not fit")
        if self._wanted is not None and row["key"] != self._wanted:
            raise _Wrong(row["seq"], f"is signed by the key {row['key']}; expected {self._wanted}")
        self.key, self.first, self.begins_at = row["key"], row["seq"], row["at"]
        return joined(pair, lines)

    def _accept(self, line: _Line) -> None:
        row = line.row
        if row["kind"] == HEAD:
            self._check_head(row)
            self.heads += 1
        self.unsigned = 0 if row["kind"] == HEAD else self.unsigned + 1
        self.rows += 1
        self.last, self.tip = row["seq"], line.cid

    def _check_head(self, row: Row) -> None:
        if row.get("format") != FORMAT:
            raise _Wrong(row["seq"], f"is changed: its format is {row.get('format')!r:.40}; expected {FORMAT!r}")
        if row.get("key") != self.key:
            raise _Wrong(row["seq"], f"is changed, or of another hub: its key is {row.get('key')!r:.60}")
        if not is_head_signed(row):
            raise _Wrong(row["seq"], "is changed: its signature does not fit")

    def _blame(self, before: _Line, line: _Line, rest: Iterator[bytes]) -> None:
        """Raise _Wrong for the row that breaks the link between two lines."""
        due = before.row["seq"] + 1
        if line.is_broken:
            raise _Wrong(due, "is changed: its line is not a row in canonical JSON")
        follows, seq = line.row["prev"] == before.cid, line.row["seq"]
        if follows:
            raise _Wrong(due, f"is changed: its seq is {seq}, and its prev names row {due - 1}")
        after = next(map(_parsed, rest), None)
        is_confirmed = _is_confirmed(line, after)
        if seq == due:
            if is_confirmed and before.row["kind"] != HEAD:
                raise _Wrong(due - 1, f"is changed: its CID is {before.cid}, and row {due} names {line.row['prev']}")
            raise _Wrong(due, f"is changed: its prev is {line.row['prev']}; row {due - 1} has the CID {before.cid}")
        if not is_confirmed and after is not None and not after.is_broken and after.row["seq"] == due + 1:
            raise _Wrong(due, f"is changed: its seq is {seq}, and it stands before row {due + 1}")
        rows = [] if after is None or after.is_broken else [after.row["seq"]]
        is_later = due in rows or any(row is not None and row["seq"] == due for row in map(_stripped, rest))
        where = "is not in its place: it comes later in the file" if is_later else "is missing"
        raise _Wrong(due, f"{where}; after row {due - 1} stands row {seq}")

    def verdict(self, problem: _Wrong | None = None) -> ChainVerification:
        """Return what was found."""
        found = (self.rows, self.heads, self.unsigned, self.first, self.last, self.begins_at, self.tip, self.key)
        return ChainVerification(*found) if problem is None else ChainVerification(*found, problem.seq, problem.reason)


def _parsed(data: bytes) -> _Line:
    """Return a line. A line that is not a row is marked as broken."""
    body = data[:-1]
    row = _row_in(body) if data.endswith(b"\n") and len(data) <= MAX_ROW_BYTES else None
    return _Line(data, row or {}, line_cid(body), row is None)


def _first_seq(line: _Line, second: _Line | None) -> int:
    """Return the seq that the first line of a file has, or had before a change."""
    found = _HEAD_SEQ.search(line.data) if line.is_broken else None
    if found is not None:
        return int(found[1])
    if second is not None and not second.is_broken:
        return max(1, int(second.row["seq"]) - 1)
    return int(line.row.get("seq", 1))


def _is_confirmed(line: _Line, after: _Line | None) -> bool:
    """Whether the next row, or its own signature, confirms the bytes of a line."""
    if line.row["kind"] == HEAD:
        return is_head_signed(line.row)
    return after is not None and not after.is_broken and bool(after.row["prev"] == line.cid)


def _stripped(data: bytes) -> Row | None:
    return _row_in(data[:-1])


def _row_in(body: bytes) -> Row | None:
    """Return the row that a line is; None for bytes that are not a row in canonical JSON."""
    try:
        row: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(row, dict) or row_bytes(row) != body:
        return None
    is_row = _is_count(row.get("seq")) and _is_count(row.get("at")) and row.get("kind") in KINDS
    is_linked = "prev" in row and (row["prev"] is None or isinstance(row["prev"], str))
    return row if is_row and is_linked else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
