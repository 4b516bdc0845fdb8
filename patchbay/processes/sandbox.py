"""Bubblewrap around the processes of definitions that ask for it (`sandbox: true`, or `if-available`).

Inside, the file system is read-only, /tmp is private and in memory, there is no network, only its own processes are
visible, and the hub's data is absent. Each Python definition and each call of a command gets its own sandbox, so that
definitions share nothing of this.

Source: bwrap(1).
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
"""Value of `sandbox` in a configuration: run without a sandbox where the machine has none."""

INSTALL_HINT = (
    "install bubblewrap (Debian and Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap), let it use user"
    f' namespaces, and start the hub again; or write "sandbox": "{IF_AVAILABLE}" to run without one'
)
TMP = Path("/tmp")
BWRAP_OPTIONS = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", str(TMP)),
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"),
)


def is_sandboxed(config: Mapping[str, Any], inline: bool, name: str) -> bool:
    """Whether code of this configuration runs in the sandbox; `inline` means that it runs inside the hub process.

    Raises ConfigError when it requires a sandbox that is not available.
    """
    requested = config.get("sandbox", False)
    if not requested or (requested == IF_AVAILABLE and (inline or not is_available())):
        return False
    if inline:
        raise ConfigError(name, "sandbox", 'code inside the hub has no sandbox; write "isolation": "process"')
    if not is_available():
        raise ConfigError(name, "sandbox", f"expected a sandbox, and bubblewrap does not work here: {INSTALL_HINT}")
    return True


@lru_cache(maxsize=1)
def is_available() -> bool:
    """Whether the sandbox works here: the program is installed, and the kernel allows it."""
    program = shutil.which(PROGRAM)
    if program is None:
        return False
    return (
        subprocess.run([program, *BWRAP_OPTIONS, "true"], capture_output=True, timeout=10, check=False).returncode == 0
    )


def sandbox_command(hidden: Sequence[Path], own: Path | None = None, shown: Sequence[Path] = ()) -> list[str]:
    """Return the beginning of a command line that runs the rest of it in the sandbox.

    `hidden` folders are empty there, except the folders `shown`; only the folder `own` and /tmp can be written to.
    """
    needed = {Path(place).resolve() for place in (sys.prefix, sys.base_prefix, *sys.path) if place}
    inside = sorted(place for place in needed if place.is_relative_to(TMP) and place.exists())
    covered = [str(place.resolve()) for place in hidden if place.exists()]
    return [
        PROGRAM,
        *BWRAP_OPTIONS,
        *(word for place in inside for word in ("--ro-bind", str(place), str(place))),
        *(word for place in covered for word in ("--tmpfs", place)),
        *(word for place in shown for word in ("--ro-bind", str(place), str(place))),
        *(("--bind", str(own), str(own)) if own is not None else ()),
        "--",
    ]
