"""From a definition to the handler that runs it: its kind makes it, in the way in which this hub runs code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchbay.activation import Handler
from patchbay.errors import ConfigError
from patchbay.kind import find_kind
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.processes.limits import MEMORY, Limits
from patchbay.processes.sandbox import is_sandboxed

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
    """The handler of a definition (its bytes, their CID, the server's name), or None for a kind that runs nothing.

    `config` is the server's mcps configuration: `isolation`, `memory`, `sandbox` and `environment` count here;
    what it does not say is as in `using`. Without that, Python runs inside the hub, in its environment. A server
    with an environment of its own needs processes of its own, and gets them whatever `using` says of isolation.

    Raises ConfigError for a sandbox that is asked for and cannot be had.
    """
    row = find_kind(kind)
    if row is None or row.make_handler is None:
        return None
    return row.make_handler(source, cid, name, config or {}, using or Handlers())


@dataclass(frozen=True)
class Handlers:
    """How one hub makes its handlers. `isolation` and `memory` (MiB) are for servers that say neither.

    `folder_of` names the folder for files of a server's own, `writes` the folders that all may change.

    Raises ConfigError for an isolation that there is not.
    """

    hosts: WorkerPool | None = None
    isolation: str = INLINE
    memory: int = MEMORY
    folder_of: Callable[[str], Path] | None = None
    writes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise ConfigError("isolation", "", f"expected {' or '.join(ISOLATIONS)}, got {self.isolation!r}")

    def limits(self, config: Mapping[str, Any], inline: bool, name: str) -> Limits:
        """The limits of a server's processes. Raises ConfigError for a sandbox that cannot be had."""
        writes = (*self.writes, *config.get("writes", ()))
        return Limits(config.get("memory", self.memory), is_sandboxed(config, inline, name), writes)

    def __call__(
        self, kind: str, source: bytes, cid: str, name: str, config: Mapping[str, Any] | None = None
    ) -> Handler | None:
        """As `handler_for`."""
        return handler_for(kind, source, cid, name, config, self)
