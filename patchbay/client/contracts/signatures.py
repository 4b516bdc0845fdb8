"""Format a tool as one line: its parameters with types, choices and defaults, and the type of its output.

convert(time: string, zone: "UTC" | "CET", rounds?: integer = 10) -> {difference: string}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from patchbay.client.contracts.schema_types import (
    collect_properties,
    collect_required,
    list_branches,
    list_choices,
    resolve_reference,
)

MAX_SHOWN_CHOICES = 8
MAX_SHOWN_FIELDS = 6
MAX_DEFAULT_CHARACTERS = 40
MAX_SHOWN_DEPTH = 3


def format_signature(tool: Mapping[str, Any]) -> str:
    """Format the one line of a tool. Raises nothing, for any schema."""
    schema = tool.get("inputSchema")
    needed = collect_required(schema, schema)
    rows = [
        _format_parameter(name, one, schema, name in needed) for name, one in collect_properties(schema, schema).items()
    ]
    output = tool.get("outputSchema")
    answers = f" -> {_format_type(output, output, 0)}" if isinstance(output, dict) else ""
    return f"{tool.get('name')}({', '.join(rows)}){answers}"


def _format_parameter(name: str, schema: Any, root: Any, needed: bool) -> str:
    found = resolve_reference(schema, root)
    default = ""
    if "default" in found:
        text = json.dumps(found["default"], ensure_ascii=False)
        default = f" = {text if len(text) <= MAX_DEFAULT_CHARACTERS else text[:MAX_DEFAULT_CHARACTERS] + '...'}"
    return f"{name}{'' if needed else '?'}: {_format_type(schema, root, 0)}{default}"


def _format_type(schema: Any, root: Any, depth: int) -> str:
    found = resolve_reference(schema, root)
    values = list_choices(found)
    if values is not None:
        shown = [json.dumps(one, ensure_ascii=False) for one in list(values)[:MAX_SHOWN_CHOICES]]
        return " | ".join(shown + (["..."] if len(values) > MAX_SHOWN_CHOICES else [])) or "never"
    branches = [*list_branches(found, "anyOf"), *list_branches(found, "oneOf")]
    if branches and depth < MAX_SHOWN_DEPTH:
        return " | ".join(dict.fromkeys(_format_type(one, root, depth + 1) for one in branches))
    kind = found.get("type")
    kinds = [one for one in (kind if isinstance(kind, list) else [kind]) if isinstance(one, str)]
    return " | ".join(_format_named_type(one, found, root, depth) for one in kinds) or "any"


def _format_named_type(kind: str, found: Mapping[str, Any], root: Any, depth: int) -> str:
    if kind == "array" and depth < MAX_SHOWN_DEPTH:
        inner = _format_type(found.get("items", {}), root, depth + 1)
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    fields = collect_properties(found, root) if kind == "object" and depth < MAX_SHOWN_DEPTH else {}
    if not fields:
        return kind
    rows = [f"{name}: {_format_type(one, root, depth + 1)}" for name, one in list(fields.items())[:MAX_SHOWN_FIELDS]]
    return "{" + ", ".join(rows + (["..."] if len(fields) > MAX_SHOWN_FIELDS else [])) + "}"
