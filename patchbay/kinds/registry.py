"""What runs tools: one file or folder per kind of definition, each a filler of the seam in `activation.py`.

`python.py` (inside the hub), `hosts/` (Python in processes of its own), `shell.py` and `upstream.py` (mounted
servers) are the fillers and do not know each other; the other files are what they are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchbay.activation import Handler
from patchbay.errors import ConfigError
from patchbay.kinds.python.inline import python_handler
from patchbay.kinds.python.workers.handler import hosted_handler
from patchbay.kinds.python.workers.worker_pool import Hosts
from patchbay.kinds.shell.handler import shell_handler
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
    config = config or {}
    environment = config.get("environment", {})
    if kind not in ("shell", "python"):
        return None
    using = using or Handlers()
    inline = kind == "python" and (
        using.hosts is None or config.get("isolation", "process" if environment else using.isolation) == INLINE
    )
    writes = (*using.writes, *config.get("writes", ()))
    limits = Limits(config.get("memory", using.memory), is_sandboxed(config, inline, name), writes)
    if kind == "shell":
        if using.hosts is None:
            return shell_handler(source, cid, name, environment, limits)
        around = (using.hosts.hidden, using.hosts.wanted, using.hosts.kept)
        return shell_handler(source, cid, name, environment, limits, *around)
    if inline or using.hosts is None:
        return python_handler(source, cid, name)
    own = using.folder_of(name) if using.folder_of is not None else None
    return hosted_handler(using.hosts, source, cid, name, limits, environment, own)


@dataclass(frozen=True)
class Handlers:
    """How one hub makes its handlers. `isolation` and `memory` (MiB) are for servers that say neither.

    `folder_of` names the folder for files of a server's own, `writes` the folders that all may change.

    Raises ConfigError for an isolation that there is not.
    """

    hosts: Hosts | None = None
    isolation: str = INLINE
    memory: int = MEMORY
    folder_of: Callable[[str], Path] | None = None
    writes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise ConfigError("isolation", "", f"expected {' or '.join(ISOLATIONS)}, got {self.isolation!r}")

    def __call__(
        self, kind: str, source: bytes, cid: str, name: str, config: Mapping[str, Any] | None = None
    ) -> Handler | None:
        """As `handler_for`."""
        return handler_for(kind, source, cid, name, config, self)
