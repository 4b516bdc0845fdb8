"""Convert text to JSON by a tool's schema: `id=5` is the number 5 where the schema asks for a number, else the string
"5".

A text is converted only when exactly one reading fits the schema. Where a string is allowed too, or no reading fits, it
stays a string, and the server judges it. Arrays and objects are JSON literals; a repeated key is a list already, and
one plain value for an array is a list of one item.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from patchbay.client.contracts.schema_types import (
    MAX_COMPOSITION_DEPTH,
    collect_properties,
    collect_required,
    find_types,
    get_json_type,
    list_branches,
    list_choices,
    resolve_reference,
)
from patchbay.errors import ParseError
from patchbay.jsonrpc import parse

_LITERAL = re.compile(r"-?[0-9].*|true|false|null|[\[{].*", re.DOTALL)
_BOOLEANS = {"true": True, "false": False}


def coerce_arguments(arguments: Mapping[str, str | list[str]], input_schema: Any) -> dict[str, Any]:
    """Convert arguments to JSON values. Without a schema (None) they stay as they are. Raises nothing."""
    if not isinstance(input_schema, dict):
        return dict(arguments)
    known = collect_properties(input_schema, input_schema)
    others = resolve_reference(input_schema, input_schema).get("additionalProperties")
    return {name: _coerce_value(given, known.get(name, others), input_schema) for name, given in arguments.items()}


def coerce_record(record: Mapping[str, Any], input_schema: Any) -> dict[str, Any]:
    """Convert a record to arguments: text is converted as in a query where the schema allows no text, as for table
    cells.

    An empty text for an optional argument that allows no empty text is left out, as an empty cell is. Raises nothing.
    """
    texts = {name: value for name, value in record.items() if isinstance(value, str)}
    found = {**record, **coerce_arguments(texts, input_schema)}
    if not isinstance(input_schema, dict):
        return found
    known, needed = collect_properties(input_schema, input_schema), collect_required(input_schema, input_schema)
    empty = {
        name
        for name in known.keys() - set(needed)
        if record.get(name) == "" and _excludes_empty_text(known[name], input_schema, set())
    }
    return {name: value for name, value in found.items() if name not in empty}


def _excludes_empty_text(schema: Any, root: Any, read: set[int]) -> bool:
    """Whether a schema names types without text, or texts without the empty one (`enum`, `const`, `minLength`).

    `read` has the identities of the parts that are read: each part is read once, also when references form cycles.
    """
    if not isinstance(schema, dict) or id(schema) in read or len(read) > MAX_COMPOSITION_DEPTH:
        return False
    read.add(id(schema))
    if "string" not in find_types(schema, root):
        return True
    found = resolve_reference(schema, root)
    choices, shortest = list_choices(found), found.get("minLength")
    if (choices is not None and "" not in choices) or (isinstance(shortest, int) and shortest > 0):
        return True
    for word in ("anyOf", "oneOf"):
        branches = list_branches(found, word)
        if branches and all(_excludes_empty_text(branch, root, read) for branch in branches):
            return True
    return any(_excludes_empty_text(branch, root, read) for branch in list_branches(found, "allOf"))


def _coerce_value(given: str | list[str], schema: Any, root: Any, inside: bool = False) -> Any:
    if not isinstance(schema, dict):
        return given
    wanted = find_types(schema, root)
    if isinstance(given, list):
        items = _get_item_schema(schema, root) if "array" in wanted else schema
        return [_coerce_value(one, items, root, inside=True) for one in given]
    if "string" in wanted:
        return given
    found = _parse_literal(given)
    if found is not None and get_json_type(found[0]) in wanted:
        return _match_choice(found[0], schema, root)
    if given.lower() in _BOOLEANS and "boolean" in wanted:
        return _BOOLEANS[given.lower()]
    if not inside and wanted & {"array", "object"} == {"array"} and not given.lstrip().startswith("["):
        return [_coerce_value(given, _get_item_schema(schema, root), root, inside=True)]
    return given


def _get_item_schema(schema: Any, root: Any) -> Any:
    found = resolve_reference(schema, root)
    if "items" in found:
        return found["items"]
    for word in ("anyOf", "oneOf"):
        for branch in list_branches(found, word):
            inner = resolve_reference(branch, root)
            if "items" in inner:
                return inner["items"]
    return None


def _parse_literal(text: str) -> tuple[Any] | None:
    """Parse a text that is a JSON literal, and return its value in a tuple; None for other text."""
    if not _LITERAL.fullmatch(text):
        return None
    try:
        return (parse(text.encode("utf-8", "replace")),)
    except ParseError:
        return None


def _match_choice(value: Any, schema: Any, root: Any) -> Any:
    """Return a number as the schema lists it: 1.0 for 1 where the enum has 1.0."""
    for choice in list_choices(resolve_reference(schema, root)) or ():
        if type(choice) is not bool and choice == value:
            return choice
    return value
