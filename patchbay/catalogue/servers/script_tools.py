"""The two tools of scripts, `find_tools` and `run_script`, as clients see them; `patchbay/scripting/` runs them.

The field `scripts` of a `listing` adds them to the tools of a server (`also`), or lists them in place of the tools
(`only`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from patchbay.descriptors import SCRIPT_TOOLS, Descriptor
from patchbay.python_functions.script_function import MAX_CODE_CHARACTERS

FIND, RUN = SCRIPT_TOOLS

OFF, ALSO, ONLY = "off", "also", "only"
"""The values of `scripts`: no scripts, the two tools beside the others, or in place of them."""

MAX_FOUND_TOOLS, DEFAULT_FOUND_TOOLS = 50, 10
"""Limit, and default, of the tools that one search describes."""

MAX_INPUTS = 100
"""Names that a script gets as `inputs`."""

NOT_INSTALLED = (
    "scripts need the package pydantic-monty: install patchbay-hub[scripts] where the hub runs, and start the hub again"
)
"""The one sentence for a hub without the extra."""


@lru_cache(maxsize=1)
def is_installed() -> bool:
    """Whether this hub can run scripts. It looks for the package, and does not load it."""
    return find_spec("pydantic_monty") is not None


def script_descriptors(tools: Mapping[str, Descriptor], owners: str) -> dict[str, Descriptor]:
    """Return the two tools by name. `tools` are those that scripts call, `owners` names them in a few words."""
    hints = {"readOnlyHint": True} if all(one.read_only for one in tools.values()) else {}
    find = {
        "name": FIND,
        "title": "Find tools",
        "description": f"Find tools for a script by what they do. There are {len(tools)}: {owners}. Returns the best "
        f"matches as typed Python functions, one module for each server. Call them in a script with {RUN}.",
        "inputSchema": _FIND_INPUT,
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
    }
    run = {
        "name": RUN,
        "title": "Run a script",
        "description": "Run a Python script that calls tools, and return the value of its last expression. Import the "
        f"modules that {FIND} shows and await each call: `import git` and `await git.log(count=5)`; arguments are "
        "passed by name. asyncio.gather runs calls at the same time. The types are checked before anything runs. A "
        "failed call raises RuntimeError. There are no files and no network, and only a part of the standard library.",
        "inputSchema": _RUN_INPUT,
        "outputSchema": _RUN_OUTPUT,
        **({"annotations": hints} if hints else {}),
    }
    return {
        str(wire["name"]): Descriptor("tool", str(wire["name"]), wire, {"script": wire["name"]}) for wire in (find, run)
    }


_FIND_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "What the tools should do, in a few words; an empty query gives the first tools.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_FOUND_TOOLS,
            "default": DEFAULT_FOUND_TOOLS,
            "description": "Maximum number of tools to describe.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}

_RUN_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "maxLength": MAX_CODE_CHARACTERS, "description": "The Python text of the script."},
        "inputs": {
            "type": "object",
            "maxProperties": MAX_INPUTS,
            "description": "Values that the script uses by these names.",
        },
        "rehearse": {
            "type": "boolean",
            "default": False,
            "description": "Make only the calls of tools that read, and return the others up to the first place where "
            "the script needs a result of one. Those that need an approval are one question; what is approved runs "
            "without another one when the same script runs with the same inputs.",
        },
    },
    "required": ["code"],
    "additionalProperties": False,
}

_PLACE_OF_CALL: dict[str, Any] = {
    "tool": {"type": "string", "description": "The module and the function."},
    "line": {"type": "integer", "description": "The line of the script."},
}

_RUN_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "value": {"description": "The value of the last expression."},
        "calls": {
            "type": "array",
            "description": "The calls of tools, in the order in which the script made them.",
            "items": {
                "type": "object",
                "properties": {
                    **_PLACE_OF_CALL,
                    "ms": {"type": "number", "description": "The duration in milliseconds."},
                    "failed": {"type": "boolean", "description": "Whether the call failed."},
                    "refused": {
                        "type": "boolean",
                        "description": "Whether a person refused it, so that it did not run.",
                    },
                },
                "required": ["tool", "line", "ms"],
            },
        },
        "run": {"type": "string", "description": "The id of the run, which is in the records of its calls."},
        "rehearsed": {
            "type": "array",
            "description": "Of a rehearsal: the calls that were not made, in the order of the script.",
            "items": {
                "type": "object",
                "properties": {
                    **_PLACE_OF_CALL,
                    "name": {"type": "string", "description": "The server and the tool."},
                    "digest": {"type": "string", "description": "The digest of the tool."},
                    "arguments": {"type": "object", "description": "The exact arguments."},
                    "approval": {
                        "type": "string",
                        "description": "The state of its approval, if it needs one, such as waiting or approved.",
                    },
                },
                "required": ["tool", "line", "name", "digest", "arguments"],
            },
        },
    },
    "required": ["value", "calls", "run"],
}
