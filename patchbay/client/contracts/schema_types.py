"""The types that a JSON Schema allows, read tolerantly, because these schemas come from other parties.

Local `$ref`s are followed (a remote one is not), boolean schemas are understood, malformed keywords are ignored. Used
to convert text to its type and to compare contracts.

Source: JSON Schema 2020-12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Schema = Mapping[str, Any]

ALL_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
MAX_REFERENCES = 32
"""References in a row that are followed; the rest of a schema is ignored."""

MAX_COMPOSITION_DEPTH = 200
"""Depth of nested compositions that are read; deeper ones are ignored."""

_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def resolve_reference(schema: Any, root: Any) -> Schema:
    """Follow the local `$ref` of a schema; keywords beside the reference win.

    `True` and malformed schemas give the empty schema, `False` gives `{"not": {}}`.
    """
    if schema is False:
        return {"not": {}}
    found = schema if isinstance(schema, dict) else {}
    for _ in range(MAX_REFERENCES):
        ref = found.get("$ref")
        target = follow_pointer(root, ref) if isinstance(ref, str) else None
        if not isinstance(target, dict):
            return found
        beside = {key: value for key, value in found.items() if key != "$ref"}
        found = {**target, **beside}
    return {key: value for key, value in found.items() if key != "$ref"}


def follow_pointer(root: Any, ref: str) -> Any:
    """Get the value at a local reference (`#`, `#/$defs/a`), or None."""
    if not ref.startswith("#"):
        return None
    place = root
    for part in ref[1:].split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and key.isascii() and key.isdigit() and int(key) < len(place):
            place = place[int(key)]
        elif isinstance(place, dict) and key in place:
            place = place[key]
        else:
            return None
    return place if ref == "#" or ref.startswith("#/") else None


def find_types(schema: Any, root: Any) -> frozenset[str]:
    """Find the JSON types that a value may have; all types when the schema does not restrict them."""
    return _find_types(schema, root, {})


def _find_types(schema: Any, root: Any, known: dict[int, frozenset[str]], depth: int = 0) -> frozenset[str]:
    # Each part of the document is read once, also when references form cycles.
    if depth > MAX_COMPOSITION_DEPTH:
        return ALL_TYPES
    before = known.get(id(schema)) if isinstance(schema, dict) else None
    if before is not None:
        return before
    known[id(schema)] = frozenset()
    found = resolve_reference(schema, root)
    allowed = _find_declared_types(found)
    for word in ("anyOf", "oneOf"):
        branches = list_branches(found, word)
        if branches:
            allowed &= frozenset().union(*(_find_types(branch, root, known, depth + 1) for branch in branches))
    for part in list_branches(found, "allOf"):
        allowed &= _find_types(part, root, known, depth + 1)
    known[id(schema)] = allowed
    return allowed


def list_branches(schema: Schema, word: str) -> list[Any]:
    """List the schemas under `anyOf`, `oneOf` or `allOf`; [] without a list."""
    found = schema.get(word)
    return found if isinstance(found, list) else []


def _find_declared_types(schema: Schema) -> frozenset[str]:
    declared = schema.get("type")
    types = ALL_TYPES
    if isinstance(declared, str):
        types = frozenset({declared}) & ALL_TYPES or ALL_TYPES
    elif isinstance(declared, list):
        types = frozenset(word for word in declared if isinstance(word, str)) & ALL_TYPES or ALL_TYPES
    if "number" in types:
        types |= {"integer"}
    values = list_choices(schema)
    if values is not None:
        types &= frozenset(get_json_type(value) for value in values)
    if schema.get("not") == {}:
        types = frozenset()
    return types


def list_choices(schema: Schema) -> list[Any] | None:
    """List the values of `enum` (or the one of `const`); None when the schema has neither."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def get_json_type(value: Any) -> str:
    """Get the JSON type of a value; a float without a fraction is an integer (JSON Schema 2020-12)."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return _JSON_TYPES.get(type(value), "null")


def collect_properties(schema: Any, root: Any) -> dict[str, Any]:
    """Collect the properties of an object schema, with those of its `allOf` parts."""
    found: dict[str, Any] = {}
    for part in reversed(list(_walk_all_of(schema, root))):
        inner = part.get("properties")
        if isinstance(inner, dict):
            found |= {name: value for name, value in inner.items() if isinstance(name, str)}
    return found


def collect_required(schema: Any, root: Any) -> list[str]:
    """Collect the names of the required properties, sorted, with those of its `allOf` parts."""
    names: set[str] = set()
    for part in _walk_all_of(schema, root):
        words = part.get("required")
        if isinstance(words, list):
            names.update(name for name in words if isinstance(name, str))
    return sorted(names)


def _walk_all_of(schema: Any, root: Any) -> Iterator[Schema]:
    """Give the schema and all schemas that `allOf` joins to it, each once."""
    seen: set[int] = set()
    waiting = [schema]
    while waiting:
        one = waiting.pop(0)
        if id(one) not in seen:
            seen.add(id(one))
            found = resolve_reference(one, root)
            yield found
            waiting += list_branches(found, "allOf")
