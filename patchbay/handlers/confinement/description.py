"""How the code of a server runs on this machine, said honestly: what holds it, and what does not.

The rules are those of `handler_for`; that the two agree is a test.
Sources: DESIGN section 6; THREATS 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.handlers.limits import MEMORY
from patchbay.handlers.sandbox import available

WALLS = "sandboxed: read-only root, private /tmp, no network"
MISSING = "otherwise unconfined: a sandbox is asked for, but bubblewrap does not work here"


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where the code of a server runs.

    `isolation` is `process`, `inline` (inside the hub) or `none` (nothing of it runs); `memory` in MiB, None where
    nothing bounds it; `asked` says that a sandbox was asked for, `sandboxed` that there is one. `sentence` says it all.
    """

    isolation: str
    memory: int | None
    asked: bool
    sandboxed: bool
    sentence: str


def confinement(kind: str, config: Mapping[str, Any], isolation: str = "process", memory: int = MEMORY) -> Confinement:
    """How a server of this kind with this configuration runs; `isolation` and `memory` (MiB) are the hub's defaults."""
    asked = bool(config.get("sandbox", False))
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
