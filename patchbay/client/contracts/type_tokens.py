"""Types of parameters in a comparable form: what of a schema decides which values it takes."""

from __future__ import annotations

from typing import Any

from patchbay.client.contracts.canonical_json import encode_canonical_json
from patchbay.client.contracts.drift import Tool
from patchbay.client.contracts.schema_types import (
    collect_properties,
    collect_required,
    list_branches,
    list_choices,
    resolve_reference,
)

MAX_TYPE_PARTS = 1_000
MAX_TYPE_DEPTH = 100
"""Parts of one parameter's schema that go into its type, and their depth."""


def describe_parameters(tool: Tool) -> dict[str, dict[str, Any]]:
    """Describe the parameters of a tool by name, as JN's `explore` does: `type` and whether they are `required`."""
    schema = tool.get("inputSchema")
    required = collect_required(schema, schema)
    return {
        name: {"type": make_type_token(one, schema, simple=True), "required": name in required}
        for name, one in collect_properties(schema, schema).items()
    }


def make_type_token(schema: Any, root: Any, simple: bool = False) -> Any:
    """Extract the type of a parameter from its schema: the structural keywords, references resolved; "any" without one.

    `simple` is JN's rule: the value of `type` alone wherever there is one.
    """
    found = resolve_reference(schema, root)
    if simple and isinstance(found.get("type"), str | list):
        return found["type"]
    token = _extract_structure(schema, root, frozenset(), [MAX_TYPE_PARTS])
    return encode_canonical_json(token).decode() if token else "any"


def _extract_structure(schema: Any, root: Any, above: frozenset[int], left: list[int]) -> dict[str, Any]:
    left[0] -= 1
    if id(schema) in above or left[0] < 0 or len(above) > MAX_TYPE_DEPTH:
        return {"$ref": "..."}
    above |= {id(schema)}
    found = resolve_reference(schema, root)
    token: dict[str, Any] = {"type": found["type"]} if "type" in found else {}
    values = list_choices(found)
    if values is not None:
        token["enum"] = sorted(values, key=encode_canonical_json)
    for word in ("anyOf", "oneOf"):
        if list_branches(found, word):
            token[word] = [_extract_structure(part, root, above, left) for part in list_branches(found, word)]
    if "items" in found:
        token["items"] = _extract_structure(found["items"], root, above, left)
    return token
