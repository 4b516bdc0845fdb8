"""Makes a value that fits a JSON Schema, to see whether an expression can read such values.

The value has every member that the schema describes, one item in each array, and the type that the schema names. It is
made for types only: patterns, lengths and ranges are not kept.
Source: JSON Schema 2020-12, core and validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 12
"""Limit on the depth of a value; below it, a schema that refers to itself gives null."""

MAX_MEMBERS = 2000
"""Limit on the members and items of a value."""

_OF_TYPE: Mapping[str, Any] = {"string": "text", "number": 1.5, "integer": 1, "boolean": True, "null": None}


class NoSample(Exception):
    """The schema leaves open which type some part has, or no value can be made of it."""


def make_sample(schema: Any) -> Any:
    """Return a value that fits a schema in its types. Raises NoSample."""
    return _Sampler(schema).make(schema, 0)


class _Sampler:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = MAX_MEMBERS

    def make(self, schema: Any, depth: int) -> Any:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH or self._left < 0:
            raise NoSample
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("enum", "examples"):
            if isinstance(schema.get(key), list) and schema[key]:
                return schema[key][0]
        if "$ref" in schema:
            return self.make(self._target(schema["$ref"]), depth + 1)
        if "allOf" in schema or "if" in schema or "not" in schema:
            raise NoSample
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._one_of(schema[key], depth)
        return self._of_type(schema, depth)

    def _one_of(self, choices: Any, depth: int) -> Any:
        """Return a value of the only choice besides null: of several, an expression may expect any."""
        if not isinstance(choices, list):
            raise NoSample
        others = [one for one in choices if not (isinstance(one, Mapping) and one.get("type") == "null")]
        if len(others) != 1:
            raise NoSample
        return self.make(others[0], depth + 1)

    def _of_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        kind = schema.get("type")
        if isinstance(kind, list):
            named = [one for one in kind if one != "null"]
            kind = named[0] if len(named) == 1 else None
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            first = schema["prefixItems"] if isinstance(schema.get("prefixItems"), list) else []
            items = [self.make(one, depth + 1) for one in first]
            return items or [self.make(schema.get("items"), depth + 1)]
        if not isinstance(kind, str) or kind not in _OF_TYPE:
            raise NoSample
        return _OF_TYPE[kind]

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """Return an object; without described members, or with others of any kind by pattern, its members are open."""
        members = schema.get("properties")
        if not isinstance(members, Mapping) or not members or "patternProperties" in schema:
            raise NoSample
        return {str(name): self.make(one, depth + 1) for name, one in members.items()}

    def _target(self, reference: Any) -> Any:
        found = self._root
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise NoSample
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                raise NoSample
            found = found[key]
        return found
