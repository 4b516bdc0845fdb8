"""Update a profile to its server's present tools: renamed, added and dropped tools and parameters, and the new hash.

Pure: takes a profile and the server's present tools. The author's own words (descriptions, notes, output formats, other
fields) stay; schemas become the server's. Renamed parameters are renamed in examples and references too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote_plus

from patchbay.client.contracts.contract import compute_contract_cid, compute_schema_hash, list_recorded_tools
from patchbay.client.contracts.drift import ContractChange, Tool, detect_schema_changes, index_tools
from patchbay.client.profiles.layouts import Profile

_RENAMED_TOOL = re.compile(r": Renamed to '(.+)'$", re.DOTALL)
_RENAMED = re.compile(r": (?:Required|Optional) parameter '(.+)' renamed to '(.+)'$", re.DOTALL)
_PARAMETER = re.compile(r"/inputSchema/properties/[^/]+")

RECORDED_FIELDS = ("description", "inputSchema", "outputSchema")
"""The fields that a profile records of a tool that it did not have before."""


@dataclass(frozen=True)
class ProfileUpdate:
    """The new profile, the changes that were found, and the steps taken, as sentences."""

    profile: Profile
    changes: tuple[ContractChange, ...]
    steps: tuple[str, ...]


def find_changes(profile: Profile, tools: Sequence[Tool], before: Sequence[Tool] | None = None) -> list[ContractChange]:
    """Find the server's changes since the profile was written, from the stored snapshot when there is one."""
    return detect_schema_changes(before if before is not None else list_recorded_tools(profile, tools), tools)


def update_profile(
    profile: Profile,
    tools: Sequence[Tool],
    before: Sequence[Tool] | None = None,
    everything: bool = False,
    examples: bool = True,
) -> ProfileUpdate:
    """Update a profile to the server's present contract.

    Without `before` (the stored snapshot) changes are found among the recorded tools. `everything` also records tools
    that the profile does not have; `examples` applies renames to examples and to `tested_with`.
    """
    known = set(profile.tools)
    found = [change for change in find_changes(profile, tools, before) if before is not None or change.tool in known]
    tool_names, parameters = collect_renames(found)
    present = index_tools(tools)
    steps: list[str] = []
    updated_tools: dict[str, dict[str, Any]] = {}
    for name, tool in profile.tools.items():
        now = tool_names.get(name, name)
        if now not in present:
            steps.append(f"Drop the tool '{name}', which the server no longer has")
            continue
        if now != name:
            steps.append(f"Rename the tool '{name}' to '{now}'")
        renamed = parameters.get(now, {})
        steps += [f"Update profile to use '{new}' instead of '{old}'" for old, new in renamed.items()]
        steps += _list_parameter_steps(tool, present[now], renamed)
        updated_tools[now] = _update_tool(tool, present[now], renamed if examples else {})
    for name in sorted(present.keys() - updated_tools.keys()) if everything or not known else ():
        if everything:
            steps.append(f"Record the tool '{name}'")
            updated_tools[name] = {
                key: present[name][key] for key in RECORDED_FIELDS if present[name].get(key) is not None
            }
    fields = {**profile.fields, **make_contract_fields(tools, updated_tools)}
    if examples and "tested_with" in fields:
        fields["tested_with"] = [rename_in_reference(one, tool_names, parameters) for one in fields["tested_with"]]
    steps.append("Recalculate schema hash")
    return ProfileUpdate(
        replace(profile, tools=dict(sorted(updated_tools.items())), fields=fields), tuple(found), tuple(steps)
    )


def record_contract(profile: Profile, tools: Sequence[Tool], wanted: Collection[str] = ()) -> Profile:
    """Make a new profile with the server's tools (only those in `wanted`, if any) and the contract expected of it."""
    recorded = {
        tool["name"]: {key: tool[key] for key in RECORDED_FIELDS if tool.get(key) is not None}
        for tool in tools
        if not wanted or tool["name"] in wanted
    }
    return replace(profile, tools=recorded, fields={**profile.fields, **make_contract_fields(tools, recorded)})


def make_contract_fields(tools: Sequence[Tool], recorded: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Make the fields of a profile that record the expected contract."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "schema_hash": compute_schema_hash(tools, recorded or None),
        "schema_cid": compute_contract_cid(tools),
        "schema_updated": now,
    }


def collect_renames(changes: Sequence[ContractChange]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Collect the renames: old to new tool, and by the new tool's name old to new parameter."""
    tools: dict[str, str] = {}
    parameters: dict[str, dict[str, str]] = {}
    for change in changes:
        if change.path == "/name" and (found := _RENAMED_TOOL.search(change.sentence)):
            tools[change.tool] = found[1]
        elif _PARAMETER.fullmatch(change.path) and (found := _RENAMED.search(change.sentence)):
            parameters.setdefault(change.tool, {})[found[1]] = found[2]
    return tools, parameters


def _list_parameter_steps(tool: Mapping[str, Any], now: Tool, renamed: Mapping[str, str]) -> list[str]:
    old = _get_properties(tool.get("inputSchema"))
    new = _get_properties(now.get("inputSchema"))
    if "inputSchema" not in tool:
        return []
    schema = now.get("inputSchema")
    needed = schema.get("required", ()) if isinstance(schema, dict) else ()
    added = [name for name in new if name not in old and name not in renamed.values()]
    steps = [f"Add '{name}' parameter as {'required' if name in needed else 'optional'}" for name in added]
    return steps + [f"Drop '{name}' parameter" for name in old if name not in new and name not in renamed]


def _get_properties(schema: Any) -> Mapping[str, Any]:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _update_tool(tool: Mapping[str, Any], now: Tool, renamed: Mapping[str, str]) -> dict[str, Any]:
    found = dict(tool)
    if "inputSchema" in found:
        found["inputSchema"] = now.get("inputSchema", {"type": "object"})
    if "outputSchema" in found and now.get("outputSchema") is not None:
        found["outputSchema"] = now["outputSchema"]
    if "examples" in found:
        found["examples"] = rename_in_examples(found["examples"], renamed)
    return found


def rename_in_examples(examples: Any, renamed: Mapping[str, str]) -> Any:
    """Replace old names of parameters in a tool's `examples`."""
    return [_rename_in_example(one, renamed) for one in examples] if isinstance(examples, list) else examples


def _rename_in_example(example: Any, renamed: Mapping[str, str]) -> Any:
    given = example.get("input") if isinstance(example, dict) else None
    if not isinstance(given, dict):
        return example
    return {**example, "input": {renamed.get(key, key): value for key, value in given.items()}}


def rename_in_reference(text: str, tools: Mapping[str, str], parameters: Mapping[str, Mapping[str, str]]) -> str:
    """Replace old names of tools and, by tool, of parameters in a reference such as `search?gene=BRAF`."""
    place, mark, query = text.partition("?")
    start, slash, tool = place.rpartition("/")
    tool = tools.get(tool, tool)
    names = parameters.get(tool, {})
    pieces = []
    for piece in query.split("&") if mark else []:
        key, equals, value = piece.partition("=")
        plain = unquote_plus(key).removeprefix("arg.")
        new = names.get(plain)
        pieces.append(piece if new is None else f"{quote(new, safe='')}{equals}{value}")
    return f"{start}{slash}{tool}{mark}{'&'.join(pieces)}"
