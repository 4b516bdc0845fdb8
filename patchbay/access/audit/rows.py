"""The rows of the audit chain: canonical JSON objects, each linked to the row before it by a CID.

A row is one line: JSON as RFC 8785 writes it, and a line feed. Every row has `seq` (1, 2, 3, ...), `prev` (the CID of
the line before it, without the line feed; null in the first row), `at` (Unix time in milliseconds) and `kind`:

    call     one finished call; `patchbay/activity/audited_calls.py` makes these rows
    dropped  calls without a row: their number in `count`, and why
    pruned   rows that were deleted: all below the row `first`, which is a signed head
    head     a signed head: `key` is the hub's Ed25519 public key (base64), `sig` the signature of the row without `sig`

The first row of a chain is a head, and so is the first row of each export.
Sources: RFC 8785 (canonical JSON); RFC 8032 (Ed25519); https://github.com/multiformats/cid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.cid import cid_of
from patchbay.rooms.record.canonical import Signer, canonical_bytes, is_signed

Row = dict[str, Any]

FORMAT = "patchbay-audit-1"
"""The value of `format` in a head: the version of the form of rows."""

CALL, DROPPED, PRUNED, HEAD = "call", "dropped", "pruned", "head"
KINDS = (CALL, DROPPED, PRUNED, HEAD)

HEAD_MARK = b'"kind":"head"'
"""Bytes that only the line of a head has: within a text of another row, the quotes are escaped."""


@dataclass(frozen=True, slots=True)
class Tip:
    """The end of a chain: `seq` and `cid` of its last row (0 and None for an empty chain).

    `entry` is the seq of the journal entry with that row, `unsigned` the number of rows since the last head, and
    `head_at` the Unix time of that head in milliseconds.
    """

    entry: int = 0
    seq: int = 0
    cid: str | None = None
    unsigned: int = 0
    head_at: int = 0


def link_rows(tip: Tip, rows: Iterable[Row]) -> tuple[list[bytes], Tip]:
    """Return rows as the lines that follow `tip`, and the new tip. Sets `seq` and `prev` of each row."""
    lines: list[bytes] = []
    seq, cid, unsigned = tip.seq, tip.cid, tip.unsigned
    for row in rows:
        seq, unsigned = seq + 1, unsigned + 1
        row["seq"], row["prev"] = seq, cid
        line = row_bytes(row)
        cid = cid_of(line)
        lines.append(line)
    return lines, Tip(tip.entry, seq, cid, unsigned, tip.head_at)


def make_head(signer: Signer, tip: Tip, at: int) -> tuple[bytes, Tip]:
    """Return the line of a signed head that follows `tip`, and the new tip. `at` is Unix time in milliseconds."""
    row: Row = {"at": at, "format": FORMAT, "key": signer.public, "kind": HEAD, "prev": tip.cid, "seq": tip.seq + 1}
    row["sig"] = signer.sign(canonical_bytes(row))
    line = row_bytes(row)
    return line, Tip(tip.entry, tip.seq + 1, cid_of(line), 0, at)


def is_head_signed(row: Mapping[str, Any]) -> bool:
    """Whether the signature of a head is that of its own `key`."""
    body = {name: value for name, value in row.items() if name != "sig"}
    key = row.get("key")
    return isinstance(key, str) and is_signed(canonical_bytes(body), row.get("sig"), key)


def row_bytes(row: Row) -> bytes:
    """Return a row in canonical JSON.

    The names of fields are ASCII and the numbers are exact integers, so that sorted JSON is RFC 8785.
    """
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS)


def advance(tip: Tip, lines: Iterable[bytes]) -> Tip:
    """Return the tip after lines that another writer appended. Checks no link."""
    seq, cid, unsigned, head_at = tip.seq, tip.cid, tip.unsigned, tip.head_at
    last = b""
    for line in lines:
        unsigned += 1
        if HEAD_MARK in line:
            unsigned, head_at = 0, orjson.loads(line)["at"]
        last = line
    if last:
        seq, cid = orjson.loads(last)["seq"], cid_of(last)
    return Tip(tip.entry, seq, cid, unsigned, head_at)
