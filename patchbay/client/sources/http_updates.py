"""Update an `http` profile to its API, as `profiles/updates.py` updates tools.

An endpoint keeps its name, its notes, its pagination and its defaults; the name, method, path and parameters of its
operation become the API's. An endpoint stays where it is written (`endpoints`, or a file of its own).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from patchbay.client.contracts.drift import Tool
from patchbay.client.openapi.operations import Operation
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.updates import (
    ProfileUpdate,
    collect_renames,
    rename_in_examples,
    rename_in_reference,
    update_profile,
)
from patchbay.client.sources.http_profiles import add_endpoint_tools, collect_endpoints, find_operation_name

Row = dict[str, Any]


def update_endpoints(
    profile: Profile,
    operations: Mapping[str, Operation],
    before: Sequence[Tool] | None = None,
    everything: bool = False,
    examples: bool = True,
) -> ProfileUpdate:
    """Update a profile to the API's present contract; arguments as in `update_profile`. Raises ProfileError."""
    rows = collect_endpoints(profile)
    tools = [dict(one.tool) for one in operations.values()]
    plan = update_profile(
        _remove_references(add_endpoint_tools(profile, operations)), tools, before, everything, examples
    )
    tool_names, parameters = collect_renames(plan.changes)
    left = dict(plan.profile.tools)
    updated_rows: dict[str, Row] = {}
    renamed: dict[str, dict[str, str]] = {}
    for name, row in rows.items():
        old = find_operation_name(name, row, operations)
        now = tool_names.get(old, old)
        if now in plan.profile.tools:
            renamed[name] = parameters.get(now, {})
            updated_rows[name] = _update_endpoint(name, row, operations[now], renamed[name], examples)
            left.pop(now, None)
    inside = {name: row for name, row in updated_rows.items() if name not in profile.tools}
    files = {name: row for name, row in updated_rows.items() if name in profile.tools} | left
    fields = {key: value for key, value in plan.profile.fields.items() if key != "endpoints"}
    if inside:
        fields["endpoints"] = inside
    references = profile.fields.get("tested_with")
    if references is not None:
        fields["tested_with"] = [rename_in_reference(one, {}, renamed) if examples else one for one in references]
    return replace(plan, profile=replace(profile, tools=dict(sorted(files.items())), fields=fields))


def _remove_references(profile: Profile) -> Profile:
    """Return the profile without `tested_with`, which has names of endpoints where tools have names of operations."""
    return replace(profile, fields={key: value for key, value in profile.fields.items() if key != "tested_with"})


def _update_endpoint(name: str, row: Row, operation: Operation, renamed: Mapping[str, str], examples: bool) -> Row:
    """Update an endpoint to its present operation."""
    found = dict(row)
    if "outputSchema" in row and "outputSchema" in operation.tool:
        found["outputSchema"] = operation.tool["outputSchema"]
    if "inputSchema" in row:
        found["inputSchema"] = _keep_defaults(operation.tool["inputSchema"], row["inputSchema"], renamed)
    if "examples" in row and examples:
        found["examples"] = rename_in_examples(row["examples"], renamed)
    present = {"path": operation.path, "method": operation.method.upper()}
    found |= {key: value for key, value in present.items() if key in row}
    found.pop("operation", None)
    return found if operation.name == name else {**found, "operation": operation.name}


def _keep_defaults(schema: Row, recorded: Row, renamed: Mapping[str, str]) -> Row:
    """Replace the defaults of a schema by those that the profile recorded: they are sent, so the API's own are not
    needed.
    """
    defaults = {
        renamed.get(key, key): one["default"]
        for key, one in recorded.get("properties", {}).items()
        if isinstance(one, dict) and "default" in one
    }
    properties = {}
    for key, one in schema.get("properties", {}).items():
        bare = {word: value for word, value in one.items() if word != "default"} if isinstance(one, dict) else one
        properties[key] = {**bare, "default": defaults[key]} if key in defaults and isinstance(bare, dict) else bare
    return {**schema, "properties": properties}
