"""How the code of a server runs on this machine, said honestly: what holds it, and what does not.

The rules are those of `handler_for`; that the two agree is a test.
Sources: DESIGN section 6; THREATS 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from patchbay.kind import NOTHING_RUNS, Confinement, kind_named
from patchbay.processes.confinement.protections import describe_protections
from patchbay.processes.limits import MEMORY
from patchbay.processes.sandbox import IF_AVAILABLE, available

NOTHING = NOTHING_RUNS
WALLS = "sandboxed: read-only root, private /tmp, no network"
WITHOUT = "without the sandbox that it would have, as bubblewrap does not work here"
REFUSED = "nothing of it runs: it asks for a sandbox, and bubblewrap does not work here"
INSIDE = "nothing of it runs: it asks for a sandbox, and code inside the hub has none"


def confinement(
    kind: str, config: Mapping[str, Any], isolation: str = "process", memory: int = MEMORY, upstream: Any = None
) -> Confinement:
    """How a server of this kind with this configuration runs.

    `isolation` and `memory` (MiB) are the hub's defaults, `upstream` is the connection to a mounted server.
    """
    return kind_named(kind).confine(config, isolation, memory, upstream)


def confine_inline(config: Mapping[str, Any]) -> Confinement:
    """The confinement of code inside the hub, where there is no sandbox."""
    sandbox = config.get("sandbox", False)
    if sandbox and sandbox != IF_AVAILABLE:
        return replace(NOTHING, asked=True, sentence=INSIDE)
    return Confinement("inline", None, bool(sandbox), False, "unconfined, inside the hub")


def confine_process(place: str, config: Mapping[str, Any], memory: int) -> Confinement:
    """The confinement of code in processes of its own; `place` begins the sentence."""
    sandbox = config.get("sandbox", False)
    asked = bool(sandbox)
    most = int(config.get("memory", memory))
    walled = asked and available()
    if asked and sandbox != IF_AVAILABLE and not walled:
        return replace(NOTHING, asked=True, sentence=REFUSED)
    rest = f", {WALLS}" if walled else f", {WITHOUT}" if asked else ""
    return Confinement("process", most, asked, walled, f"{place}, memory {most} MiB{rest}")


def protections(kind: str, runs: Confinement, names: Sequence[str], version: int) -> list[dict[str, Any]]:
    """What keeps the code of a server away from the hub, a row for each protection; nothing where none of it runs.

    `names` are those in force in the processes of Python definitions, `version` is that of Landlock.
    """
    if runs.isolation != "process":
        return []
    lacks = kind_named(kind).lacks
    held = [name for name in names if name not in lacks]
    return [
        {"what": what, "holds": holds, "sentence": said} for what, holds, said in describe_protections(held, version)
    ]
