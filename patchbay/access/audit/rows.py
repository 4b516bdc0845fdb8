"""The rows of the audit chain: canonical JSON objects, each linked to the row before it by a CID.

A row is one line: JSON as RFC 8785 writes it, and a line feed. Every row has `seq` (1, 2, 3, ...), `prev` (the CID of
the line before it, without the line feed; null in the first row), `at` (Unix time in milliseconds) and `kind`:

    call     one finished call; `patchbay/activity/audited_calls.py` makes these rows
    approval the decision about one call that needed an approval; `approval_rows.py` makes these rows
    dropped  calls without a row: their number in `count`, and why; those of the refused calls of one `principal`
             (`refusals.py`) have the times of the `first` and the `last` of them too
    pruned   rows that were deleted: all below the row `first`, which is a signed head
    head     a signed head: `key` is the hub's Ed25519 public key (base64), `sig` the signature of the row without `sig`

The first row of a chain is a head, and so is the first row of each export. The CIDs in `prev`, `arguments` and `result`
are in base16, where the last 64 digits are what `openssl dgst -sha256` prints.
Sources: RFC 8785 (canonical JSON); RFC 8032 (Ed25519); https://github.com/multiformats/cid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from patchbay.access.audit.packed_rows import CID_PREFIX, Draft, Template, cid_text, pack_rows, unpack_rows
from patchbay.rooms.record.canonical import Signer, canonical_bytes, is_signed

Row = dict[str, Any]

FORMAT = "patchbay-audit-1"
"""The value of `format` in a head: the version of the form of rows."""

CALL, APPROVAL, DROPPED, PRUNED, HEAD = "call", "approval", "dropped", "pruned", "head"
KINDS = (CALL, APPROVAL, DROPPED, PRUNED, HEAD)

HEAD_MARK = b'"kind":"head"'
"""Bytes that only the line of a head has: within a text of another row, the quotes are escaped."""


_HOLES = ("arguments", "at", "prev", "record", "result", "seq", "us")
"""The fields of a call that change from call to call, in the order of canonical JSON."""


@dataclass(frozen=True, slots=True)
class Tip:
    """The end of a chain: `seq` and `digest` (SHA-256, hexadecimal) of its last row; 0 and empty for an empty chain.

    `entry` is the seq of the journal entry with that row, `unsigned` the number of rows since the last head, and
    `head_at` the Unix time of that head in milliseconds.
    """

    entry: int = 0
    seq: int = 0
    digest: str = ""
    unsigned: int = 0
    head_at: int = 0

    @property
    def cid(self) -> str | None:
        """The CID of the last row; None for an empty chain."""
        return CID_PREFIX + self.digest if self.digest else None


def line_cid(line: bytes) -> str:
    """Return the CID of a line without its line feed, in base16."""
    return CID_PREFIX + sha256(line).hexdigest()


def make_template(row: Mapping[str, Any]) -> Template:
    """Return the template of the rows of similar calls: canonical JSON with a hole for each field that differs."""
    rest, parts, after = row_bytes(dict(row) | dict.fromkeys(_HOLES, 0)).decode(), list[str](), ""
    for name in _HOLES:
        before, _, rest = rest.partition(f'"{name}":0')
        opening, closing = (f'"{CID_PREFIX}', '"') if name == "prev" else ("", "")
        parts.append(f'{after}{before}"{name}":{opening}')
        after = closing
    parts.append(after + rest)
    return Template("%s".join(part.replace("%", "%%") for part in parts), tuple(parts))


def link_rows(tip: Tip, rows: Iterable[Row]) -> tuple[bytes, Tip]:
    """Return rows that follow `tip` as the data of one entry of the journal, and the new tip."""
    seq, digest = tip.seq, tip.digest
    lines = list[bytes]()
    for row in rows:
        seq += 1
        lines.append(row_bytes({**row, "seq": seq, "prev": CID_PREFIX + digest}))
        digest = sha256(lines[-1]).hexdigest()
    return encode_lines(lines), Tip(tip.entry, seq, digest, tip.unsigned + len(lines), tip.head_at)


def link_drafts(tip: Tip, drafts: Sequence[Draft]) -> tuple[bytes, Tip]:
    """Return rows of calls that follow `tip` as the data of one entry of the journal, and the new tip.

    This runs once for each call and takes some microseconds: it formats the line and hashes it.
    """
    seq, digest = tip.seq, tip.digest
    links = list[str]()
    for template, arguments, at, record, result, us in drafts:
        seq += 1
        links.append(digest)
        # An f-string is twice as fast as `template.text % values`.
        a, b, c, d, e, f, g, h = template.parts
        given, made = cid_text(arguments), cid_text(result)
        line = f"{a}{given}{b}{at}{c}{digest}{d}{record}{e}{made}{f}{seq}{g}{us}{h}"
        digest = sha256(line.encode()).hexdigest()
    data = pack_rows(tip.seq + 1, drafts, links)
    return data, Tip(tip.entry, seq, digest, tip.unsigned + len(drafts), tip.head_at)


def make_head(signer: Signer, tip: Tip, at: int) -> tuple[bytes, Tip]:
    """Return a signed head that follows `tip` as the data of one entry, and the new tip.

    `at` is Unix time in milliseconds.
    """
    row: Row = {"at": at, "format": FORMAT, "key": signer.public, "kind": HEAD, "prev": tip.cid, "seq": tip.seq + 1}
    row["sig"] = signer.sign(canonical_bytes(row))
    line = row_bytes(row)
    return encode_lines([line]), Tip(tip.entry, tip.seq + 1, sha256(line).hexdigest(), 0, at)


def encode_lines(lines: Iterable[bytes]) -> bytes:
    """Return whole lines as the data of one entry."""
    return orjson.dumps([["%s"], [(0, line.decode()) for line in lines]])


def decode_lines(data: bytes) -> list[bytes]:
    """Return the lines in the data of one entry, oldest first."""
    if b"\n" in data:
        return unpack_rows(data)
    # Whole lines; hubs of before stored rows of calls in this form too, with their templates.
    templates, stored = orjson.loads(data)
    return [(templates[number] % tuple(values)).encode() for number, *values in stored]


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
    seq, digest, unsigned, head_at = tip.seq, tip.digest, tip.unsigned, tip.head_at
    last = b""
    for line in lines:
        unsigned += 1
        if HEAD_MARK in line:
            unsigned, head_at = 0, orjson.loads(line)["at"]
        last = line
    if last:
        seq, digest = orjson.loads(last)["seq"], sha256(last).hexdigest()
    return Tip(tip.entry, seq, digest, unsigned, head_at)
