"""The rows of the audit chain: canonical JSON objects, each linked to the row before it by a CID.

A row is one line: JSON as RFC 8785 writes it, and a line feed. Every row has `seq` (1, 2, 3, ...), `prev` (the CID of
the line before it, without the line feed; null in the first row), `at` (Unix time in milliseconds) and `kind`:

    call     one finished call; `patchbay/activity/audited_calls.py` makes these rows
    approval the decision about one call that needed an approval; `approval_rows.py` makes these rows
    dropped  calls without a row: their number in `count`, and why
    pruned   rows that were deleted: all below the row `first`, which is a signed head
    head     a signed head: `key` is the hub's Ed25519 public key (base64), `sig` the signature of the row without `sig`

The first row of a chain is a head, and so is the first row of each export. The CIDs in `prev`, `arguments` and `result`
are in base16, where the last 64 digits are what `openssl dgst -sha256` prints.
Sources: RFC 8785 (canonical JSON); RFC 8032 (Ed25519); https://github.com/multiformats/cid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from patchbay.rooms.record.canonical import Signer, canonical_bytes, is_signed

Row = dict[str, Any]

FORMAT = "patchbay-audit-1"
"""The value of `format` in a head: the version of the form of rows."""

CALL, APPROVAL, DROPPED, PRUNED, HEAD = "call", "approval", "dropped", "pruned", "head"
KINDS = (CALL, APPROVAL, DROPPED, PRUNED, HEAD)

HEAD_MARK = b'"kind":"head"'
"""Bytes that only the line of a head has: within a text of another row, the quotes are escaped."""


CID_PREFIX = "f01551220"
"""The beginning of a CID in base16: version 1, raw, sha2-256, 32 bytes. The digest follows, as openssl prints it."""

_HOLES = ("arguments", "at", "prev", "record", "result", "seq", "us")
"""The fields of a call that change from call to call, in the order of canonical JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """The row of similar calls, with holes for the fields that differ: the text in the store, and its parts.

    A hole is `%s` in `text`; `parts` are the texts before, between and after the holes.
    """

    text: str
    parts: tuple[str, ...]


Draft = tuple[Template, str, int, str, str, int]
"""A row of a call without `seq` and `prev`: its template, and `arguments`, `at`, `record`, `result` and `us`.

The texts of arguments, record and result are JSON.
"""

_WHOLE_ROW = Template("%s", ("", ""))
"""The template of a row that has no similar ones."""

Stored = tuple[Any, ...]
"""A row in the store: the number of its template in the entry, and the values for the template."""


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


def link_rows(tip: Tip, rows: Iterable[Row | Draft]) -> tuple[bytes, Tip]:
    """Return rows that follow `tip` as the data of one entry of the journal, and the new tip.

    This runs once for each call and takes some microseconds: it formats the line and hashes it.
    """
    seq, digest = tip.seq, tip.digest
    numbers: dict[Template, int] = {}
    stored: list[Stored] = []
    for row in rows:
        seq += 1
        if isinstance(row, tuple):
            template, arguments, at, record, result, us = row
            number = numbers.setdefault(template, len(numbers))
            stored.append((number, arguments, at, digest, record, result, seq, us))
            # An f-string is twice as fast as `template.text % values`.
            a, b, c, d, e, f, g, h = template.parts
            line = f"{a}{arguments}{b}{at}{c}{digest}{d}{record}{e}{result}{f}{seq}{g}{us}{h}".encode()
        else:
            line = row_bytes({**row, "seq": seq, "prev": CID_PREFIX + digest})
            stored.append((numbers.setdefault(_WHOLE_ROW, len(numbers)), line.decode()))
        digest = sha256(line).hexdigest()
    data = orjson.dumps([[template.text for template in numbers], stored])
    return data, Tip(tip.entry, seq, digest, tip.unsigned + len(stored), tip.head_at)


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
