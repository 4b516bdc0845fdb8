"""Convert text to arguments: each value of a query or form gets the type that its schema asks for.

A value that does not convert stays text, and the schema check then refuses it by name. A repeated name becomes a list
where the schema allows a list, and is refused elsewhere. JSON Schema 2020-12, 6.1.1 and 10.2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from patchbay.arguments import aliases
from patchbay.errors import InvalidParams

MAX_SCHEMA_DEPTH = 16
"""Maximum depth of nested references and alternatives."""

Schema = Mapping[str, Any]


def parse_arguments(pairs: Iterable[tuple[str, str]], schema: Schema) -> dict[str, Any]:
    """Return the arguments by name, from decoded (name, text) pairs and the input schema of a tool.

    Raises InvalidParams for a repeated name whose schema allows no list.
    """
    texts: dict[str, list[str]] = {}
    for name, text in pairs:
        texts.setdefault(name, []).append(text)
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    own = aliases(properties)
    return {name: _argument(name, given, properties.get(own.get(name, name)), schema) for name, given in texts.items()}


def _argument(name: str, given: list[str], wanted: Any, root: Schema) -> Any:
    """Return one argument: a single value where the schema allows it, else the list of all values."""
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
    """Yield the schemas of a value, following alternatives and references inside the schema."""
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
    """Return the target of `#/$defs/Name`; None for a reference outside this schema."""
    group, _, name = reference.removeprefix("#/").partition("/")
    found = root.get(group) if reference.startswith("#/") else None
    return found.get(name) if isinstance(found, Mapping) else None


def _types(schema: Schema) -> set[str]:
    """Return the JSON types that a schema allows, by `type` or by the values of `enum` and `const`."""
    kind = schema.get("type")
    if kind is not None:
        return {kind} if isinstance(kind, str) else set(kind)
    values = [*(schema.get("enum") or ()), *([schema["const"]] if "const" in schema else ())]
    return {_type(value) for value in values}


def _type(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", type(None): "null"}
    return names.get(type(value), "object")


def _value(text: str, choices: list[Schema]) -> Any:
    """Return the text where a string or any type is allowed, else its JSON value if its type is allowed."""
    types = set[str]().union(*map(_types, choices))
    if not types or "string" in types:
        return text
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if _type(value) in types or _is_number(value, types) else text


def _is_number(value: Any, types: set[str]) -> bool:
    """Whether this number is allowed although JSON writes it differently: 5 as a number, 5.0 as an integer."""
    return type(value) in (int, float) and not types.isdisjoint(("number", "integer"))
