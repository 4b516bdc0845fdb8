"""The difference between the names of given arguments and those of a tool, as sentences for people."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from patchbay.client.contracts.schema_types import collect_properties, collect_required, resolve_reference
from patchbay.client.contracts.signatures import format_signature
from patchbay.suggestions import describe_unknown_name


def describe_wrong_arguments(tool: Mapping[str, Any], given: Collection[str]) -> str:
    """Name the given arguments that a tool does not have, with similar names; otherwise the missing required ones.

    The last sentence is the signature of the tool. Returns "" when the names fit, or when the schema of the tool allows
    other names. Raises nothing, for any schema.
    """
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return ""
    known, needed = list(collect_properties(schema, schema)), collect_required(schema, schema)
    found = resolve_reference(schema, schema)
    others = found.get("additionalProperties", not known)
    is_open = others is not False or "patternProperties" in found
    unknown = [] if is_open else [name for name in given if name not in known]
    rows = [describe_unknown_name(name, known, "argument") for name in unknown]
    rows = rows or [f"the argument {name!r} is missing" for name in sorted(set(needed) - set(given))]
    if not rows:
        return ""
    text = "; ".join(rows).replace("?;", "?")
    return f"{text}{'' if text.endswith('?') else '.'} The tool is {format_signature(tool)}"
