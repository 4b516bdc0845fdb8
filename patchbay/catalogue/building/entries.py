"""Make a Descriptor from one entry of a configuration or of a transform.

The wire form has no nulls and only the fields of MCP; the target says how it runs. An entry that cannot run raises
ConfigError, and its list continues without it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from patchbay.arguments import describe_problems, problems, validator
from patchbay.catalogue.reading.uri_templates import compile_template
from patchbay.cid import canonical
from patchbay.config import SOURCES
from patchbay.descriptors import Descriptor, Source
from patchbay.errors import BadCid, ConfigError
from patchbay.kind import EntryContext as EntryContext
from patchbay.kind import kind_named
from patchbay.occurrences.event_types import CHANGE_SCHEMA, event_type
from patchbay.occurrences.timetables import Timetable

HUB_SCHEMES = ("cid://", "variable://", "server://")
"""URI schemes that the hub itself reads."""

SCHEDULE: dict[str, Any] = {"schedule": "", "timezone": "UTC", "arguments": {}, "max_delay": 3600}
"""The fields of a tool that say when it runs by itself, with their defaults."""

_TOOL = ("title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta")
_DISCOVERED = ("title", "description", "inputSchema", "outputSchema", "_meta")
_RESOURCE = ("title", "description", "mimeType", "annotations", "icons", "size", "_meta")
_PROMPT = ("title", "description", "arguments", "icons", "_meta")


def make_tool(context: EntryContext, name: str, entry: Mapping[str, Any], source: Source) -> Descriptor:
    """Make a tool. A static tool takes the fields it omits from the discovered function it runs.

    Without a schema it accepts any object. Raises ConfigError without a function or command that runs it.
    """
    target = kind_named(context.kind).tool_target(context, name, entry)
    if source == "static" and "argv" not in entry:
        known = context.found.get(target.get("function", name), {})
        entry = _select(known, _DISCOVERED) | {key: value for key, value in entry.items() if value is not None}
        if known:
            # The discovered schema may determine the target.
            target = kind_named(context.kind).tool_target(context, name, entry)
    wire: dict[str, Any] = {"name": name, "inputSchema": {"type": "object"}} | _select(entry, _TOOL)
    wire["inputSchema"] = _order_properties(wire["inputSchema"], context.functions.get(target.get("function", ""), ()))
    if "timeout" in entry:
        target["timeout"] = entry["timeout"]
    if entry.get("approve"):
        target["approve"] = True
    if entry.get("job"):
        target["job"] = True
    if "schedule" in entry:
        target["schedule"] = _schedule(context, name, entry, wire["inputSchema"])
    return Descriptor("tool", name, with_annotations(wire, context.config), target, source)


def _schedule(context: EntryContext, name: str, entry: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schedule of a tool with all its fields. Raises ConfigError for a wrong time or wrong arguments."""
    found = {key: entry.get(key, default) for key, default in SCHEDULE.items()}
    wrong = Timetable(found["schedule"], found["timezone"]).check()
    if wrong is not None:
        raise ConfigError(context.where, f"tools.{name}.schedule", wrong)
    unfit = problems(validator(schema), found["arguments"])
    if unfit:
        raise ConfigError(context.where, f"tools.{name}.arguments", f"do not fit the tool: {describe_problems(unfit)}")
    return found


def _order_properties(schema: Mapping[str, Any], parameters: Sequence[str]) -> Mapping[str, Any]:
    """Order the properties of a schema like the function's parameters, because positional `params` bind in this order.

    A property takes the place of the parameter with its name or its `x-alias`; others follow in their own order.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not parameters:
        return schema
    places = {name: place for place, name in enumerate(parameters)}

    def place(name: str) -> int:
        one = properties[name]
        alias = one.get("x-alias") if isinstance(one, Mapping) else None
        return places.get(name, places.get(alias, len(places)) if isinstance(alias, str) else len(places))

    return {**schema, "properties": {name: properties[name] for name in sorted(properties, key=place)}}


def with_annotations(wire: Mapping[str, Any], config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool's wire form; without own annotations it gets those of the server."""
    if "annotations" in wire or "annotations" not in config:
        return wire
    return {**wire, "annotations": config["annotations"]}


def make_resource(context: EntryContext, key: str, entry: Mapping[str, Any], source: Source) -> Descriptor:
    """Make a resource, named by its URI. Raises ConfigError for a source that cannot be read."""
    wire = {"uri": entry["uri"], "name": entry.get("name", key)} | _select(entry, _RESOURCE)
    target = _select(entry, SOURCES)
    path = f"resources.{key}"
    if "function" in target:
        context.function(target["function"], path)
    if "blob" in target:
        try:
            base64.b64decode(target["blob"], validate=True)
        except (binascii.Error, ValueError) as problem:
            raise ConfigError(context.where, f"{path}.blob", f"expected base64; {problem}") from problem
    if "cid" in target:
        try:
            target["cid"] = canonical(target["cid"])
        except BadCid as problem:
            raise ConfigError(context.where, f"{path}.cid", f"expected a CID; {problem.message}") from problem
    return Descriptor("resource", entry["uri"], wire, target, source)


def make_template(context: EntryContext, key: str, entry: Mapping[str, Any], source: Source) -> Descriptor:
    """Make a resource template, named by its URI template. Raises ConfigError when it or its function is invalid."""
    path = f"resource_templates.{key}"
    for member in ("uriTemplate", "matches"):
        try:
            compile_template(entry.get(member, entry["uriTemplate"]))
        except ConfigError as problem:
            raise ConfigError(context.where, f"{path}.{member}", problem.expected) from problem
    wire = {"uriTemplate": entry["uriTemplate"], "name": entry.get("name", key)}
    wire |= _select(entry, tuple(name for name in _RESOURCE if name != "size"))
    target = {"function": context.function(entry["function"], path)} | _select(entry, ("matches",))
    return Descriptor("template", entry["uriTemplate"], wire, target, source)


def make_prompt(context: EntryContext, name: str, entry: Mapping[str, Any], source: Source) -> Descriptor:
    """Make a prompt. Raises ConfigError when its function is missing or an argument occurs twice."""
    names = [argument["name"] for argument in entry.get("arguments", ())]
    if len(set(names)) != len(names):
        raise ConfigError(context.where, f"prompts.{name}.arguments", "expected each argument's name once")
    if "function" in entry:
        target: dict[str, Any] = {"function": context.function(entry["function"], f"prompts.{name}")}
    else:
        target = {"messages": entry["messages"]}
    return Descriptor("prompt", name, {"name": name} | _select(entry, _PROMPT), target, source)


def make_event(context: EntryContext, name: str, entry: Mapping[str, Any], source: Source) -> Descriptor:
    """Make an event type, with its arguments and delivery modes. Raises ConfigError for an invalid payload schema."""
    if "source" in entry:
        return event_type(name, entry.get("description", ""), CHANGE_SCHEMA, {"source": entry["source"]}, source)
    payload = entry.get("payloadSchema") or {"type": "object"}
    try:
        validator(payload)
    except ConfigError as problem:
        raise ConfigError(context.where, f"events.{name}.payloadSchema", problem.expected) from problem
    return event_type(name, entry.get("description", ""), payload, {}, source)


def _select(entry: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: entry[name] for name in names if entry.get(name) is not None}
