"""The tables of a document, and the tests that they name.

A test is named as `test_x`, or as `folder/test_file.py::test_x` where more than one file has a test of that name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

from tests.checkout import ROOT

_TEST = re.compile(r"^[ \t]*(?:async )?def (test_\w+)", re.MULTILINE)
_NAMED = re.compile(r"`((?:[\w/]+\.py::)?test_\w+)`")


def rows_of(section: str) -> list[list[str]]:
    """Return the cells of each row of the table in a section, without its head."""
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def names_in(cell: str) -> list[str]:
    """Return the names of tests in a cell that holds such names only, each after a comma; none for another cell."""
    named = _NAMED.findall(cell)
    return named if cell == ", ".join(f"`{name}`" for name in named) else []


def places_of(name: str) -> list[str]:
    """Return the files with a test of this name, as paths in tests/; only the named file, if the name has one."""
    file, _, test = name.rpartition("::")
    return [path for path in _places().get(test, []) if not file or f"/{path}".endswith(f"/{file}")]


@cache
def _places() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for test in _TEST.findall(path.read_text("utf-8")):
            found[test].append(path.relative_to(ROOT / "tests").as_posix())
    return found
