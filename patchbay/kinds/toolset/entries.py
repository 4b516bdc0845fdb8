"""Makes the tools of a toolset from those of their origins.

A tool shows what its origin shows, except for what the configuration says (`shaping/tools.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from patchbay.descriptors import ACTIVITY, ACTIVITY_MODES, RENAMED_FROM, Descriptor, Origin, Problem
from patchbay.errors import ConfigError
from patchbay.kind import Composed, OriginServer
from patchbay.kinds.toolset.configuration import Toolset
from patchbay.kinds.toolset.selection import Choice
from patchbay.shaping.tools import AS_IT_IS, MAX_BYTES, ShapedTool, shape_tool

ENTRY = "entry"
"""The member of a target that names the tool of the toolset."""

PASSED_ON = ("streams", "approve", "job", RENAMED_FROM)
"""The members of a target that also hold for a call through a toolset."""

_APP_MEMBERS = ("ui", "ui/resourceUri")
"""The members of `_meta` that lead to an app, which stands at the origin (SEP-1865)."""


class MadeTools(NamedTuple):
    """The tools of a toolset by name, what is shaped of the calls of some, and a problem for each other one."""

    tools: dict[str, Descriptor]
    shaped: dict[str, ShapedTool]
    problems: list[Problem]


def make_tools(composed: Composed, toolset: Toolset, chosen: Mapping[str, Choice]) -> MadeTools:
    """Return the tools of a toolset by name, and a problem for each that cannot be made."""
    made = MadeTools({}, {}, [])
    own_timeout = composed.fields.get("timeout")
    needs_right = toolset.needs_right or composed.is_past
    for name, choice in chosen.items():
        place = f"tools.{name}" if choice.named is not None else "include"
        try:
            shaped = shape_tool(place, choice.tool, name, choice.named.shape if choice.named is not None else AS_IT_IS)
            made.tools[name] = _make_tool(name, choice, shaped, needs_right, own_timeout)
        except ConfigError as problem:
            made.problems.append(Problem(problem.where or place, f"not listed: {problem.expected}"))
            continue
        if shaped.changes_calls:
            made.shaped[name] = shaped
    return made


def _make_tool(
    name: str, choice: Choice, shaped: ShapedTool, needs_right: bool, own_timeout: float | None
) -> Descriptor:
    """Return a tool of a toolset. Raises ConfigError for one that is not for models."""
    server, tool, _ = choice
    if not tool.is_for_models:
        raise ConfigError("", "", f"{server.name}.{tool.name} is for apps only")
    origin = Origin(server.name, tool.name, server.version, tool.digest, needs_right)
    target: dict[str, Any] = {ENTRY: name, **_time_limits(server, tool, own_timeout)}
    target |= {member: tool.target[member] for member in PASSED_ON if member in tool.target}
    target |= _recorded(server, tool)
    if shaped.max_bytes is not None:
        target[MAX_BYTES] = shaped.max_bytes
    return replace(
        tool,
        name=name,
        wire=_without_app(shaped.wire),
        target=target,
        origins=(origin, *tool.origins),
        belongs_to=None,
        other_names=(),
    )


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


def _without_app(wire: dict[str, Any]) -> dict[str, Any]:
    """Return a tool without the members that lead to an app: the app is served by the origin alone."""
    meta = wire.get("_meta")
    if not isinstance(meta, Mapping) or not any(member in meta for member in _APP_MEMBERS):
        return wire
    kept = {key: value for key, value in meta.items() if key not in _APP_MEMBERS}
    return {**{key: value for key, value in wire.items() if key != "_meta"}, **({"_meta": kept} if kept else {})}
