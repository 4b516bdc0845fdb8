"""Keys of an object store as patterns: `raw/2024/11/a.csv` and similar keys become `raw/YYYY/MM/*.csv`.

A year in a key, and months, days and hours below it, become placeholders; other parts of digits or hexadecimal digits
become `*`; the rest of a file's name becomes `*` where several differ. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from patchbay.client.sources.formats import get_format_of_name

_YEAR = re.compile(r"(?:19|20)\d\d")
_TWO_DIGITS = re.compile(r"\d\d")
_NUMBER_OR_HASH = re.compile(r"\d+|[0-9a-fA-F]{8,}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NEXT_PLACEHOLDER = {"YYYY": "MM", "MM": "DD", "DD": "HH"}
_LARGE_OBJECT_BYTES = 16 * 1024 * 1024


def generalize_folder(folder: str) -> str:
    """Replace the changing parts of a folder by placeholders."""
    before, parts = "", []
    for part in folder.split("/"):
        name, equals, value = part.rpartition("=")  # Hive-style: year=2024
        below = _NEXT_PLACEHOLDER.get(before, "")
        if _YEAR.fullmatch(value):
            found = "YYYY"
        elif below and _TWO_DIGITS.fullmatch(value):
            found = below
        else:
            found = "*" if _NUMBER_OR_HASH.fullmatch(value) else value
        before = found
        parts.append(name + equals + found)
    return "/".join(parts)


def infer_key_patterns(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Infer patterns of objects (`key`, `size`), each with its number of objects, bytes, format and one example."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        folder, _, name = str(row["key"]).rpartition("/")
        suffix = name[name.index(".", 1) :] if "." in name[1:] else ""
        groups.setdefault((generalize_folder(folder), suffix), []).append(row)
    return [_make_pattern(shape, suffix, found) for (shape, suffix), found in sorted(groups.items())]


def _make_pattern(shape: str, suffix: str, found: list[Mapping[str, Any]]) -> dict[str, Any]:
    names = {str(row["key"]).rpartition("/")[2] for row in found}
    size = sum(int(row.get("size") or 0) for row in found)
    last = next(iter(names)) if len(names) == 1 else f"*{suffix}"
    return {
        "pattern": f"{shape}/{last}" if shape else last,
        "format": get_format_of_name(str(found[0]["key"])),
        "count": len(found),
        "bytes": size,
        "size": "large" if size / len(found) >= _LARGE_OBJECT_BYTES else "small",
        "example": str(found[0]["key"]),
    }
