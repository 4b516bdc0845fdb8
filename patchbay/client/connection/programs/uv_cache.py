"""Start a package of PyPI from uv's cache, without asking the package index at each start.

`uv run --with` asks the index for every package that the server needs whenever its cached answer is some minutes old.
So a start tries `--offline` first, and the index when that fails. `@latest` always asks the index, as with `uvx`.

Source: https://docs.astral.sh/uv/concepts/tools/#tool-versions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from patchbay.client.addresses.targets import Stdio

OFFLINE_OPTION = "--offline"
_INDEX_OPTIONS = ("--refresh", "--upgrade", "--reinstall", OFFLINE_OPTION)


def make_offline_target(target: Stdio) -> Stdio | None:
    """Make the target that starts the same program from uv's cache; None when uv does not run it, or `@latest` is
    wanted.
    """
    is_uv = PurePath(target.command).name in ("uv", "uv.exe")
    options = target.args[: target.args.index("--with") + 1] if "--with" in target.args else ()
    if not is_uv or not options or options[0] != "run" or any(word.startswith(_INDEX_OPTIONS) for word in options):
        return None
    return replace(target, args=("run", OFFLINE_OPTION, *target.args[1:]))
