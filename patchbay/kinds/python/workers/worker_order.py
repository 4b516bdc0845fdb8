"""The order for a worker: which definition it loads, for which server, within which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from patchbay.config import FindVariables, resolved
from patchbay.environments.environment import PackageEnvironment
from patchbay.kinds.python.workers import frames
from patchbay.processes.limits import Limits

FOLDER_WORD = b"folder"
"""A definition whose source contains this word may use the folder of its server (`context.folder`)."""


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """The order for a worker: a definition, for one server, within limits, with variables for its environment.

    `environment` has its references (`config.resolved`) to what `find_variables` returns; `own` is the folder of the
    server, which its code may change; `packages` are those that the definition requires.
    """

    name: str
    cid: str
    source: bytes
    limits: Limits
    environment: Mapping[str, str] = field(default_factory=dict)
    own: Path | None = None
    packages: PackageEnvironment | None = None
    find_variables: FindVariables | None = field(default=None, compare=False)
    key: str = field(init=False)

    def __post_init__(self) -> None:
        packages = self.packages.needs.key if self.packages is not None else ""
        parts = (self.name, self.cid, self.limits, dict(self.environment), packages)
        object.__setattr__(self, "key", " ".join(map(str, parts)))

    def frame(self) -> bytes:
        """Return the frame of the order. Raises ConfigError for a variable that the hub does not have."""
        found = self.find_variables(self.name) if self.environment and self.find_variables is not None else None
        variables = resolved(self.environment, self.name, found)
        own = []
        if self.own is not None:
            if FOLDER_WORD in self.source:  # a folder must exist before a worker is confined, to be permitted to it
                self.own.mkdir(parents=True, exist_ok=True)
            own.append(str(self.own.absolute()))
        packages = [str(self.packages.folder), str(self.packages.site)] if self.packages is not None else []
        limits = self.limits
        places = (own, limits.writes, packages)
        head = orjson.dumps([self.name, self.cid, limits.memory, variables, *places, limits.sandbox])
        return frames.frame(frames.LOAD, head + b"\n" + self.source)
