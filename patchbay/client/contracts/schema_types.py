"""What a JSON Schema says about the types of a value, read tolerantly: strangers write these schemas.

Local `$ref`s are followed (a remote one is left alone), boolean schemas are understood, whatever is malformed counts
as saying nothing. Used to give text its type and to compare contracts. Source: JSON Schema 2020-12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Schema = Mapping[str, Any]

ALL_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
MAX_REFERENCES = 32
"""How many references in a row are followed before a schema counts as saying nothing more."""

MAX_COMPOSITION_DEPTH = 200
"""How deep compositions may nest before the rest counts as saying nothing."""

_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def resolve_reference(schema: Any, root: Any) -> Schema:
    """The schema with its local `$ref` followed; keywords beside the reference are kept over it.

    `True` and anything malformed is the empty schema, `False` is `{"not": {}}`.
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
    """What a local reference (`#`, `#/$defs/a`) points to, or None."""
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
    """The JSON types a value may have; all of them when the schema does not say."""
    return _find_types(schema, root, {})


def _find_types(schema: Any, root: Any, known: dict[int, frozenset[str]], depth: int = 0) -> frozenset[str]:
    # Each part of the document is looked at once, however often and in whatever circles it is referred to.
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
    """The schemas in the list under `anyOf`, `oneOf` or `allOf`; none when there is no list."""
    found = schema.get(word)
    return found if isinstance(found, list) else []


def _find_declared_types(schema: Schema) -> frozenset[str]:
    said = schema.get("type")
    types = ALL_TYPES
    if isinstance(said, str):
        types = frozenset({said}) & ALL_TYPES or ALL_TYPES
    elif isinstance(said, list):
        types = frozenset(word for word in said if isinstance(word, str)) & ALL_TYPES or ALL_TYPES
    if "number" in types:
        types |= {"integer"}
    values = list_choices(schema)
    if values is not None:
        types &= frozenset(get_json_type(value) for value in values)
    if schema.get("not") == {}:
        types = frozenset()
    return types


def list_choices(schema: Schema) -> list[Any] | None:
    """The values of `enum` (or the one of `const`), None when the schema names none."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def get_json_type(value: Any) -> str:
    """The JSON type of a JSON value; a float without a fraction is an integer, as JSON Schema has it."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return _JSON_TYPES.get(type(value), "null")


def collect_properties(schema: Any, root: Any) -> dict[str, Any]:
    """The properties of an object schema, those of its `allOf` parts included."""
    found: dict[str, Any] = {}
    for part in reversed(list(_walk_all_of(schema, root))):
        inner = part.get("properties")
        if isinstance(inner, dict):
            found |= {name: value for name, value in inner.items() if isinstance(name, str)}
    return found


def collect_required(schema: Any, root: Any) -> list[str]:
    """The names of the properties that must be there, sorted, those of its `allOf` parts included."""
    names: set[str] = set()
    for part in _walk_all_of(schema, root):
        words = part.get("required")
        if isinstance(words, list):
            names.update(name for name in words if isinstance(name, str))
    return sorted(names)


def _walk_all_of(schema: Any, root: Any) -> Iterator[Schema]:
    """The schema and all that `allOf` joins to it, each once."""
    seen: set[int] = set()
    waiting = [schema]
    while waiting:
        one = waiting.pop(0)
        if id(one) not in seen:
            seen.add(id(one))
            found = resolve_reference(one, root)
            yield found
            waiting += list_branches(found, "allOf")
