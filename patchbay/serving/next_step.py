"""The next command for a person who started a hub."""

from __future__ import annotations

import sys
from pathlib import Path

from patchbay.settings import Settings


def describe_next_step(settings: Settings) -> str:
    """Return a sentence with the next command: make a server, or list those of the servers folder."""
    program = program_line()
    if any(file.suffix in (".py", ".sh", ".json") for file in _files(settings.servers)):
        return f"Next, in another terminal: `{program} list` shows the servers, `{program} open` their pages"
    return f"Next, in another terminal: `{program} new hello` makes a server in {settings.servers}"


def program_line() -> str:
    """Return how a shell calls this program: `uvx patchbay` in an environment that uvx made for one run."""
    is_temporary = any(part.startswith("archive-v") for part in Path(sys.prefix).parts)
    return "uvx patchbay" if is_temporary else "patchbay"


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
