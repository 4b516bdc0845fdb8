"""Makes the tools of a toolset from those of their origins.

A tool shows what its origin shows, except for what the configuration says. An annotation may only become stricter: a
toolset cannot call a tool harmless that its origin does not call so.
Source: MCP specification 2026-07-28, schema, ToolAnnotations (the defaults of the hints).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from patchbay.client.contracts.drift import HINT_DEFAULTS
from patchbay.descriptors import ACTIVITY, ACTIVITY_MODES, Descriptor, Origin, Problem
from patchbay.errors import ConfigError
from patchbay.kind import Composed, OriginServer
from patchbay.kinds.shaping.arguments import ArgumentShaping, make_shaping
from patchbay.kinds.shaping.results import check_result
from patchbay.kinds.toolset.configuration import NamedTool, Toolset
from patchbay.kinds.toolset.selection import Choice

ENTRY = "entry"
"""The member of a target that names the tool of the toolset."""

MAX_BYTES = "max_bytes"
"""The member of a target with the size of a text above which the text is a link."""

PASSED_ON = ("streams", "approve", "job")
"""The members of a target that also hold for a call through a toolset."""

_APP_MEMBERS = ("ui", "ui/resourceUri")
"""The members of `_meta` that lead to an app, which stands at the origin (SEP-1865)."""


class MadeTools(NamedTuple):
    """The tools of a toolset by name, and a problem for each other one.

    `shapings` say how the arguments of some are shaped, and `results` are the expressions over the results of some.
    """

    tools: dict[str, Descriptor]
    shapings: dict[str, ArgumentShaping]
    results: dict[str, str]
    problems: list[Problem]


def make_tools(composed: Composed, toolset: Toolset, chosen: Mapping[str, Choice]) -> MadeTools:
    """Return the tools of a toolset by name, and a problem for each that cannot be made."""
    made = MadeTools({}, {}, {}, [])
    own_timeout = composed.fields.get("timeout")
    needs_right = toolset.needs_right or composed.is_past
    for name, choice in chosen.items():
        place = f"tools.{name}" if choice.named is not None else "include"
        try:
            shaping = _shape(choice)
            made.tools[name] = _make_tool(name, choice, shaping, needs_right, own_timeout)
        except ConfigError as problem:
            made.problems.append(Problem(problem.where or place, f"not listed: {problem.expected}"))
            continue
        if shaping is not None:
            made.shapings[name] = shaping
        if choice.named is not None and choice.named.result:
            made.results[name] = choice.named.result
    return made


def _shape(choice: Choice) -> ArgumentShaping | None:
    """Return how the arguments of a tool are shaped; None for one that keeps its own. Raises ConfigError."""
    if choice.named is None or not choice.named.arguments:
        return None
    return make_shaping(choice.named.arguments, choice.tool.wire["inputSchema"], choice.tool.source == "upstream")


def _make_tool(
    name: str, choice: Choice, shaping: ArgumentShaping | None, needs_right: bool, own_timeout: float | None
) -> Descriptor:
    """Return a tool of a toolset. Raises ConfigError for one that cannot be shown as the configuration says."""
    server, tool, named = choice
    if not tool.is_for_models:
        raise ConfigError("", "", f"{server.name}.{tool.name} is for apps only")
    origin = Origin(server.name, tool.name, server.version, tool.digest, needs_right)
    target: dict[str, Any] = {ENTRY: name, **_time_limits(server, tool, own_timeout)}
    target |= {member: tool.target[member] for member in PASSED_ON if member in tool.target}
    target |= _recorded(server, tool)
    wire = _without_app({**tool.wire, "name": name})
    if named is not None:
        wire |= _shown_texts(named)
        if named.annotations:
            wire["annotations"] = _stricter(f"tools.{name}", tool, named.annotations)
    if shaping is not None:
        wire["inputSchema"] = shaping.shown
    if named is not None and named.result:
        _check_result(f"tools.{name}.result", tool, named.result)
        wire.pop("outputSchema", None)  # it describes what the expression gets
    limits = [one for one in (tool.target.get(MAX_BYTES), named.max_bytes if named else None) if one is not None]
    if limits:
        target[MAX_BYTES] = min(limits)
        wire.pop("outputSchema", None)  # a link is not the structured result that the schema promises
    return replace(
        tool,
        name=name,
        wire=wire,
        target=target,
        origins=(origin, *tool.origins),
        belongs_to=None,
        other_names=(),
    )


def _check_result(place: str, tool: Descriptor, expression: str) -> None:
    """Check that an expression fits the results of a tool. Raises ConfigError with the place."""
    schema = tool.wire.get("outputSchema")
    try:
        check_result(expression, schema if isinstance(schema, Mapping) else None)
    except ConfigError as problem:
        raise ConfigError(place, "", problem.expected) from problem


def _time_limits(server: OriginServer, tool: Descriptor, own_timeout: float | None) -> dict[str, float]:
    """Return the members of a target with the time limits of the origin, or that of the toolset where it is shorter.

    The limit of the toolset is one in all: progress does not extend a call beyond it.
    """
    timeout = float(tool.target.get("timeout", server.timeout))
    in_all = float(tool.target.get("progress_timeout", server.progress_timeout))
    if own_timeout is not None:
        timeout, in_all = min(timeout, own_timeout), min(in_all, own_timeout)
    return {"timeout": timeout, "progress_timeout": in_all}


def _recorded(server: OriginServer, tool: Descriptor) -> dict[str, str]:
    """Return the member of a target that says what records keep of a call: no more than those of the origin do."""
    said = [str(place[ACTIVITY]) for place in (server.config, tool.target) if ACTIVITY in place]
    modes = ["none"] if tool.has_secret_arguments else said
    return {ACTIVITY: min(modes, key=ACTIVITY_MODES.index)} if modes else {}


def _shown_texts(named: NamedTool) -> dict[str, str]:
    return {
        member: text
        for member, text in (("title", named.title), ("description", named.description))
        if text is not None
    }


def _without_app(wire: dict[str, Any]) -> dict[str, Any]:
    """Return a tool without the members that lead to an app: the app is served by the origin alone."""
    meta = wire.get("_meta")
    if not isinstance(meta, Mapping) or not any(member in meta for member in _APP_MEMBERS):
        return wire
    kept = {key: value for key, value in meta.items() if key not in _APP_MEMBERS}
    return {**{key: value for key, value in wire.items() if key != "_meta"}, **({"_meta": kept} if kept else {})}


def _stricter(place: str, tool: Descriptor, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of a tool with those of the configuration. Raises ConfigError for a looser hint."""
    known = tool.wire.get("annotations")
    found = dict(known) if isinstance(known, Mapping) else {}
    for hint, value in given.items():
        strict = HINT_DEFAULTS.get(hint)  # the default of each hint is also its strict value
        if strict is not None and value is not strict and found.get(hint, strict) is not value:
            said = str(found.get(hint, strict)).lower()
            raise ConfigError(
                f"{place}.annotations.{hint}",
                "",
                f"{str(value).lower()} is looser than the origin says ({said}); a hint may only become stricter",
            )
        found[hint] = value
    return found
