"""Where the text of a saved script is: in the configuration of its toolset, as content of the hub, or in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CID_PREFIX = "cid://"
"""What begins the field `script` of a tool that names its script by the CID."""

SCRIPT_META = "io.patchbay/script"
"""The member of a tool's `_meta` with the CID of its script, so that another script is another tool."""

SCRIPT_ORIGIN = "script"
"""What stands in lists of tools in place of an origin for a tool that is a script."""


def is_script_tool(wire: Mapping[str, Any]) -> bool:
    """Whether a tool without an origin is a script, by what clients see of it."""
    meta = wire.get("_meta")
    return isinstance(meta, Mapping) and SCRIPT_META in meta


def is_script_path(script: str) -> bool:
    """Whether the field `script` of a tool is the path of a file, and neither a text nor a CID."""
    return "\n" not in script and script.endswith(".py") and not script.startswith(CID_PREFIX)


def scripts_of(fields: Any) -> dict[str, str]:
    """Return what the field `script` of each tool of a configuration says, by tool. The fields need no check before."""
    tools = fields.get("tools") if isinstance(fields, Mapping) else None
    if not isinstance(tools, Mapping):
        return {}
    found = {name: one.get("script") for name, one in tools.items() if isinstance(one, Mapping)}
    return {name: script for name, script in found.items() if isinstance(script, str)}


def with_scripts(fields: Mapping[str, Any], scripts: Mapping[str, str]) -> dict[str, Any]:
    """Return a configuration in which the field `script` of these tools says something else."""
    tools = {
        name: {**one, "script": scripts[name]} if name in scripts else one for name, one in fields["tools"].items()
    }
    return {**fields, "tools": tools}
