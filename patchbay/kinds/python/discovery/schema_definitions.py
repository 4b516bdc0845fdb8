"""`$defs` put in order: what is used once or is small stands where it is used, the rest is shared.

Clients read schemas that say everything in place best; a definition used often, or by itself, has to be shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from patchbay.kinds.python.discovery.literals import ABSENT
from patchbay.kinds.python.discovery.schema_shapes import Schema, union

PREFIX = "#/$defs/"
MAX_REPEATED_VALUES = 16
"""JSON values in a definition that is repeated rather than shared."""


def collect_definitions(
    parts: Mapping[str, Schema], definitions: Mapping[str, Schema]
) -> tuple[dict[str, Schema], Schema]:
    """The parts with references resolved where that is better, and the definitions that are still needed."""
    definitions = {name: {} if _is_endless(name, definitions) else schema for name, schema in definitions.items()}
    uses = Counter(name for schema in (*parts.values(), *definitions.values()) for name in references(schema))
    inline = {name: schema for name, schema in definitions.items() if uses[name] == 1 or _is_small(schema)}
    kept = {name: _resolved(schema, inline) for name, schema in definitions.items() if name not in inline}
    return {name: _resolved(schema, inline) for name, schema in parts.items()}, kept


def rooted(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """A schema complete in itself; a root that is only a reference is written out, so that its type is seen."""
    if not definitions:
        return schema
    while set(schema) == {"$ref"}:
        schema = definitions[_name(schema["$ref"])]
    return {**schema, "$defs": dict(definitions)}


def alternatives_of(schema: Schema, definitions: Mapping[str, Schema]) -> Iterator[Schema]:
    """The schemas of which a value has to fit one, through `anyOf` and references; `{}` for one not known yet."""
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
    """A schema with its default, a JSON value or ABSENT. A null default makes null a value: `x: int = None`."""
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
    """The names of the definitions a schema refers to, as often as it does."""
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
    """Whether a definition is also only itself again (`X = "X | int"`), so that checking a value would never end."""
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
