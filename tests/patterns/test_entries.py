"""What the patterns of grants, quotas and toolsets cover."""

from __future__ import annotations

import pytest

from patchbay.patterns.entries import covers


@pytest.mark.parametrize(
    ("pattern", "server", "entry", "expected"),
    [
        ("*", "notes", "", True),
        ("*", "notes", "search", True),
        ("notes", "notes", "", True),
        ("notes", "notes", "search", True),
        ("notes", "notes2", "", False),
        ("Notes", "notes", "", False),
        ("no*", "notes", "search", True),
        ("notes.*", "notes", "", True),
        ("notes.*", "notes", "search", True),
        ("notes.*", "notes.evil", "search", False),
        ("notes.search", "notes", "search", True),
        ("notes.search", "notes", "", False),
        ("notes.search", "notes", "search2", False),
        ("notes.note://{id}", "notes", "note://{id}", True),
        ("notes.file:///a.txt", "notes", "file:///a.txt", True),
        ("*.delete_*", "notes", "delete_all", True),
        ("*.delete_*", "a.b", "delete_all", True),
        ("*.delete_*", "notes", "", False),
        ("a.b", "a.b", "", True),
        ("a.b", "a.b", "tool", True),
        ("a.b.*", "a.b", "tool", True),
        ("a.b.tool", "a.b", "tool", True),
        ("a.b.tool", "a", "b.tool", True),
        ("room.*", "room.demo", "", True),
        ("room.*", "room.demo", "calc__add", True),
        ("room.demo", "room.demo", "", True),
        ("room.demo.calc__*", "room.demo", "calc__add", True),
        ("room.demo.calc__*", "room.demo", "", False),
        ("room.demo", "room.other", "", False),
        ("room", "room.demo", "", False),
        ("demo", "room.demo", "", False),
    ],
)
def test_a_pattern_covers_the_expected_entries(pattern: str, server: str, entry: str, expected: bool) -> None:
    assert covers(pattern, server, entry) is expected
