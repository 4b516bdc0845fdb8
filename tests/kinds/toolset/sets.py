"""A hub with servers of this process and toolsets of their tools, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tests.hubs import Hub

INLINE = '{"auto_discover": true, "isolation": "inline"}'

GIT = '''"""A repository."""

ANNOTATIONS = {}


def git_log(repo_path: str, max_count: int = 10) -> dict:
    """Show the last commits."""
    return {"repo": repo_path, "count": max_count}


def git_push(context, repo_path: str = ".") -> str:
    """Push the commits."""
    context.progress(1, 2, "half")
    return f"pushed {repo_path}"


def status() -> str:
    """Say what has changed."""
    return "clean"


def fail() -> str:
    """Fail."""
    raise ValueError("no repository here")


def question(context) -> str:
    """Ask who is there."""
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    return str(context.elicit("Who?", form)["content"]["name"])
'''

TIME = '''"""The time."""


def now(zone: str = "UTC") -> str:
    """Tell the time."""
    return f"noon in {zone}"


def status() -> str:
    """Say how the clock is."""
    return "ticking"
'''

FILES = {"git.py": GIT, "git.mcp.json": INLINE, "time.py": TIME, "time.mcp.json": INLINE}


def toolset(**fields: Any) -> str:
    """The text of a toolset's configuration."""
    return orjson.dumps({"kind": "toolset", **fields}).decode()


def hub_with(folder: Path, files: Mapping[str, str], **settings: Any) -> Hub:
    """A hub with the servers above and some more files."""
    return Hub(folder, {**FILES, **files}, **({"isolation": "inline"} | settings))


def write(hub: Hub, name: str, text: str) -> None:
    """Write a file of the watched folder, and wait until the hub has read it."""
    (hub.servers / name).write_text(text)
    hub.catalogue.read_folder()
    hub.catalogue.refresh()


def listed(hub: Hub, server: str = "release") -> dict[str, dict[str, Any]]:
    """The tools that a server lists, by name."""
    found = hub.modern(server, "tools/list").result["tools"]
    return {one["name"]: one for one in found}


def problems(hub: Hub, server: str = "release") -> dict[str, str]:
    """The problems of a server by place."""
    return {one.where: one.reason for one in hub.catalogue.find(server).problems}
