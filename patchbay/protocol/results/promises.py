"""Says how a result breaks the promise of its tool, in the words of its author.

A tool with an `outputSchema` promises structured content that fits it (MCP specification, server/tools).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from patchbay.arguments import describe_problems
from patchbay.jsonrpc import dump_json
from patchbay.raised.exceptions import shorten

MAX_SHOWN_CHARACTERS = 80
"""Limit on the characters of a returned value in a sentence."""

MAX_SCHEMAS = 1000
"""Limit on the parts of a schema that are read for its types."""

_TYPES: Mapping[str, tuple[str, str]] = {
    "number": ("a number", "float"),
    "integer": ("a whole number", "int"),
    "boolean": ("true or false", "bool"),
    "array": ("a list", "list"),
    "object": ("an object", "dict"),
    "string": ("a text", "str"),
    "null": ("nothing", "None"),
}
"""The words for a JSON type, and its name in Python."""


def describe_broken_promise(
    name: str, schema: Mapping[str, Any], result: Mapping[str, Any], wrong: Sequence[dict[str, str]], language: str
) -> str:
    """Return why a result does not fit the schema of its tool, as a sentence.

    `wrong` are the problems of the structured content, empty when the result has none; in Python, types have their
    names of that `language` too.
    """
    types = _list_types(schema, schema)
    given, returned = _describe_result(result)
    if "structuredContent" in result and (not types or _fits(given, types)):
        return f"the result of {name} does not fit its outputSchema: {describe_problems(list(wrong))}"
    promised = " or ".join(_describe_type(each, language) for each in types) or "a structured result"
    return f"{name} must return {promised}; it returned {returned}"


def _list_types(schema: Any, root: Mapping[str, Any]) -> list[str]:
    """Return the JSON types of a schema, also behind references and branches, each once.

    None where it allows any, and where it has more than MAX_SCHEMAS parts. Each reference is followed once.
    """
    found: dict[str, None] = {}
    followed: set[str] = set()
    waiting = [schema]
    for _ in range(MAX_SCHEMAS):
        if not waiting:
            return list(found)
        one = waiting.pop()
        if not isinstance(one, Mapping):
            continue
        named = one.get("type")
        if named is not None:
            found.update(dict.fromkeys([named] if isinstance(named, str) else named))
            continue
        parts = [*one.get("anyOf", ()), *one.get("oneOf", ())]
        reference = one.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/") and reference not in followed:
            followed.add(reference)
            parts.insert(0, root.get("$defs", {}).get(reference.removeprefix("#/$defs/")))
        waiting.extend(reversed(parts))
        values = [*one.get("enum", ()), *([one["const"]] if "const" in one else [])]
        found.update((_type_of(value), None) for value in values)
    return []


def _describe_type(name: str, language: str) -> str:
    words, of_python = _TYPES.get(name, (name, name))
    return f"{words} ({of_python})" if language == "python" and of_python not in words else words


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def _fits(given: str, types: Sequence[str]) -> bool:
    return given in types or (given == "integer" and "number" in types)


def _describe_result(result: Mapping[str, Any]) -> tuple[str, str]:
    """Return the JSON type of what a tool returned, and the value in words."""
    if "structuredContent" in result:
        value = result["structuredContent"]
        words = "value" if isinstance(value, bool) else _TYPES[_type_of(value)][0].partition(" ")[2]
        return _type_of(
            value
        ), "nothing (null)" if value is None else f"the {words} {shorten(_as_json(value), MAX_SHOWN_CHARACTERS)}"
    blocks = [block for block in result["content"] if isinstance(block, Mapping)]
    if not blocks:
        return "null", "nothing (None)"
    if all(block.get("type") == "text" for block in blocks):
        text = repr("".join(str(block.get("text", "")) for block in blocks))
        return "string", f"the text {shorten(text, MAX_SHOWN_CHARACTERS)}"
    kinds = ", ".join(dict.fromkeys(str(block.get("type")) for block in blocks))
    return "", f"content of the kind {kinds}"


def _as_json(value: Any) -> str:
    return dump_json(value).decode()
