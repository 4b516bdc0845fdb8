"""Bubblewrap around the processes of definitions that ask for it (`sandbox: true`, or `if-available`).

Inside: the file system is read-only, /tmp is private and in memory, there is no network, only its
own processes are seen, and the hub's data is not there. One sandbox per Python definition, and one
per call of a command, so that definitions do not share any of this.
Sources: THREATS 1.6 (file escape); bwrap(1).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from patchbay.errors import ConfigError

PROGRAM = "bwrap"
IF_AVAILABLE = "if-available"
"""What `sandbox` says in a configuration to run without one where there is none."""

HOW = (
    "install bubblewrap (Debian and Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap), let it use user"
    f' namespaces, and start the hub again; or write "sandbox": "{IF_AVAILABLE}" to run without one'
)
TMP = Path("/tmp")
WALLS = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", str(TMP)),
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"),
)


def is_sandboxed(config: Mapping[str, Any], inline: bool, name: str) -> bool:
    """Whether code of this configuration runs in the sandbox; `inline` says that it runs inside the hub.

    Raises ConfigError when it asks for one that it cannot have.
    """
    asked = config.get("sandbox", False)
    if not asked or (asked == IF_AVAILABLE and (inline or not available())):
        return False
    if inline:
        raise ConfigError(name, "sandbox", 'code inside the hub has no sandbox; write "isolation": "process"')
    if not available():
        raise ConfigError(name, "sandbox", f"expected a sandbox, and bubblewrap does not work here: {HOW}")
    return True


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether the sandbox can be had here: the program is installed, and the kernel lets it work."""
    program = shutil.which(PROGRAM)
    if program is None:
        return False
    return subprocess.run([program, *WALLS, "true"], capture_output=True, timeout=10, check=False).returncode == 0


def walls(hidden: Sequence[Path], own: Path | None = None) -> list[str]:
    """The beginning of a command line that puts the rest of it into the sandbox.

    `hidden` folders are empty there; only the folder `own` can be written to, beside /tmp.
    """
    needed = {Path(place).resolve() for place in (sys.prefix, sys.base_prefix, *sys.path) if place}
    inside = sorted(place for place in needed if place.is_relative_to(TMP) and place.exists())
    covered = [str(place.resolve()) for place in hidden if place.exists()]
    return [
        PROGRAM,
        *WALLS,
        *(word for place in inside for word in ("--ro-bind", str(place), str(place))),
        *(word for place in covered for word in ("--tmpfs", place)),
        *(("--bind", str(own), str(own)) if own is not None else ()),
        "--",
    ]
