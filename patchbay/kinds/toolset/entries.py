"""Makes the tools of a toolset from those of their origins.

A tool shows what its origin shows, except for what the configuration says (`shaping/tools.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from patchbay.app_uris import find_app, with_public_app, without_app
from patchbay.descriptors import ACTIVITY, ACTIVITY_MODES, RENAMED_FROM, Descriptor, Origin, Problem
from patchbay.errors import ConfigError
from patchbay.kind import Composed, OriginServer
from patchbay.kinds.toolset.configuration import Toolset, is_excluded
from patchbay.kinds.toolset.selection import Choice
from patchbay.shaping.tools import AS_IT_IS, MAX_BYTES, ShapedTool, shape_tool

ENTRY = "entry"
"""The member of a target that names the tool of the toolset."""

PASSED_ON = ("streams", "approve", "job", RENAMED_FROM)
"""The members of a target that also hold for a call through a toolset."""


class MadeTools(NamedTuple):
    """The tools of a toolset by name, what is shaped of the calls of some, and a problem for each other one.

    `apps` are the servers and the URIs there of the apps in which clients show the results.
    """

    tools: dict[str, Descriptor]
    shaped: dict[str, ShapedTool]
    problems: list[Problem]
    apps: dict[tuple[str, str], None]


def make_tools(composed: Composed, toolset: Toolset, chosen: Mapping[str, Choice]) -> MadeTools:
    """Return the tools of a toolset by name, and a problem for each that cannot be made."""
    made = MadeTools({}, {}, [], {})
    own_timeout = composed.fields.get("timeout")
    needs_right = toolset.needs_right or composed.is_past
    for name, choice in chosen.items():
        place = f"tools.{name}" if choice.named is not None else "include"
        try:
            shaped = shape_tool(place, choice.tool, name, choice.named.shape if choice.named is not None else AS_IT_IS)
            app = _find_app(toolset, choice)
            wire = without_app(shaped.wire) if app is None else with_public_app(choice.server.name, shaped.wire)
            made.tools[name] = _make_tool(name, choice, shaped._replace(wire=wire), needs_right, own_timeout)
        except ConfigError as problem:
            made.problems.append(Problem(problem.where or place, f"not listed: {problem.expected}"))
            continue
        if shaped.changes_calls:
            made.shaped[name] = shaped
        if app is not None:
            made.apps[choice.server.name, app] = None
    return made


def _find_app(toolset: Toolset, choice: Choice) -> str | None:
    """Return the URI, at its server, of the app of a tool; None without one that its server lists.

    An expression that shapes the result gives the app something else than it was made for.
    """
    server, tool, named = choice
    app = find_app(tool.wire)
    is_shown = app in server.resources and not is_excluded(toolset, server.name, str(app))
    return app if is_shown and (named is None or not named.shape.result) else None


def _make_tool(
    name: str, choice: Choice, shaped: ShapedTool, needs_right: bool, own_timeout: float | None
) -> Descriptor:
    """Return a tool of a toolset."""
    server, tool, _ = choice
    origin = Origin(server.name, tool.name, server.version, tool.digest, needs_right)
    target: dict[str, Any] = {ENTRY: name, **_time_limits(server, tool, own_timeout)}
    target |= {member: tool.target[member] for member in PASSED_ON if member in tool.target}
    target |= _recorded(server, tool)
    if shaped.max_bytes is not None:
        target[MAX_BYTES] = shaped.max_bytes
    return replace(
        tool,
        name=name,
        wire=shaped.wire,
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
