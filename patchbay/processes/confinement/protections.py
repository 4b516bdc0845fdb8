"""Which protections of the hub against tools are active on this machine, and how a process applies them.

`wanted` are the names of the setting `protections`. A protection that is wanted and available is active: when it then
fails for one process, that process runs no code. `describe_protections` names the ones that are not available; the
others stay active.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchbay.processes.confinement.denials import Rules
from patchbay.processes.confinement.kernel import LINUX, drop_capabilities
from patchbay.processes.confinement.landlock import NETWORK_ABI, SCOPE_ABI, restrict, version
from patchbay.processes.confinement.namespaces import cover, is_available
from patchbay.processes.confinement.paths import AllowedPaths
from patchbay.processes.confinement.privacy import hide_memory

LANDLOCK, NAMESPACES, PRIVACY = "landlock", "namespaces", "privacy"
ALL = (LANDLOCK, NAMESPACES, PRIVACY)

MAX_SHARED_MIB = 1 << 20
"""Upper limit in MiB of a worker process's shared memory, whatever its memory limit."""


@dataclass(frozen=True, slots=True)
class Protections:
    """The protections of the worker processes of one fork server: the active names, the folders hidden from all of
    them, and the folders that they may not change.
    """

    names: tuple[str, ...] = ()
    hidden: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()

    def describe(self, server: str, places: AllowedPaths, sandbox: bool) -> Rules | None:
        """Return what the code of a server may do, to explain refusals; None where the hub refuses nothing."""
        if LANDLOCK not in self.names and not sandbox:
            return None
        return Rules(server, self._all(places), sandbox, NAMESPACES in self.names)

    def _all(self, places: AllowedPaths) -> AllowedPaths:
        """Add the folders hidden from all."""
        return replace(places, hidden=(*places.hidden, *self.hidden), kept=(*places.kept, *self.kept))

    def apply(self, places: AllowedPaths, memory_mib: int) -> None:
        """Apply the protections to this worker process, before it runs any definition. Permanent. Raises OSError.

        `places` are the paths of its server; the folders hidden from all are added.
        """
        known = self._all(places)
        covered = NAMESPACES in self.names
        if covered:
            cover(known, min(memory_mib, MAX_SHARED_MIB))
        if self.names:
            drop_capabilities()
        if LANDLOCK in self.names:
            restrict(known, covered)


def active_protections(wanted: Collection[str]) -> tuple[str, ...]:
    """Return the wanted protections that this machine has; the calling process must have one thread."""
    has = {
        LANDLOCK: version() > 0,
        NAMESPACES: NAMESPACES in wanted and is_available(),
        PRIVACY: LINUX,
    }
    return tuple(name for name in ALL if name in wanted and has[name])


def protect_hub(wanted: Collection[str]) -> None:
    """Protect this process, one of the hub's own, from being read."""
    if PRIVACY in wanted:
        hide_memory()


def describe_protections(names: Collection[str], version: int) -> Sequence[tuple[str, bool, str]]:
    """Return a row for each protection: its title, whether it is active, and what it does or what is missing.

    `names` are the active protections, `version` is that of Landlock.
    """
    locked = LANDLOCK in names
    ports = locked and version >= NETWORK_ABI
    signals = NAMESPACES in names or (locked and version >= SCOPE_ABI)
    return (
        _row("files", locked, "a tool reads nothing of the hub's data and changes only its own folders", "5.13"),
        _row("ports", ports, "a tool cannot listen on the hub's port", "6.7"),
        _row("signals", signals, "a tool cannot stop or end the hub's processes", "6.12, or user namespaces"),
        _row("processes", NAMESPACES in names, "a Python tool sees no process but its own", "user namespaces"),
        _row("shared memory", NAMESPACES in names, "a Python tool has its own, of bounded size", "user namespaces"),
        _row("memory", PRIVACY in names, "no process of the same user reads the hub's memory", "any version"),
    )


def _row(title: str, holds: bool, what: str, needs: str) -> tuple[str, bool, str]:
    return title, holds, what if holds else f"not protected here; needs Linux with {needs}"
