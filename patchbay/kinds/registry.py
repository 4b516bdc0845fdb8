"""Make the handler of a definition: its kind makes it, according to how this hub runs code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchbay.activation import Handler
from patchbay.config import FindVariables
from patchbay.descriptors import Discovery
from patchbay.environments.environments import PackageEnvironments
from patchbay.errors import ConfigError
from patchbay.kind import Examination, find_kind
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.processes.limits import DEFAULT_MEMORY_MIB, Limits
from patchbay.processes.sandbox import is_sandboxed

log = logging.getLogger(__name__)

INLINE = "inline"
ISOLATIONS = (INLINE, "process")


def handler_for(
    kind: str,
    source: bytes,
    cid: str,
    name: str,
    config: Mapping[str, Any] | None = None,
    using: Handlers | None = None,
) -> Handler | None:
    """Return the handler of a definition (its bytes, their CID, the server's name), or None for a kind without code.

    `config` is the server's mcps configuration: `isolation`, `memory`, `sandbox` and `environment` are used here;
    `using` has the defaults. Without `using`, Python runs inside the hub process, in its environment. A server with its
    own environment always gets its own processes.

    Raises ConfigError for a required sandbox that is not available.
    """
    row = find_kind(kind)
    if row is None or row.make_handler is None:
        return None
    return row.make_handler(source, cid, name, config or {}, using or Handlers())


def examine_definition(
    kind: str,
    source: bytes,
    name: str,
    config: Mapping[str, Any],
    found: Discovery,
    using: Handlers | None = None,
) -> Examination:
    """Return what a definition needs on this machine. Without `using`, no packages are installed.

    Raises ConfigError for requirements that cannot be read.
    """
    row = find_kind(kind)
    return row.examine(source, name, config, found, using or Handlers()) if row is not None else Examination()


@dataclass(frozen=True)
class Handlers:
    """How one hub makes its handlers. `isolation` and `memory` (MiB) are defaults.

    `folder_of` returns the folder for a server's own files, from the server's name and the field `folder` of its
    configuration; `writes` are folders that all servers may change; a configured folder must not overlap the
    `hub_folders`. `environments` have the packages that definitions require; without them, such a definition does not
    run. `find_variables` returns what the `environment` of a server may name; None for the environment of this process.

    Raises ConfigError for an unknown isolation.
    """

    worker_pool: WorkerPool | None = None
    isolation: str = INLINE
    memory: int = DEFAULT_MEMORY_MIB
    folder_of: Callable[[str, str | None], Path] | None = None
    writes: tuple[str, ...] = ()
    hub_folders: tuple[Path, ...] = ()
    environments: PackageEnvironments | None = None
    find_variables: FindVariables | None = None

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise ConfigError("isolation", "", f"expected {' or '.join(ISOLATIONS)}, got {self.isolation!r}")

    def limits(self, config: Mapping[str, Any], inline: bool, name: str) -> Limits:
        """Return the limits of a server's processes. Raises ConfigError for a sandbox that is not available."""
        writes = (*self.writes, *config.get("writes", ()))
        return Limits(config.get("memory", self.memory), is_sandboxed(config, inline, name), writes)

    def folder(self, config: Mapping[str, Any], name: str) -> Path | None:
        """Return the folder for a server's own files; None without a hub.

        The code of the server may read and change everything in this folder, so a configured folder must not contain,
        or lie inside, a folder of the hub. Raises ConfigError.
        """
        configured = config.get("folder")
        if configured is not None:
            wanted = Path(configured).expanduser().resolve()
            for taken in map(Path.resolve, self.hub_folders):
                if wanted.is_relative_to(taken) or taken.is_relative_to(wanted):
                    raise ConfigError(
                        f"the configuration of {name}",
                        "folder",
                        f"expected a folder apart from those of the hub; {configured} overlaps {taken}",
                    )
        return self.folder_of(name, configured) if self.folder_of is not None else None

    def examine(self, kind: str, source: bytes, name: str, config: Mapping[str, Any], found: Discovery) -> Examination:
        """Say what a definition needs on this machine, like `examine_definition`; log what it lacks."""
        needs = examine_definition(kind, source, name, config, found, self)
        for problem in (each for each in needs.problems if each.fix):
            log.warning("%s, line %s: %s\n%s", name, problem.line, problem.reason, problem.fix)
        return needs

    def __call__(
        self, kind: str, source: bytes, cid: str, name: str, config: Mapping[str, Any] | None = None
    ) -> Handler | None:
        """Make a handler, like `handler_for`."""
        return handler_for(kind, source, cid, name, config, self)
