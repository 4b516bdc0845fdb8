"""Use an environment in a worker process, after the process is confined: its packages run no code before that.

Source: https://docs.python.org/3/library/site.html; venv.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path

from patchbay.settings import adopt, environment


def activate_environment(folder: Path, packages: Path) -> None:
    """Make the packages of an environment importable in this process, before those of the hub.

    `folder` is the environment, `packages` its `site-packages`. Programs of the packages are found in `PATH`, and
    `sys.executable` is the Python of the environment.
    """
    hub = list(sys.path)
    site.addsitedir(str(packages))
    added = [place for place in sys.path if place not in hub]
    standard = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    standard |= {str(Path(place, "lib-dynload")) for place in standard}
    last = max((number for number, place in enumerate(hub) if place in standard), default=-1)
    sys.path[:] = [*hub[: last + 1], *added, *hub[last + 1 :]]
    sys.executable = str(folder / "bin" / "python")
    sys.prefix = sys.exec_prefix = str(folder)
    path = os.pathsep.join([str(folder / "bin"), *environment(("PATH",)).values()])
    adopt({"VIRTUAL_ENV": str(folder), "PATH": path})
