"""docs/security.md says of each method and route what it leaves behind, with its limit and a test that exists."""

from __future__ import annotations

import re
from collections import Counter

from patchbay.protocol.methods import METHODS
from patchbay.web.api.routes import ALL_ROUTES
from tests.checkout import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
SECTION = PAGE[PAGE.index("### What a request leaves behind") : PAGE.index("### Apps")]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")] for line in SECTION.splitlines() if line.startswith("| `")
]
ROOM_ROUTES = ("PUT /rooms/<room>", "POST /rooms/<room>", "POST /rooms/<room>/fork", "DELETE /rooms/<room>")
"""Routes beside the table of the pages (`patchbay/wire/rooms/http.py`)."""


def test_each_method_and_route_has_one_row() -> None:
    """48.4"""
    told = Counter(name for row in ROWS for name in re.findall(r"`([^`]+)`", row[0]))
    changing = {
        f"{route.method} {route.path}"
        for route in ALL_ROUTES
        if route.method in ("POST", "PUT", "PATCH", "DELETE") and not route.operator
    }
    assert told.keys() == {*METHODS, *changing, *ROOM_ROUTES}
    assert max(told.values()) == 1


def test_each_row_says_what_is_left_its_limit_and_a_test_that_exists() -> None:
    """48.4"""
    tests = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert ROWS
    for row in ROWS:
        assert len(row) == 4 and all(row), row
        named = re.findall(r"`(test_\w+)`", row[3])
        assert named and set(named) <= tests, row
