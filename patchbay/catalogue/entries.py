"""From one entry of a configuration or of a transform to a Descriptor.

Rules: what clients see holds no nulls and only MCP's own fields; how it runs stays in the target.
An entry that cannot run raises ConfigError, and the list it stands in goes on without it.
Sources: DESIGN section 5; REQUIREMENTS V-C4 to V-C6, V-C10, V-C12; VWR-17, VWR-19.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from patchbay.catalogue.reading.uri_templates import compiled
from patchbay.cid import canonical
from patchbay.config import SOURCES
from patchbay.descriptors import Descriptor, Source
from patchbay.errors import BadCid, ConfigError
from patchbay.kind import EntryContext as EntryContext
from patchbay.kind import kind_named

HUB_SCHEMES = ("cid://", "variable://", "server://")
"""Addresses whose content the hub itself knows."""

_TOOL = ("title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta")
_DISCOVERED = ("title", "description", "inputSchema", "outputSchema")
_RESOURCE = ("title", "description", "mimeType", "annotations", "icons", "size", "_meta")
_PROMPT = ("title", "description", "arguments", "icons", "_meta")


def tool(ground: EntryContext, name: str, entry: Mapping[str, Any], source: Source) -> Descriptor:
    """A tool. What a static one leaves out is as discovery says of the function it runs.

    Without a schema it takes any object. Raises ConfigError when nothing can run it.
    """
    target = kind_named(ground.kind).tool_target(ground, name, entry)
    if source == "static" and "argv" not in entry:
        known = ground.found.get(target.get("function", name), {})
        entry = _chosen(known, _DISCOVERED) | {key: value for key, value in entry.items() if value is not None}
        if known:
            # The schema that was found may say what the target is.
            target = kind_named(ground.kind).tool_target(ground, name, entry)
    wire: dict[str, Any] = {"name": name, "inputSchema": {"type": "object"}} | _chosen(entry, _TOOL)
    wire["inputSchema"] = _in_order(wire["inputSchema"], ground.functions.get(target.get("function", ""), ()))
    if "timeout" in entry:
        target["timeout"] = entry["timeout"]
    return Descriptor("tool", name, with_annotations(wire, ground.config), target, source)


def _in_order(schema: Mapping[str, Any], parameters: Sequence[str]) -> Mapping[str, Any]:
    """A schema with its properties in the order of the function's parameters, by which positional params bind (X-18).

    A property stands where the parameter of its name, or of its `x-alias`, stands; others come last, as they were.
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
    """A tool's wire form with the server's annotations where it has none of its own."""
    if "annotations" in wire or "annotations" not in config:
        return wire
    return {**wire, "annotations": config["annotations"]}


def resource(ground: EntryContext, key: str, entry: Mapping[str, Any], source: Source) -> Descriptor:
    """A resource, by its URI. Raises ConfigError when its content can come from nowhere."""
    wire = {"uri": entry["uri"], "name": entry.get("name", key)} | _chosen(entry, _RESOURCE)
    target = _chosen(entry, SOURCES)
    path = f"resources.{key}"
    if "function" in target:
        ground.function(target["function"], path)
    if "blob" in target:
        try:
            base64.b64decode(target["blob"], validate=True)
        except (binascii.Error, ValueError) as problem:
            raise ConfigError(ground.where, f"{path}.blob", f"expected base64; {problem}") from problem
    if "cid" in target:
        try:
            target["cid"] = canonical(target["cid"])
        except BadCid as problem:
            raise ConfigError(ground.where, f"{path}.cid", f"expected a CID; {problem.message}") from problem
    return Descriptor("resource", entry["uri"], wire, target, source)


def template(ground: EntryContext, key: str, entry: Mapping[str, Any], source: Source) -> Descriptor:
    """A resource template, by its URI template. Raises ConfigError when it is none or its function is missing."""
    path = f"resource_templates.{key}"
    for member in ("uriTemplate", "matches"):
        try:
            compiled(entry.get(member, entry["uriTemplate"]))
        except ConfigError as problem:
            raise ConfigError(ground.where, f"{path}.{member}", problem.expected) from problem
    wire = {"uriTemplate": entry["uriTemplate"], "name": entry.get("name", key)}
    wire |= _chosen(entry, tuple(name for name in _RESOURCE if name != "size"))
    target = {"function": ground.function(entry["function"], path)} | _chosen(entry, ("matches",))
    return Descriptor("template", entry["uriTemplate"], wire, target, source)


def prompt(ground: EntryContext, name: str, entry: Mapping[str, Any], source: Source) -> Descriptor:
    """A prompt. Raises ConfigError when its function is missing or an argument stands twice."""
    names = [argument["name"] for argument in entry.get("arguments", ())]
    if len(set(names)) != len(names):
        raise ConfigError(ground.where, f"prompts.{name}.arguments", "expected each argument's name once")
    if "function" in entry:
        target: dict[str, Any] = {"function": ground.function(entry["function"], f"prompts.{name}")}
    else:
        target = {"messages": entry["messages"]}
    return Descriptor("prompt", name, {"name": name} | _chosen(entry, _PROMPT), target, source)


def _chosen(entry: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: entry[name] for name in names if entry.get(name) is not None}
