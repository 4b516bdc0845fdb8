"""The stored form of records: one journal entry of the topic `activity` is a JSON array of rows, compressed if long.

A row has the fields of `Record` in order, without the id: times in whole milliseconds and microseconds first. The size
of the arguments in bytes is its last field.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import orjson

from patchbay.store import JournalEntry

MIN_COMPRESSED_BYTES = 2048
"""Bytes of the smallest entry that is compressed."""

METHOD_PLACE, SERVER_PLACE, NAME_PLACE, DIGEST_PLACE = 5, 6, 9, 10
OUTCOME_PLACE, SIZE_PLACE, PRINCIPAL_PLACE = 11, 15, 16
ARGUMENTS_DIGEST_PLACE, ANSWER_DIGEST_PLACE, SENT_PLACE = 23, 25, 27
"""Places of fields in a row. Rows of older versions end before the moments, or before the size of the arguments."""

ORIGINS = "origins"
"""The kind of the moment of a stored row that says what is behind a tool of a toolset, as JSON."""

_FORMER_OUTCOMES = {"is_error": "tool_error", "asked": "input_required"}
"""Names of outcomes in records of older versions, and their present names."""


def encode_rows(rows: list[list[Any]]) -> bytes:
    """Return rows as the data of one entry."""
    try:
        data = orjson.dumps(rows)
    except TypeError:  # a lone surrogate or an integer beyond 64 bits must not lose the other records of the batch
        data = json.dumps(rows, ensure_ascii=False).encode("utf-8", "replace")
    return data if len(data) < MIN_COMPRESSED_BYTES else zlib.compress(data, 1)


def rows_of(entry: JournalEntry) -> list[list[Any]]:
    """Return the rows of one entry, oldest first."""
    rows: list[list[Any]] = orjson.loads(entry.data if entry.data[:1] == b"[" else zlib.decompress(entry.data))
    return rows


def outcome_of(row: list[Any]) -> str:
    """Return the outcome of a row under its present name."""
    return present_outcome(row[OUTCOME_PLACE])


def present_outcome(outcome: str) -> str:
    """Return the present name of a stored outcome."""
    return _FORMER_OUTCOMES.get(outcome, outcome)
