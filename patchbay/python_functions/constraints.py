"""Constraints and descriptions in annotations: `Field(ge=1)`, `Annotated[str, "a city"]`, `Len(1, 9)`.

Literals among them become JSON Schema keywords.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from patchbay.python_functions.literals import ABSENT, json_value
from patchbay.python_functions.scope import Scope

FIELD_CALLS = frozenset(
    (
        "pydantic.Field",
        "pydantic.fields.Field",
        "dataclasses.field",
        "attrs.field",
        "attr.ib",
        "attr.field",
        "msgspec.field",
    )
)
BY_KEYWORD = FIELD_CALLS | {
    "pydantic.StringConstraints",
    "pydantic.types.StringConstraints",
    "msgspec.Meta",
    "annotated_types.Interval",
}
POSITIONAL: Mapping[str, tuple[str, ...]] = {
    "annotated_types.Ge": ("ge",),
    "annotated_types.Gt": ("gt",),
    "annotated_types.Le": ("le",),
    "annotated_types.Lt": ("lt",),
    "annotated_types.MultipleOf": ("multiple_of",),
    "annotated_types.MinLen": ("min_length",),
    "annotated_types.MaxLen": ("max_length",),
    "annotated_types.Len": ("min_length", "max_length"),
    "typing.Doc": ("description",),
    **dict.fromkeys(FIELD_CALLS & {"pydantic.Field", "pydantic.fields.Field"}, ("default",)),
}
PLAIN: Mapping[str, str] = {
    "title": "title",
    "description": "description",
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "examples": "examples",
}
NUMBERS = frozenset(("ge", "gt", "le", "lt", "multiple_of"))
LENGTHS: Mapping[str, Mapping[str, str]] = {
    "min_length": {"string": "minLength", "array": "minItems", "object": "minProperties"},
    "max_length": {"string": "maxLength", "array": "maxItems", "object": "maxProperties"},
}


def keywords(node: ast.expr, scope: Scope) -> dict[str, Any]:
    """Return the keywords of one piece of metadata, with pydantic's names: `{"ge": 1, "description": "..."}`.

    A string is a description; unknown metadata and values that are not literals are ignored.
    """
    bound = scope.local(node)
    node = bound if isinstance(bound, ast.expr) else node
    text = json_value(node)
    if isinstance(text, str):
        return {"description": text}
    if not isinstance(node, ast.Call):
        return {}
    path = scope.path(node.func)
    # The classes of annotated_types take their one value by position or by name.
    known = path in BY_KEYWORD or path in POSITIONAL
    named = {word.arg: json_value(word.value) for word in node.keywords if word.arg} if known else {}
    placed = {name: json_value(value) for name, value in zip(POSITIONAL.get(path, ()), node.args, strict=False)}
    return {name: value for name, value in {**placed, **named}.items() if value is not ABSENT}


def with_constraints(schema: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with the keywords of metadata; values of a wrong type are ignored."""
    more: dict[str, Any] = {}
    for name, keyword in PLAIN.items():
        if name in given and _fits(name, given[name]):
            more[keyword] = given[name]
    for name, by_type in LENGTHS.items():
        size = given.get(name)
        if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
            more.update({keyword: size for kind, keyword in by_type.items() if kind in types_in(schema)})
    extra = given.get("json_schema_extra")
    if isinstance(given.get("deprecated"), bool | str):
        more["deprecated"] = bool(given["deprecated"])
    extra = extra if isinstance(extra, dict) else {}
    # The content of a file is bytes, which JSON can only say in base64.
    encoding = {"contentEncoding": "base64"} if extra.get("format") == "cid" and _has_path(schema) else {}
    return {**schema, **more, **encoding, **extra}


def _has_path(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is that of a path, of a list of paths, or of a path or null."""
    parts = (*schema.get("anyOf", ()), *([schema["items"]] if isinstance(schema.get("items"), Mapping) else ()))
    return schema.get("format") == "path" or any(_has_path(part) for part in parts)


def types_in(schema: Mapping[str, Any]) -> set[str]:
    """Return the JSON types of a schema, at its root or in the branches of its `anyOf`."""
    named = schema.get("type", [])
    found = {named} if isinstance(named, str) else set(named)
    return found.union(*(types_in(branch) for branch in schema.get("anyOf", ())))


def _fits(name: str, value: Any) -> bool:
    if name in NUMBERS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, list) if name == "examples" else isinstance(value, str)
