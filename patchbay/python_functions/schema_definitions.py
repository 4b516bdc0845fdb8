"""Arrange `$defs`: a definition that is used once or is small is inlined, the others are shared.

Clients read schemas without references best; a definition that is repeated or recursive must be shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from patchbay.python_functions.literals import ABSENT
from patchbay.python_functions.schema_shapes import Schema, union

PREFIX = "#/$defs/"
MAX_REPEATED_VALUES = 16
"""Maximum number of JSON values in a definition that is repeated rather than shared."""


def collect_definitions(
    parts: Mapping[str, Schema], definitions: Mapping[str, Schema]
) -> tuple[dict[str, Schema], Schema]:
    """Return the parts with inlined references, and the definitions that are still needed."""
    definitions = {name: {} if _is_endless(name, definitions) else schema for name, schema in definitions.items()}
    uses = Counter(name for schema in (*parts.values(), *definitions.values()) for name in references(schema))
    inline = {name: schema for name, schema in definitions.items() if uses[name] == 1 or _is_small(schema)}
    kept = {name: _resolved(schema, inline) for name, schema in definitions.items() if name not in inline}
    return {name: _resolved(schema, inline) for name, schema in parts.items()}, kept


def with_definitions(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return a complete schema; a root that is only a reference is inlined, so that its type is visible."""
    if not definitions:
        return schema
    while set(schema) == {"$ref"}:
        schema = definitions[_name(schema["$ref"])]
    return {**schema, "$defs": dict(definitions)}


def alternatives_of(schema: Schema, definitions: Mapping[str, Schema]) -> Iterator[Schema]:
    """Yield the alternatives of a schema, through `anyOf` and references; `{}` for one that is not known yet."""
    seen: set[str] = set()
    waiting = [schema]
    while waiting:
        current = waiting.pop()
        waiting.extend(current.get("anyOf", ()))
        if "$ref" in current and (name := _name(current["$ref"])) not in seen:
            seen.add(name)
            waiting.append(definitions[name])
        if "anyOf" not in current and "$ref" not in current:
            yield current


def with_default(schema: Schema, default: Any, definitions: Mapping[str, Schema]) -> Schema:
    """Return a schema with its default, a JSON value or ABSENT. A null default allows null: `x: int = None`."""
    if default is ABSENT:
        return schema
    if default is None and not any(_takes_null(leaf) for leaf in alternatives_of(schema, definitions)):
        schema = union([schema, {"type": "null"}])
    return {**schema, "default": default}


def _takes_null(leaf: Schema) -> bool:
    named = leaf.get("type", ())
    listed = leaf.get("enum", [leaf["const"]] if "const" in leaf else ())
    return not leaf or named == "null" or None in listed


def references(schema: Any) -> Iterator[str]:
    """Yield the names of the definitions a schema refers to, with repetitions."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield _name(value["$ref"])
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _is_endless(name: str, definitions: Mapping[str, Schema]) -> bool:
    """Whether a definition refers to itself without an object between (`X = "X | int"`), so that validation would not
    end.
    """
    seen: set[str] = set()
    waiting = [definitions[name]]
    while waiting:
        schema = waiting.pop()
        waiting.extend(schema.get("anyOf", ()))
        if "$ref" in schema and (following := _name(schema["$ref"])) not in seen:
            seen.add(following)
            waiting.append(definitions[following])
    return name in seen


def _name(reference: str) -> str:
    return unquote(reference.removeprefix(PREFIX))


def _is_small(schema: Schema) -> bool:
    count, waiting = 0, [schema]
    while waiting and count <= MAX_REPEATED_VALUES:
        value: Any = waiting.pop()
        count += 1
        if isinstance(value, dict):
            if "$ref" in value:
                return False
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return count <= MAX_REPEATED_VALUES


def _resolved(value: Any, inline: Mapping[str, Schema]) -> Any:
    if isinstance(value, list):
        return [_resolved(item, inline) for item in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str) and _name(reference) in inline:
        beside = {name: item for name, item in value.items() if name != "$ref"}
        return _resolved({**inline[_name(reference)], **beside}, inline)
    return {name: _resolved(item, inline) for name, item in value.items()}
