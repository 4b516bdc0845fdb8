"""How the code of a server runs on this machine, said honestly: what holds it, and what does not.

The rules are those of `handler_for`; that the two agree is a test.
Sources: DESIGN section 6; THREATS 1.6.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from patchbay.client.reach import Http, Reach, Stdio, masked_url
from patchbay.handlers.limits import MEMORY
from patchbay.handlers.sandbox import available

WALLS = "sandboxed: read-only root, private /tmp, no network"
MISSING = "otherwise unconfined: a sandbox is asked for, but bubblewrap does not work here"


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where the code of a server runs.

    `isolation` is `process`, `inline` (inside the hub) or `none` (the hub runs nothing of it); `memory` in MiB, None
    where nothing bounds it; `asked` says that a sandbox was asked for, `sandboxed` that there is one. `sentence` says
    all of it.
    """

    isolation: str
    memory: int | None
    asked: bool
    sandboxed: bool
    sentence: str


def confinement(
    kind: str,
    config: Mapping[str, Any],
    isolation: str = "process",
    memory: int = MEMORY,
    reach: Reach | None = None,
) -> Confinement:
    """How a server of this kind with this configuration runs; `isolation` and `memory` (MiB) are the hub's defaults.

    `reach` is how a mounted server is reached, None as long as that is not known.
    """
    asked = bool(config.get("sandbox", False))
    if kind == "upstream":
        return _mounted(reach)
    if kind not in ("python", "shell"):
        return Confinement("none", None, asked, False, "nothing of it runs here")
    inline = config.get("isolation", "process" if config.get("environment") else isolation) == "inline"
    if kind == "python" and inline:
        return Confinement("inline", None, asked, False, "unconfined, inside the hub")
    most = int(config.get("memory", memory))
    walled = asked and available()
    own = "in a process of its own" if kind == "python" else "in a process of its own for each call"
    rest = WALLS if walled else MISSING if asked else "otherwise unconfined"
    return Confinement("process", most, asked, walled, f"{own}, memory {most} MiB, {rest}")


def _mounted(reach: Reach | None) -> Confinement:
    """How the server behind a mount runs."""
    if isinstance(reach, Stdio):
        sentence = (
            f"the program {PurePath(reach.command).name} runs on this machine, started by the hub: unconfined, with all"
            f" rights of the hub's user ({_user()}), its files and its network, without a bound of memory"
        )
        return Confinement("process", None, False, False, sentence)
    if isinstance(reach, Http):
        parts = urlsplit(masked_url(reach.url))
        place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        return Confinement(
            "none", None, False, False, f"at {place}, with the rights it has there; the hub starts nothing"
        )
    sentence = "not known yet: the profile or preset that its address names was not read"
    return Confinement("none", None, False, False, sentence)


def _user() -> str:
    """The user that this process runs as."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user id {number}"
