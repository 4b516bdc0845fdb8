"""Schemas of unions, fixed values, tuples and objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchbay.python_functions.literals import type_name

Schema = dict[str, Any]


def union(branches: Sequence[Schema]) -> Schema:
    """Return a schema of alternatives; any value when one of them allows any value."""
    flat: list[Schema] = []
    for branch in branches:
        for one in branch["anyOf"] if set(branch) == {"anyOf"} else [branch]:
            if not one:
                return {}
            if one not in flat:
                flat.append(one)
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def choice(values: Sequence[Any]) -> Schema:
    """Return a schema of these JSON values, with their type where they share it."""
    # True equals 1 in Python, but not in JSON.
    distinct = list({(type(value), repr(value)): value for value in values}.values())
    kinds = {type_name(value) for value in distinct}
    typed: Schema = {"type": kinds.pop()} if len(kinds) == 1 else {}
    return {**typed, "const": distinct[0]} if len(distinct) == 1 else {**typed, "enum": distinct}


def fixed_array(items: list[Schema], required: int) -> Schema:
    """Return the schema of an array with fixed positions."""
    if not items:
        return {"type": "array", "maxItems": 0}
    return {"type": "array", "prefixItems": items, "items": False, "minItems": required, "maxItems": len(items)}


def object_schema(properties: dict[str, Schema], required: Sequence[str]) -> Schema:
    """Return the schema of an object with these properties; `required` is omitted when it is empty."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}
