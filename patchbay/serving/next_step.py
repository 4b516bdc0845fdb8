"""The next command for a person who started a hub."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from patchbay.settings import Settings

DISTRIBUTION = "patchbay-hub"
"""The name of the package at a package index. Another project owns `patchbay` on PyPI."""


def describe_next_step(settings: Settings) -> str:
    """Return a sentence with the next command: make a server, or list those of the servers folder."""
    program = program_line()
    if any(file.suffix in (".py", ".sh", ".json") for file in _files(settings.servers)):
        return f"Next, in another terminal: `{program} list` shows the servers, `{program} open` their pages"
    return f"Next, in another terminal: `{program} new greeter` makes a server in {settings.servers}"


def program_line() -> str:
    """Return how a shell calls this program: with `uvx` in an environment that uvx made for one run.

    `uvx` gets what this program was installed from: a wheel, a folder or a repository, else the name of the package.
    """
    is_temporary = any(part.startswith("archive-v") for part in Path(sys.prefix).parts)
    return f"uvx --from {shlex.quote(find_source())} patchbay" if is_temporary else "patchbay"


def find_source() -> str:
    """Return the URL from which this package was installed (PEP 610), else its name at a package index."""
    try:
        noted = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return DISTRIBUTION
    url = noted.get("url") if isinstance(noted, dict) else None
    return url if isinstance(url, str) and url else DISTRIBUTION


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
