"""Who used what: calls, failures, bytes and time by person, key, toolset, server or tool, from the records of calls.

The records of all nodes are in one store, so the sums are of all nodes. Nothing is counted while a call runs. The sums
are of the newest MAX_COUNTED_CALLS records that match, among the newest MAX_SEARCHED_CALLS; what the hub has deleted
(setting `activity_days`) is not in them. A table can be written as CSV; cells that a spreadsheet would run as a formula
begin with an apostrophe then.
Source of the last: OWASP, CSV Injection.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from patchbay.access.principals import KEY_IDS
from patchbay.activity.records import FAILED, WIDTH, Filter, rows_backwards
from patchbay.activity.stored_rows import (
    DIGEST_PLACE,
    METHOD_PLACE,
    NAME_PLACE,
    ORIGINS,
    PRINCIPAL_PLACE,
    SENT_PLACE,
    SERVER_PLACE,
    SIZE_PLACE,
    outcome_of,
)
from patchbay.store import Journal

MAX_COUNTED_CALLS = 200_000
"""Newest records that one table counts, at most."""

MAX_SEARCHED_CALLS = 2 * MAX_COUNTED_CALLS
"""Newest records that are looked at for one table, at most: for a caller with few calls among those of many others."""

MAX_ROWS = 10_000
"""Rows of one table, at most: those with the most calls."""

GROUPS = ("caller", "person", "key", "toolset", "server", "tool")
"""What a row can be about. A caller is a person or a key."""

COLUMNS = ("caller", "server", "tool", "calls", "failed", "bytes_in", "bytes_out", "seconds")
"""The columns of a table as CSV."""

_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")


@dataclass(slots=True)
class UsageRow:
    """The sums of one group. What does not tell groups apart is empty, such as `tool` in a table by server.

    `bytes_in` are those of arguments, `bytes_out` those of answers, about. `seconds` is the sum of the durations.
    """

    caller: str = ""
    server: str = ""
    tool: str = ""
    calls: int = 0
    failed: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the row as a JSON object, with the seconds in whole microseconds."""
        return {name: getattr(self, name) for name in COLUMNS} | {"seconds": round(self.seconds, 6)}


@dataclass(frozen=True, slots=True)
class UsageTable:
    """The rows, most calls first, and their sums. `is_whole` is False when older calls or more rows were left out.

    `begin` is the Unix time of the oldest counted call, 0 without one.
    """

    rows: list[UsageRow]
    total: UsageRow
    is_whole: bool
    begin: float


def count_usage(journal: Journal, wanted: Filter, by: str) -> UsageTable:
    """Sum the records that a filter selects, by one of GROUPS."""
    rows: dict[tuple[str, str, str], UsageRow] = {}
    total, begin, is_whole = UsageRow(), 0.0, True
    for searched, row in enumerate(rows_backwards(journal, wanted)):
        if total.calls >= MAX_COUNTED_CALLS or searched >= MAX_SEARCHED_CALLS:
            is_whole = False
            break
        if row is None:
            continue
        key = _find_group(row, by, wanted.for_strangers)
        if key is None:
            continue
        begin = min(begin or row[0], row[0])
        found = rows.get(key)
        if found is None:
            found = rows[key] = UsageRow(*key)
        for one in (found, total):
            _add(one, row)
    ordered = sorted(rows.values(), key=lambda one: (-one.calls, one.caller, one.server, one.tool))
    return UsageTable(ordered[:MAX_ROWS], total, is_whole and len(ordered) <= MAX_ROWS, begin / 1000)


def format_csv(rows: Sequence[UsageRow]) -> str:
    """Return a table as CSV (RFC 4180) with a line of headings."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        values = row.to_json()
        writer.writerow([defuse(value) if isinstance(value, str) else value for value in values.values()])
    return text.getvalue()


def defuse(text: str) -> str:
    """Return a text that a spreadsheet shows and does not run: with an apostrophe before what may be a formula."""
    is_risky = text[:1] in _FORMULA_STARTS or text.lstrip()[:1] in _FORMULA_STARTS
    return f"'{text}" if text and is_risky else text


def _find_group(row: list[Any], by: str, hides_names: bool) -> tuple[str, str, str] | None:
    """Return the caller, server and tool of the group of a stored row; None for a row that is in no group."""
    caller, server = row[PRINCIPAL_PLACE], row[SERVER_PLACE]
    if by in ("caller", "person", "key"):
        is_key = caller.startswith(KEY_IDS)
        return (caller, "", "") if by == "caller" or is_key == (by == "key") else None
    if by == "server":
        return "", server, ""
    if by == "toolset":
        return ("", server, "") if any(kind == ORIGINS for _, kind, _ in _moments(row)) else None
    # The name of what a server does not list is text from a caller.
    is_hidden = hides_names and row[DIGEST_PLACE] is None
    return "", server, row[METHOD_PLACE] if is_hidden else row[NAME_PLACE] or row[METHOD_PLACE]


def _moments(row: list[Any]) -> Iterator[tuple[int, str, str]]:
    yield from row[WIDTH] if len(row) > WIDTH else ()


def _add(sums: UsageRow, row: list[Any]) -> None:
    sums.calls += 1
    sums.failed += outcome_of(row) in FAILED
    sums.bytes_in += row[SENT_PLACE] if len(row) > SENT_PLACE else 0
    sums.bytes_out += row[SIZE_PLACE]
    sums.seconds += row[1] / 1e6
