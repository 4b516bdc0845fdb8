"""Starting a package of PyPI from what uv has fetched before, without asking the index anew at each start.

`uv run --with` asks the index for every package that the server needs whenever what it knows is some minutes old. So
a start tries `--offline` first, and the index when that fails. `@latest` always asks the index, as with `uvx`.
Sources: issue 12 part 18; https://docs.astral.sh/uv/concepts/tools/#tool-versions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from patchbay.client.addresses.targets import Stdio

OFFLINE = "--offline"
_ASKS = ("--refresh", "--upgrade", "--reinstall", OFFLINE)


def from_cache(reach: Stdio) -> Stdio | None:
    """The same program out of uv's cache; None when it is no package that uv runs, or its newest version is wanted."""
    is_uv = PurePath(reach.command).name in ("uv", "uv.exe")
    options = reach.args[: reach.args.index("--with") + 1] if "--with" in reach.args else ()
    if not is_uv or not options or options[0] != "run" or any(word.startswith(_ASKS) for word in options):
        return None
    return replace(reach, args=("run", OFFLINE, *reach.args[1:]))
