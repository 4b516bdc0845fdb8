"""Text to JSON by a tool's schema: `id=5` is the number 5 where a number is wanted, else the string "5" (JN-C13).

Rules: a text becomes something else only where exactly one reading fits the schema. Where a string is allowed too, or
nothing fits, it stays a string, and the server says what it thinks of it. Arrays and objects are JSON literals;
a repeated key is a list already, and one plain value for an array is a list of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from patchbay.client.schema_types import choices, parts_of, properties_of, resolved, type_of, types_of
from patchbay.errors import ParseError
from patchbay.jsonrpc import parse

_LITERAL = re.compile(r"-?[0-9].*|true|false|null|[\[{].*", re.DOTALL)
_WORDS = {"true": True, "false": False}


def coerced(arguments: Mapping[str, str | list[str]], input_schema: Any) -> dict[str, Any]:
    """Arguments as JSON values. Without a schema (None) everything stays as it is. Raises nothing."""
    if not isinstance(input_schema, dict):
        return dict(arguments)
    known = properties_of(input_schema, input_schema)
    others = resolved(input_schema, input_schema).get("additionalProperties")
    return {name: _value(given, known.get(name, others), input_schema) for name, given in arguments.items()}


def _value(given: str | list[str], schema: Any, root: Any, inside: bool = False) -> Any:
    if not isinstance(schema, dict):
        return given
    wanted = types_of(schema, root)
    if isinstance(given, list):
        items = _items(schema, root) if "array" in wanted else schema
        return [_value(one, items, root, inside=True) for one in given]
    if "string" in wanted:
        return given
    found = _literal(given)
    if found is not None and type_of(found[0]) in wanted:
        return _chosen(found[0], schema, root)
    if given.lower() in _WORDS and "boolean" in wanted:
        return _WORDS[given.lower()]
    if not inside and wanted & {"array", "object"} == {"array"} and not given.lstrip().startswith("["):
        return [_value(given, _items(schema, root), root, inside=True)]
    return given


def _items(schema: Any, root: Any) -> Any:
    found = resolved(schema, root)
    if "items" in found:
        return found["items"]
    for word in ("anyOf", "oneOf"):
        for branch in parts_of(found, word):
            inner = resolved(branch, root)
            if "items" in inner:
                return inner["items"]
    return None


def _literal(text: str) -> tuple[Any] | None:
    """The JSON value a text is a literal of, in a tuple, or None."""
    if not _LITERAL.fullmatch(text):
        return None
    try:
        return (parse(text.encode("utf-8", "replace")),)
    except ParseError:
        return None


def _chosen(value: Any, schema: Any, root: Any) -> Any:
    """A number in the spelling the schema lists it: 1 where the enum has 1.0."""
    for choice in choices(resolved(schema, root)) or ():
        if type(choice) is not bool and choice == value:
            return choice
    return value
