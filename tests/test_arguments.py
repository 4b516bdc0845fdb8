"""Arguments against a tool's schema, and the other names that a property may have."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.arguments import misfits, validator

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "session_name": {"type": "string", "x-alias": "name"},
        "query": {"type": "string", "x-alias": "prompt"},
        "max_turns": {"type": "integer"},
    },
    "required": ["session_name", "query"],
    "additionalProperties": False,
}


def checked(arguments: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The places that do not fit, and the arguments as they then are."""
    wrong = misfits(validator(SCHEMA), SCHEMA, arguments)
    return [one["path"] for one in wrong], arguments


@pytest.mark.parametrize(
    "given",
    [
        {"session_name": "a", "query": "b"},
        {"name": "a", "prompt": "b"},
        {"name": "a", "query": "b"},
    ],
)
def test_an_argument_may_come_under_its_other_name(given: dict[str, Any]) -> None:
    """SUB-C14"""
    assert checked(given) == ([], {"session_name": "a", "query": "b"})


def test_both_names_at_once_are_one_too_many() -> None:
    """SUB-C14"""
    wrong, left = checked({"name": "a", "session_name": "b", "query": "c"})
    assert wrong == [""]
    assert left["session_name"] == "b"


def test_a_value_under_the_other_name_is_checked_like_any() -> None:
    """SUB-C14"""
    assert checked({"name": 1, "prompt": "b"})[0] == ["session_name"]


def test_an_undeclared_name_is_refused() -> None:
    """SUB-C14"""
    assert checked({"name": "a", "prompt": "b", "turns": 3})[0] == [""]
