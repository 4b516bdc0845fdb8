"""Schemas with one type each: `"type": ["string", "null"]` becomes `anyOf`, which every client takes.

Some clients, such as those of Gemini, refuse a tool whose schema has an array as `type`. Both forms accept the same
values (JSON Schema 2020-12, 6.1.1 and 10.2.1.2). A keyword that is about values of one type goes to its alternative,
as pydantic writes it; texts and the default stay outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

_NUMBERS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"))
_KEYWORDS: Mapping[str, frozenset[str]] = {
    "string": frozenset(("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType")),
    "integer": _NUMBERS,
    "number": _NUMBERS,
    "array": frozenset(("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
    "object": frozenset(
        (
            *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
            *("minProperties", "maxProperties"),
        )
    ),
    "boolean": frozenset(),
    "null": frozenset(),
}
"""By type: the keywords that are about its values alone."""

_VALUES = ("enum", "const")
_ABOUT = frozenset(
    (
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$defs",
    )
)
"""Keywords that say nothing about values; those that begin with `x-` neither."""

_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_ONES = frozenset(
    (
        *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "contentSchema"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)


def split_types(schema: Any) -> Any:
    """Return a schema that accepts the same values, without an array as `type`, also in the schemas inside it."""
    if not isinstance(schema, Mapping):
        return schema
    found: Schema = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, Mapping):
            found[key] = {name: split_types(one) for name, one in value.items()}
        elif key in _LISTS and isinstance(value, list):
            found[key] = [split_types(one) for one in value]
        elif key in _ONES:
            found[key] = split_types(value)
        else:
            found[key] = value
    kinds = found.get("type")
    return _split(found, list(dict.fromkeys(kinds))) if isinstance(kinds, list) and kinds else found


def _split(schema: Schema, kinds: Sequence[str]) -> Schema:
    """Return a schema with one alternative for each of its types."""
    rest = {key: value for key, value in schema.items() if key != "type"}
    if len(kinds) == 1:
        return {"type": kinds[0], **rest}
    about = {key: value for key, value in rest.items() if key in _ABOUT or key.startswith("x-")}
    known = frozenset(_VALUES).union(*(_KEYWORDS.get(kind, ()) for kind in kinds))
    if rest.keys() - about.keys() - known:
        # A keyword that concerns all types, or other keywords, such as $ref: everything stays where it is.
        types = [{"type": kind} for kind in kinds]
        more = {"allOf": [*rest.get("allOf", ()), {"anyOf": types}]} if "anyOf" in rest else {"anyOf": types}
        return {**rest, **more}
    branches = [branch for kind in kinds if (branch := _alternative(rest, kind, kinds)) is not None]
    if not branches:  # no value of `enum` has one of the types: nothing fits, as before
        return {**rest, "anyOf": [{"type": kind} for kind in kinds]}
    return {**about, **branches[0]} if len(branches) == 1 else {**about, "anyOf": branches}


def _alternative(rest: Schema, kind: str, kinds: Sequence[str]) -> Schema | None:
    """Return the alternative of one type; None if no listed value has it."""
    branch: Schema = {"type": kind} | {key: value for key, value in rest.items() if key in _KEYWORDS.get(kind, ())}
    if isinstance(rest.get("enum"), list):
        values = [one for one in rest["enum"] if _is_of(one, kind) and not (kind == "integer" and "number" in kinds)]
        if not values:
            return None
        if kind != "null":
            branch["enum"] = values
    if "const" in rest:
        if not _is_of(rest["const"], kind):
            return None
        branch["const"] = rest["const"]
    return branch


def _is_of(value: Any, kind: str) -> bool:
    """Whether a JSON value has a type; a number without a fraction is an integer too (JSON Schema, 4.2.3)."""
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, int | float):
        return kind == "number" or (kind == "integer" and float(value).is_integer())
    names: Mapping[type, str] = {str: "string", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value)) == kind
