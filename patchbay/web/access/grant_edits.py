"""Changes of one right in a document of the variable `access`, as a table of rights makes them. Pure.

A document is the parsed JSON that `parse_grants` accepts. A right is an action on one pattern for one name in `to`.
Only the rows that give this right change; what they give to others stays the same.
"""

from __future__ import annotations

from typing import Any

import orjson

from patchbay.boot.grants import CALL, OPERATE, READ, SEE

ASK = "ask"
"""The action `call` in a grant with `"call": "approve"`: calls of tools that may destroy something need an approval."""

RIGHTS = (SEE, CALL, READ, ASK)
"""The rights that the table shows, in the order of its buttons."""

MAX_LINE_CHARACTERS = 110
"""Characters of a row that is written on one line, at most."""

Json = dict[str, Any]


def own_rights(document: Json, name: str, pattern: str) -> set[str]:
    """Return the RIGHTS that rows give to exactly this name on exactly this pattern. `call` wins over `ask`.

    Rows that make an administrator do not count: they give everything.
    """
    found: set[str] = set()
    for row in document.get("grants", ()):
        if _gives(row, name, pattern):
            found |= {ASK if action == CALL and "call" in row else action for action in row["may"]}
    return found - {ASK} if CALL in found else found


def change_right(document: Json, name: str, right: str, pattern: str) -> Json:
    """Return the document with one right given, or taken away if it was given.

    `ask` gives `call` with an approval, and turns an asking `call` into one that does not ask.
    """
    rights = own_rights(document, name, pattern)
    if right == ASK:
        wanted = rights - {ASK} | {CALL} if ASK in rights else rights - {CALL} | {ASK}
    elif right == CALL:
        wanted = rights - {CALL, ASK} if rights & {CALL, ASK} else rights | {CALL}
    else:
        wanted = rights ^ {right}
    return _set_rights(document, name, pattern, wanted)


def _set_rights(document: Json, name: str, pattern: str, wanted: set[str]) -> Json:
    rows: list[Json] = []
    for row in document.get("grants", ()):
        if not _gives(row, name, pattern):
            rows.append(row)
            continue
        others = [each for each in row["to"] if each != name]
        rest = [each for each in row["on"] if each != pattern]
        rows += [{**row, "to": others}] if others else []
        rows += [{**row, "to": [name], "on": rest}] if rest else []
    if wanted:
        may = [each for each in (SEE, CALL, READ) if each in wanted or (each == CALL and ASK in wanted)]
        asks = {"call": "approve"} if ASK in wanted else {}
        rows.append({"to": [name], "may": may, "on": [pattern]} | asks)
    return document | {"grants": _join_rows(rows, name)}


def _gives(row: Json, name: str, pattern: str) -> bool:
    return name in row["to"] and pattern in row["on"] and OPERATE not in row["may"]


def _join_rows(rows: list[Json], name: str) -> list[Json]:
    """Join the rows of this name alone that give the same actions, at the place of the first one."""
    joined: list[Json] = []
    known: dict[tuple[frozenset[str], bool], Json] = {}
    for row in rows:
        if row["to"] != [name] or OPERATE in row["may"]:
            joined.append(row)
            continue
        key = frozenset(row["may"]), "call" in row
        if key in known:
            known[key]["on"] += [each for each in row["on"] if each not in known[key]["on"]]
        else:
            known[key] = row | {"on": [*row["on"]]}
            joined.append(known[key])
    return joined


def format_document(document: Json) -> str:
    """Return the text of a document: each group, grant, denial and quota on a line of its own if it is short."""
    parts = [f"  {_dump(name)}: {_format_part(value)}" for name, value in document.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n" if parts else "{}\n"


def _format_part(value: Any) -> str:
    """Format the value of a field of the document: a list of rows, or the groups by their names."""
    if not value:
        return _dump(value)
    if isinstance(value, dict):
        lines = [f"    {_dump(name)}: {_format_row(members)}" for name, members in value.items()]
        return "{\n" + ",\n".join(lines) + "\n  }"
    return "[\n" + ",\n".join(f"    {_format_row(row)}" for row in value) + "\n  ]"


def _format_row(value: Any) -> str:
    """Format one row on one line, or with each field on a line of its own."""
    line = _dump(value)
    if len(line) <= MAX_LINE_CHARACTERS or not isinstance(value, dict):
        return line
    return "{\n" + ",\n".join(f"      {_dump(name)}: {_dump(part)}" for name, part in value.items()) + "\n    }"


def _dump(value: Any) -> str:
    """Format a JSON value on one line, with a space after each colon and comma."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_dump(name)}: {_dump(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_dump, value)) + "]"
    return orjson.dumps(value).decode()
