"""Describe how the code of a server runs on this machine: which protections apply, and which do not.

The rules are those of `handler_for`; a test checks that the two agree.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from patchbay.kind import NOTHING_RUNS, Confinement, kind_named
from patchbay.processes.confinement import landlock
from patchbay.processes.confinement.programs import ProgramConfinement, describe_program_protections
from patchbay.processes.confinement.protections import describe_protections
from patchbay.processes.limits import DEFAULT_MEMORY_MIB
from patchbay.processes.sandbox import IF_AVAILABLE, is_available

NOTHING = NOTHING_RUNS
SANDBOXED = "sandboxed: read-only root, private /tmp, no network"
UNSANDBOXED = "without a sandbox, because bubblewrap does not work here"
REFUSED = "its code does not run: it requires a sandbox, and bubblewrap does not work here"
INSIDE = "its code does not run: it requires a sandbox, and code inside the hub has none"


def confinement(
    kind: str,
    config: Mapping[str, Any],
    isolation: str = "process",
    memory: int = DEFAULT_MEMORY_MIB,
    upstream: Any = None,
) -> Confinement:
    """Describe how a server of this kind with this configuration runs.

    `isolation` and `memory` (MiB) are the hub's defaults, `upstream` is the connection to a mounted server.
    """
    return kind_named(kind).confine(config, isolation, memory, upstream)


def confine_inline(config: Mapping[str, Any]) -> Confinement:
    """Return the confinement of code inside the hub process, which has no sandbox."""
    sandbox = config.get("sandbox", False)
    if sandbox and sandbox != IF_AVAILABLE:
        return replace(NOTHING, asked=True, sentence=INSIDE)
    return Confinement("inline", None, bool(sandbox), False, "unconfined, inside the hub")


def confine_process(place: str, config: Mapping[str, Any], memory: int) -> Confinement:
    """Return the confinement of code in its own processes; `place` begins the sentence."""
    sandbox = config.get("sandbox", False)
    asked = bool(sandbox)
    most = int(config.get("memory", memory))
    walled = asked and is_available()
    if asked and sandbox != IF_AVAILABLE and not walled:
        return replace(NOTHING, asked=True, sentence=REFUSED)
    rest = f", {SANDBOXED}" if walled else f", {UNSANDBOXED}" if asked else ""
    return Confinement("process", most, asked, walled, f"{place}, memory {most} MiB{rest}")


def _program_rows(confinement: ProgramConfinement | None) -> Iterator[dict[str, Any]]:
    if confinement is not None and confinement.refusal:
        yield {"what": "confinement", "holds": False, "sentence": f"the program does not start: {confinement.refusal}"}
        return
    if confinement is None or not confinement.is_on:
        why = f" ({confinement.reason_off})" if confinement is not None else ""
        sentence = f"the program is not confined: it has all rights of the hub's user{why}"
        yield {"what": "confinement", "holds": False, "sentence": sentence}
        return
    network = confinement.permissions.network
    rows = describe_program_protections(confinement.names, landlock.version(), os.geteuid() == 0, network)
    yield from ({"what": what, "holds": holds, "sentence": sentence} for what, holds, sentence in rows)


def protections(
    kind: str, runs: Confinement, names: Sequence[str], version: int, upstream: Any = None
) -> list[dict[str, Any]]:
    """Return a row for each protection of the hub against a server's code; an empty list where no code runs.

    `names` are the active protections of the processes of Python definitions, `version` is that of Landlock, `upstream`
    is the connection to a mounted server.
    """
    if runs.isolation == "program":
        return [*_program_rows(upstream.confinement if upstream is not None else None)]
    if runs.isolation != "process":
        return []
    lacks = kind_named(kind).lacks
    active = [name for name in names if name not in lacks]
    return [
        {"what": what, "holds": holds, "sentence": sentence}
        for what, holds, sentence in describe_protections(active, version)
    ]
