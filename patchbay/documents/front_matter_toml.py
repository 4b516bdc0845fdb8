"""Reads and changes TOML front matter, between lines of `+++`.

A change writes one line for each key, in its place or before the first table; all other bytes stay unchanged. Values
may be texts, numbers, booleans and lists of them. The result is parsed and compared before it is returned.
Source: https://toml.io/en/v1.0.0.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from patchbay.documents.errors import Unreadable

_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def load(block: str) -> dict[str, Any]:
    """Return the values of a TOML block. Raises Unreadable."""
    try:
        return tomllib.loads(block.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        reason = "it nests too deeply" if isinstance(problem, RecursionError) else str(problem)
        raise Unreadable(f"the front matter is not valid TOML: {reason}") from problem


def changed(block: str, changes: Mapping[str, Any], newline: str) -> str:
    """Return a block with new values of some keys. Raises Unreadable if a change line by line is impossible."""
    wanted = {**load(block), **changes}
    for name, value in changes.items():
        line = f"{_key(name)} = {_value(value)}"
        table = _TABLE.search(block)
        head = len(block) if table is None else table.start()
        old = re.compile(rf"^[ \t]*(?:{re.escape(name)}|{re.escape(json.dumps(name))})[ \t]*=[^\r\n]*", re.MULTILINE)
        found = old.search(block, 0, head)
        if found is not None:
            block = block[: found.start()] + line + block[found.end() :]
        else:
            before = block[:head] + (newline if head and not block[:head].endswith("\n") else "")
            block = before + line + newline + block[head:]
    try:
        same = load(block) == wanted
    except Unreadable:
        same = False
    if not same:
        raise Unreadable("the front matter cannot be changed without losing values; nothing was changed")
    return block


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    """Return a value as TOML. Raises Unreadable."""
    if isinstance(value, (str, bool, int, float)) or (
        isinstance(value, (list, tuple)) and all(isinstance(one, (str, bool, int, float)) for one in value)
    ):
        # TOML has the same escapes as JSON, except for DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise Unreadable(f"expected texts, numbers or lists of them for front matter in TOML, not {type(value).__name__}")
