"""Starting a package of PyPI from what uv has fetched before, without asking the index anew at each start.

`uv run --with` asks the index for every package that the server needs whenever what it knows is some minutes old. So
a start tries `--offline` first, and the index when that fails. `@latest` always asks the index, as with `uvx`.
Sources: issue 12 part 18; https://docs.astral.sh/uv/concepts/tools/#tool-versions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from patchbay.client.addresses.targets import Stdio

OFFLINE_OPTION = "--offline"
_INDEX_OPTIONS = ("--refresh", "--upgrade", "--reinstall", OFFLINE_OPTION)


def make_offline_target(target: Stdio) -> Stdio | None:
    """The same program out of uv's cache; None when it is no package that uv runs, or its newest version is wanted."""
    is_uv = PurePath(target.command).name in ("uv", "uv.exe")
    options = target.args[: target.args.index("--with") + 1] if "--with" in target.args else ()
    if not is_uv or not options or options[0] != "run" or any(word.startswith(_INDEX_OPTIONS) for word in options):
        return None
    return replace(target, args=("run", OFFLINE_OPTION, *target.args[1:]))
