"""The servers whose programs, connections, packages and transforms begin with the hub.

A hub that serves all servers needs all of them. A process that serves one (`patchbay stdio NAME`, a command) needs that
one; another one begins when a tool calls it.
"""

from __future__ import annotations

from collections.abc import Iterable


class NeededServers:
    """The needed servers of one process, by name; without `names`, all servers."""

    def __init__(self, names: Iterable[str] | None = None) -> None:
        self._names = None if names is None else set(names)

    def __call__(self, name: str) -> bool:
        """Whether the server of this name is needed."""
        return self._names is None or name in self._names

    def add(self, name: str) -> bool:
        """Need a further server; return whether it was not needed before."""
        if self._names is None or name in self._names:
            return False
        self._names.add(name)
        return True
