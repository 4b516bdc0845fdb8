"""Literals in source code as JSON values: defaults, Literal members, constraints. Only literals are evaluated."""

from __future__ import annotations

import ast
import math
from typing import Any, Final

SMALLEST, INTEGER_RANGE = -(2**63), 2**64 - 1
"""The integers that every part of the hub can write as JSON."""


class Missing:
    """The type of ABSENT, which means "no JSON value", because None is a JSON value."""


ABSENT: Final = Missing()


def json_value(node: ast.expr | None) -> Any:
    """Return the JSON value of a literal; ABSENT when it is not a literal or JSON has no such value.

    Tuples become lists. Bytes, sets, complex numbers, infinities, numbers beyond 64 bits and mappings whose keys are
    not strings have no JSON value.
    """
    if node is None:
        return ABSENT
    try:
        return _literal_value(ast.literal_eval(node))
    except (ValueError, TypeError):
        return ABSENT


def _literal_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and SMALLEST <= value <= INTEGER_RANGE:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [_literal_value(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _literal_value(item) for key, item in value.items()}
    raise ValueError(f"JSON has no {type(value).__name__} like this")


def type_name(value: Any) -> str:
    """Return the JSON Schema name of a JSON value's type."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")
