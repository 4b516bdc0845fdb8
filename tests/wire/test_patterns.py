"""Patterns: matching values, other values, and the values of names in a pattern."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.patterns import Mismatch, fill, match

FITS: list[tuple[Any, Any]] = [
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": "<absent>"}, {"b": 2}),
    (["<any>", 2], [{}, 2]),
    ([1, "..."], [1, 2, 3]),
    (["..."], []),
    ("<string>", ""),
    ("<integer>", 0),
    ("<number>", 0.5),
    ("<boolean>", False),
    ("<object>", {}),
    ("<array>", []),
    ("<any>", None),
    ("a <any> z", "a b\nc z"),
    (["<x>", "<x>"], [5, 5]),
    ("<x>-1 <x>", "ab-1 ab"),
    (None, None),
    ("a.c", "a.c"),
]
DIFFERS: list[tuple[Any, Any]] = [
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {}),
    ({"a": 1}, [1]),
    ({"a": "<absent>"}, {"a": None}),
    ({"a": "<any>"}, {}),
    ([1], [1, 2]),
    ([1, 2], [1]),
    ([1, 2, "..."], [1]),
    ("<string>", 5),
    ("<integer>", True),
    ("<integer>", 1.0),
    ("<number>", "1"),
    ("<boolean>", 1),
    ("<object>", []),
    ("<array>", {}),
    (1, True),
    (1, 1.0),
    (1, "1"),
    ("a.c", "abc"),
    ("a<any>", "b"),
    (["<x>", "<x>"], [5, "5"]),
    (["<x>", "<x>"], [1, True]),
    ("<x>-<x>", "a-b"),
    (None, 0),
]


@pytest.mark.parametrize(("pattern", "value"), FITS)
def test_a_matching_value_passes(pattern: Any, value: Any) -> None:
    match(pattern, value, {})


@pytest.mark.parametrize(("pattern", "value"), DIFFERS)
def test_a_different_value_is_a_mismatch(pattern: Any, value: Any) -> None:
    with pytest.raises(Mismatch):
        match(pattern, value, {})


def test_a_word_is_bound_once_and_only_where_everything_matches() -> None:
    words = match({"id": "<id>", "text": "to <who>!"}, {"id": 7, "text": "to Ada!"}, {})
    assert words == {"id": 7, "who": "Ada"}
    with pytest.raises(Mismatch, match=r"\.id"):
        match({"id": "<id>"}, {"id": 8}, words)
    with pytest.raises(Mismatch):
        match({"new": "<new>", "id": "<id>"}, {"new": 1, "id": 8}, words)
    assert words == {"id": 7, "who": "Ada"}


def test_exactly_means_no_other_member_at_any_depth() -> None:
    match({"a": [{"b": 1}]}, {"a": [{"b": 1}]}, {}, exactly=True)
    with pytest.raises(Mismatch, match="no member c"):
        match({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, {}, exactly=True)


def test_a_mismatch_says_where() -> None:
    with pytest.raises(Mismatch, match=r"at \.a\[1\]\.b: expected 1, found 2"):
        match({"a": [0, {"b": 1}]}, {"a": [0, {"b": 2}]}, {})


def test_holes_are_filled_with_values_or_text() -> None:
    words = {"id": 7, "name": "Ada"}
    assert fill({"id": "<id>", "<name>": ["to <name>: <id>", 5]}, words) == {"id": 7, "Ada": ["to Ada: 7", 5]}
    with pytest.raises(KeyError):
        fill("<nobody>", words)
