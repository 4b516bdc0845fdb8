"""The tools of a toolset that are scripts: `"tools": {"close_stale": {"script": ...}}`.

A script calls the other tools of its toolset. Its function is read, and never run, when the toolset is made; the hub
runs it in the interpreter of scripts when the tool is called (`patchbay.activation.Hub.run_saved_script`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from patchbay.cid import cid_of
from patchbay.config import check_schema
from patchbay.descriptors import ACTIVITY, ACTIVITY_MODES, Descriptor, Problem
from patchbay.errors import ConfigError
from patchbay.kinds.toolset.configuration import NamedTool
from patchbay.python_functions.script_function import RUN_SECONDS, ScriptFunction, read_script_function
from patchbay.python_functions.script_texts import CID_PREFIX, SCRIPT_META
from patchbay.shaping.tools import MAX_BYTES, ShapedTool, shape_tool


class MadeScripts(NamedTuple):
    """The tools that are scripts by name, what runs for each, how some are shaped, and a problem for each other one."""

    tools: dict[str, Descriptor]
    scripts: dict[str, ScriptFunction]
    shaped: dict[str, ShapedTool]
    problems: list[Problem]


def make_script_tools(named: Mapping[str, NamedTool], tools: Mapping[str, Descriptor]) -> MadeScripts:
    """Return the tools of a toolset that are scripts. `tools` are its other ones, which the scripts may call."""
    made = MadeScripts({}, {}, {}, [])
    for name, one in named.items():
        if not one.script:
            continue
        place = f"tools.{name}.script"
        if one.script.startswith(CID_PREFIX):
            made.problems.append(Problem(place, f"not listed: this hub has no content {one.script}"))
            continue
        try:
            function = read_script_function(one.script, place)
            shaped = shape_tool(f"tools.{name}", _describe(place, function, tools), name, one.shape)
        except ConfigError as problem:
            made.problems.append(_explain(problem, place))
            continue
        made.tools[name] = Descriptor("tool", name, shaped.wire, _target(name, shaped, tools))
        made.scripts[name] = function
        if shaped.changes_calls:
            made.shaped[name] = shaped
    return made


def _describe(place: str, function: ScriptFunction, tools: Mapping[str, Descriptor]) -> Descriptor:
    """Return the tool that a script makes before its configuration shapes it. Raises ConfigError.

    It only reads where every tool that it may call only reads.
    """
    wire = {**function.wire, "_meta": {SCRIPT_META: cid_of(function.code.encode())}}
    if all(one.read_only for one in tools.values()):
        wire["annotations"] = {"readOnlyHint": True}
    check_schema(wire["inputSchema"], place, "")
    return Descriptor("tool", function.name, wire)


def _target(name: str, shaped: ShapedTool, tools: Mapping[str, Descriptor]) -> dict[str, object]:
    """Return the target of a tool that is a script: records keep no more of it than of what it may call."""
    kept = [str(one.target[ACTIVITY]) for one in tools.values() if ACTIVITY in one.target]
    kept += ["none"] if any(one.has_secret_arguments for one in tools.values()) else []
    recorded = {ACTIVITY: min(kept, key=ACTIVITY_MODES.index)} if kept else {}
    limit = {MAX_BYTES: shaped.max_bytes} if shaped.max_bytes is not None else {}
    return {"entry": name, "timeout": RUN_SECONDS, "progress_timeout": RUN_SECONDS, **recorded, **limit}


def _explain(problem: ConfigError, place: str) -> Problem:
    """Return the problem of a script that cannot be a tool, with its line where it has one."""
    line = problem.path.removeprefix("line ") if problem.path.startswith("line ") else ""
    where = place if line or not problem.where else problem.where
    return Problem(where, f"not listed: {problem.expected}", int(line) if line.isdigit() else None)
