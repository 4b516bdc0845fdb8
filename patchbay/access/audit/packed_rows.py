"""The stored form of the rows of calls: about 130 bytes for each, where its line has about 1,100.

An entry of the journal is one line of JSON, `[templates, numbers, seq, at, record, us]`, and then digests as bytes. The
row `n` has the template `templates[numbers[n]]`, the seq `seq + n`, and its values in the columns `at`, `record` and
`us`. The digests of `prev`, `arguments` and `result` follow the line feed as three columns with 32 bytes for each row;
zeros stand for null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

CID_PREFIX = "f01551220"
"""The beginning of a CID in base16: version 1, raw, sha2-256, 32 bytes. The digest follows, as openssl prints it."""

DIGEST_CHARACTERS = 64
"""Hexadecimal digits of a digest."""

NO_DIGEST = "0" * DIGEST_CHARACTERS
"""Stands for null in a column of digests; no content has this digest."""


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """The row of similar calls, with holes for the fields that differ: the text in the store, and its parts.

    A hole is `%s` in `text`; `parts` are the texts before, between and after the holes.
    """

    text: str
    parts: tuple[str, ...]


Draft = tuple[Template, str, int, str, str, int]
"""A row of a call without `seq` and `prev`: its template, and `arguments`, `at`, `record`, `result` and `us`.

`arguments` and `result` are digests in hexadecimal, empty for null; `record` is a text in JSON, or null.
"""


def pack_rows(seq: int, drafts: Sequence[Draft], links: Sequence[str]) -> bytes:
    """Return rows of calls as the data of one entry.

    `seq` is that of the first row; `links` are the digests of the lines before the rows, in hexadecimal.
    """
    templates, arguments, times, records, results, durations = zip(*drafts, strict=True)
    numbers = {template: number for number, template in enumerate(dict.fromkeys(templates))}
    head = [
        [template.text for template in numbers],
        [numbers[template] for template in templates],
        seq,
        times,
        orjson.Fragment(f"[{','.join(records)}]"),
        durations,
    ]
    columns = (digest or NO_DIGEST for column in (links, arguments, results) for digest in column)
    return orjson.dumps(head) + b"\n" + bytes.fromhex("".join(columns))


def unpack_rows(data: bytes) -> list[bytes]:
    """Return the lines of the rows in one entry, oldest first."""
    head, _, packed = data.partition(b"\n")
    templates, numbers, seq, times, records, durations = orjson.loads(head)
    digests, count = packed.hex(), len(numbers)

    def digest(column: int, row: int) -> str:
        begin = (column * count + row) * DIGEST_CHARACTERS
        return digests[begin : begin + DIGEST_CHARACTERS]

    return [
        (
            templates[number]
            % (
                cid_text(digest(1, row)),
                times[row],
                digest(0, row),
                orjson.dumps(records[row]).decode(),
                cid_text(digest(2, row)),
                seq + row,
                durations[row],
            )
        ).encode()
        for row, number in enumerate(numbers)
    ]


def cid_text(digest: str) -> str:
    """Return the CID of a digest as JSON; null for an empty one and for zeros."""
    return "null" if digest in ("", NO_DIGEST) else f'"{CID_PREFIX}{digest}"'
