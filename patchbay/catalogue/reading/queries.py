"""Arguments out of text: a query or a form, each value read as the type that its schema asks for.

Rules: what cannot be read stays text, for the schema to refuse by name; a name given more than once is a
list where a list is allowed and refused elsewhere; nothing here looks at a request.
Sources: REQUIREMENTS VWR-24, VWR-27; JSON Schema 2020-12, 6.1.1 and 10.2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from patchbay.arguments import aliases
from patchbay.errors import InvalidParams

MAX_SCHEMA_DEPTH = 16
"""How many references and alternatives inside each other are looked into."""

Schema = Mapping[str, Any]


def arguments_of(pairs: Iterable[tuple[str, str]], schema: Schema) -> dict[str, Any]:
    """The arguments by name, from decoded (name, text) pairs and the input schema of a tool.

    Raises InvalidParams for a name that is given more than once and is no list.
    """
    texts: dict[str, list[str]] = {}
    for name, text in pairs:
        texts.setdefault(name, []).append(text)
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    own = aliases(properties)
    return {name: _argument(name, given, properties.get(own.get(name, name)), schema) for name, given in texts.items()}


def _argument(name: str, given: list[str], wanted: Any, root: Schema) -> Any:
    """One argument: a single value where that fits, else the list of all that was given."""
    choices = list(_choices(wanted, root))
    arrays = [each for each in choices if "array" in _types(each)]
    if len(given) == 1:
        value = _value(given[0], choices)
        if not arrays or not isinstance(value, str) or any("string" in _types(each) for each in choices):
            return value
    elif not arrays:
        raise InvalidParams(f"the argument {name[:128]!r} is given more than once")
    items = [item for each in arrays for item in _choices(each.get("items"), root)]
    return [_value(text, items) for text in given]


def _choices(schema: Any, root: Schema, depth: int = 0) -> Iterator[Schema]:
    """The schemas that say what a value may be: alternatives and references inside the schema are opened."""
    if not isinstance(schema, Mapping) or depth > MAX_SCHEMA_DEPTH:
        return
    inner = [each for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key) or ()]
    if isinstance(schema.get("$ref"), str):
        inner.append(_referred(schema["$ref"], root))
    for each in inner:
        yield from _choices(each, root, depth + 1)
    if _types(schema):
        yield schema


def _referred(reference: str, root: Schema) -> Any:
    """What `#/$defs/Name` refers to; None for what is not in the same schema."""
    group, _, name = reference.removeprefix("#/").partition("/")
    found = root.get(group) if reference.startswith("#/") else None
    return found.get(name) if isinstance(found, Mapping) else None


def _types(schema: Schema) -> set[str]:
    """The JSON types that one schema names, by `type` or by the values of `enum` and `const`."""
    kind = schema.get("type")
    if kind is not None:
        return {kind} if isinstance(kind, str) else set(kind)
    values = [*(schema.get("enum") or ()), *([schema["const"]] if "const" in schema else ())]
    return {_type(value) for value in values}


def _type(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", type(None): "null"}
    return names.get(type(value), "object")


def _value(text: str, choices: list[Schema]) -> Any:
    """Text as it is where a string is allowed or nothing is said; else what it says as JSON, if that is allowed."""
    types = set[str]().union(*map(_types, choices))
    if not types or "string" in types:
        return text
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if _type(value) in types or _is_number(value, types) else text


def _is_number(value: Any, types: set[str]) -> bool:
    """Whether a number is allowed that JSON writes differently: 5 as a number, 5.0 as an integer."""
    return type(value) in (int, float) and not types.isdisjoint(("number", "integer"))
