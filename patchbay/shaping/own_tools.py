"""The tools of a server as its own configuration shapes them (field `tools`).

The configuration of a definition describes its tools in the same field, with more members: what a tool is made of comes
first, and then what callers see of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from patchbay.activation import Call, Events, Handler
from patchbay.descriptors import RENAMED_FROM, Descriptor, Problem
from patchbay.errors import ConfigError
from patchbay.kind import Fields
from patchbay.shaping.tools import MAX_BYTES, ShapedTool, check_shape, parse_shape, run_alone, shape_tool
from patchbay.suggestions import did_you_mean, find_similar_names

SHAPING_MEMBERS = ("name", "title", "description", "annotations", "arguments", "result", "max_bytes")
"""The members of a tool of the configuration that say what callers see."""

ONLY_SHAPING = ("name", "result", "max_bytes")
"""Those of them that describe no tool by themselves."""

SHAPED = "shaped"
"""The member of a target with the name of a shaped tool."""


class OwnTools(NamedTuple):
    """The tools of a server by the names that callers know, the handler of their calls, and problems."""

    tools: dict[str, Descriptor]
    handler: Handler
    problems: list[Problem]


def check_own_tools(fields: Fields, where: str) -> None:
    """Check what the field `tools` of a server says about the tools that callers see. Raises ConfigError."""
    names: dict[str, str] = {}
    for key, given in _shapes_of(fields).items():
        check_shape(given, where, f"tools.{key}")
        other = names.setdefault(given.get("name", key), key)
        if other != key:
            raise ConfigError(where, f"tools.{key}.name", f"expected another name: {other} has this one")


def _shapes_of(fields: Fields) -> dict[str, dict[str, Any]]:
    """Return what a configuration says about what callers see of each tool that it names.

    The arguments of a tool with a schedule are those of the calls of the schedule.
    """
    return {
        key: {
            member: given[member]
            for member in SHAPING_MEMBERS
            if member in given and not (member == "arguments" and "schedule" in given)
        }
        for key, given in fields.get("tools", {}).items()
    }


def shape_own_tools(server: str, fields: Fields, tools: Mapping[str, Descriptor], handler: Handler) -> OwnTools:
    """Return the tools of a server with those that its configuration shapes; `server` is its name.

    A tool that cannot be shaped is not listed, and neither is one whose name the configuration gives to another.
    """
    shapes = _shapes_of(fields)
    given_names = {given.get("name", key) for key, given in shapes.items()}
    made = OwnTools({}, handler, [])
    shaped: dict[str, ShapedTool] = {}
    for key, tool in tools.items():
        if key not in shapes:
            if key in given_names:
                made.problems.append(Problem(f"tools.{key}", "not listed: another tool has its name"))
            else:
                made.tools[key] = tool
            continue
        name = shapes[key].get("name", key)
        try:
            one = shape_tool(f"tools.{key}", tool, name, parse_shape(shapes[key]))
        except ConfigError as problem:
            made.problems.append(Problem(problem.where or f"tools.{key}", f"not listed: {problem.expected}"))
            continue
        target = {**tool.target, **({MAX_BYTES: one.max_bytes} if one.max_bytes is not None else {})}
        if name != key:
            target[RENAMED_FROM] = (server, key)
        if one.changes_calls:
            shaped[name] = one
            target[SHAPED] = name
        made.tools[name] = replace(tool, name=name, wire=one.wire, target=target)
    missing = [key for key in shapes if tools and key not in tools]
    for key in missing:
        close = did_you_mean(find_similar_names(key, list(tools)))
        made.problems.append(Problem(f"tools.{key}", f"there is no tool {key}{close}"))
    mask = bool(fields.get("mask_errors", False))
    return made._replace(handler=_shaping_handler(shaped, handler, mask)) if shaped else made


def _shaping_handler(shaped: Mapping[str, ShapedTool], handler: Handler, mask: bool) -> Handler:
    """Return the handler of a server with shaped tools; `mask` hides the messages of exceptions."""

    def run(call: Call) -> Events:
        one = shaped.get(call.target.get(SHAPED, ""))
        return handler(call) if one is None else run_alone(one, call, handler, mask)

    return run
