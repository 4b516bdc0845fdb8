"""How the code of a server runs on this machine, said honestly: what holds it, and what does not.

The rules are those of `handler_for`; that the two agree is a test.
Sources: DESIGN section 6; THREATS 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patchbay.processes.confinement.protections import NAMESPACES, told
from patchbay.processes.limits import MEMORY
from patchbay.processes.sandbox import IF_AVAILABLE, available

WALLS = "sandboxed: read-only root, private /tmp, no network"
WITHOUT = "without the sandbox that it would have, as bubblewrap does not work here"
REFUSED = "nothing of it runs: it asks for a sandbox, and bubblewrap does not work here"
INSIDE = "nothing of it runs: it asks for a sandbox, and code inside the hub has none"


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where the code of a server runs.

    `isolation` is `process`, `inline` (inside the hub), `program` (a mounted one) or `none` (the hub runs nothing of
    it); `memory` in MiB, None where nothing bounds it; `asked` says that a sandbox was asked for, `sandboxed` that
    there is one. `sentence` says all of it.
    """

    isolation: str
    memory: int | None
    asked: bool
    sandboxed: bool
    sentence: str


NOTHING = Confinement("none", None, False, False, "nothing of it runs here")


def confinement(kind: str, config: Mapping[str, Any], isolation: str = "process", memory: int = MEMORY) -> Confinement:
    """How a server of this kind with this configuration runs; `isolation` and `memory` (MiB) are the hub's defaults."""
    sandbox = config.get("sandbox", False)
    asked = bool(sandbox)
    if kind not in ("python", "shell"):
        return replace(NOTHING, asked=asked)
    needed = asked and sandbox != IF_AVAILABLE
    inline = config.get("isolation", "process" if config.get("environment") else isolation) == "inline"
    if kind == "python" and inline:
        if needed:
            return replace(NOTHING, asked=True, sentence=INSIDE)
        return Confinement("inline", None, asked, False, "unconfined, inside the hub")
    most = int(config.get("memory", memory))
    walled = asked and available()
    if needed and not walled:
        return replace(NOTHING, asked=True, sentence=REFUSED)
    own = "in a process of its own" if kind == "python" else "in a process of its own for each call"
    rest = f", {WALLS}" if walled else f", {WITHOUT}" if asked else ""
    return Confinement("process", most, asked, walled, f"{own}, memory {most} MiB{rest}")


def protections(kind: str, runs: Confinement, names: Sequence[str], version: int) -> list[dict[str, Any]]:
    """What keeps the code of a server away from the hub, a row for each protection; nothing where none of it runs.

    `names` are those in force in the processes of Python definitions, `version` is that of Landlock.
    """
    if runs.isolation != "process":
        return []
    held = names if kind == "python" else [name for name in names if name != NAMESPACES]
    return [{"what": what, "holds": holds, "sentence": said} for what, holds, said in told(held, version)]
