"""A hub whose servers have scripts, for tests, and what a script answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchbay.scripting.front import KEPT_AS
from patchbay.scripting.interpreters import Interpreters
from patchbay.scripting.limits import RunLimits
from patchbay.scripting.runs import ScriptRuns
from tests.hubs import Answer, Hub

GIT = '''"""A history of commits."""

import threading

LATCH = threading.Barrier(3)


def log(count: int = 20, author: str | None = None) -> list[dict[str, str]]:
    """Return the last commits."""
    return [{"sha": str(number)} for number in range(count)]


def close(number: int) -> str:
    """Close an issue."""
    if number == 13:
        raise ValueError("unlucky")
    return f"closed {number}"


def meet(name: str) -> str:
    """Wait until three calls are here."""
    LATCH.wait(60)
    return name


def large(size: int) -> str:
    """Return a long text."""
    return "x" * size


def note(what) -> str:
    """Take any value."""
    return "noted"


def fail(size: int) -> str:
    """Fail with a long text."""
    raise ValueError("x" * size)


def relay(context, server: str, tool: str, code: str) -> str:
    """Call a tool of another server with a script."""
    return context.call(server, tool, code=code)["content"][0]["text"]
'''
SCRIPTED = {
    "git.py": GIT,
    "git.mcp.json": json.dumps({"isolation": "inline", "listing": {"scripts": "also"}}),
    "release.json": json.dumps(
        {
            "kind": "toolset",
            "tools": {"history": "git.log", "shut": {"from": "git.close", "arguments": {"number": {"name": "issue"}}}},
            "listing": {"scripts": "only"},
        }
    ),
}


def scripted_hub(folder: Path, files: Mapping[str, str] | None = None, **limits: Any) -> Hub:
    """A hub with scripts, whose runs have these limits."""
    return with_limits(Hub(folder, SCRIPTED | dict(files or {})), **limits)


def with_limits(hub: Hub, interpreters: Interpreters | None = None, **limits: Any) -> Hub:
    """The hub, whose runs have these limits: it has run no script yet."""
    hub.catalogue.hub.kept(KEPT_AS, lambda: ScriptRuns(RunLimits(**limits), interpreters))
    return hub


def script(
    hub: Hub,
    server: str,
    code: str,
    inputs: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """The answer to a script."""
    arguments = {"code": code} | ({"inputs": inputs} if inputs is not None else {})
    params = {"name": "run_script", "arguments": arguments}
    return hub.modern(server, "tools/call", params, headers=headers)


def value(answer: Answer) -> Any:
    """The value of a script that ended well."""
    assert not answer.result["isError"], answer.text
    return answer.result["structuredContent"]["value"]


def failure(answer: Answer) -> str:
    """Why a script failed."""
    assert answer.result["isError"], answer.result
    return answer.text
