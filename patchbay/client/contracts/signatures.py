"""A tool as one line: its parameters with their types, choices and defaults, and the type of what it answers.

convert(time: string, zone: "UTC" | "CET", rounds?: integer = 10) -> {difference: string}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from patchbay.client.contracts.schema_types import choices, parts_of, properties_of, required_of, resolved

MOST_CHOICES = 8
MOST_FIELDS = 6
LONGEST_DEFAULT = 40
MAX_TYPE_DEPTH = 3


def signature_of(tool: Mapping[str, Any]) -> str:
    """The one line of a tool. Whatever its schemas hold, this raises nothing."""
    schema = tool.get("inputSchema")
    needed = required_of(schema, schema)
    rows = [_parameter(name, one, schema, name in needed) for name, one in properties_of(schema, schema).items()]
    output = tool.get("outputSchema")
    answers = f" -> {_type(output, output, 0)}" if isinstance(output, dict) else ""
    return f"{tool.get('name')}({', '.join(rows)}){answers}"


def _parameter(name: str, schema: Any, root: Any, needed: bool) -> str:
    found = resolved(schema, root)
    default = ""
    if "default" in found:
        text = json.dumps(found["default"], ensure_ascii=False)
        default = f" = {text if len(text) <= LONGEST_DEFAULT else text[:LONGEST_DEFAULT] + '...'}"
    return f"{name}{'' if needed else '?'}: {_type(schema, root, 0)}{default}"


def _type(schema: Any, root: Any, depth: int) -> str:
    found = resolved(schema, root)
    values = choices(found)
    if values is not None:
        shown = [json.dumps(one, ensure_ascii=False) for one in list(values)[:MOST_CHOICES]]
        return " | ".join(shown + (["..."] if len(values) > MOST_CHOICES else [])) or "never"
    branches = [*parts_of(found, "anyOf"), *parts_of(found, "oneOf")]
    if branches and depth < MAX_TYPE_DEPTH:
        return " | ".join(dict.fromkeys(_type(one, root, depth + 1) for one in branches))
    kind = found.get("type")
    kinds = [one for one in (kind if isinstance(kind, list) else [kind]) if isinstance(one, str)]
    return " | ".join(_named(one, found, root, depth) for one in kinds) or "any"


def _named(kind: str, found: Mapping[str, Any], root: Any, depth: int) -> str:
    if kind == "array" and depth < MAX_TYPE_DEPTH:
        inner = _type(found.get("items", {}), root, depth + 1)
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    fields = properties_of(found, root) if kind == "object" and depth < MAX_TYPE_DEPTH else {}
    if not fields:
        return kind
    rows = [f"{name}: {_type(one, root, depth + 1)}" for name, one in list(fields.items())[:MOST_FIELDS]]
    return "{" + ", ".join(rows + (["..."] if len(fields) > MOST_FIELDS else [])) + "}"
