"""The hub as a tool in a worker sees it: every request goes over the pipe and is served in the hub.

The hub knows which server calls; it ignores the worker's own claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from patchbay.activation import Call, Events, Memory
from patchbay.errors import ToolFailed


class RemoteHub:
    """Sends requests to the hub. `request` sends one and waits; `depth` is the length of the call chain at its
    beginning.
    """

    def __init__(self, request: Callable[..., Any], depth: int) -> None:
        self._request = request
        self._depth = depth

    def read(self, uri: str, call: Call) -> dict[str, Any]:
        """Return one resource content. Raises ResourceNotFound, ToolFailed."""
        return dict(self._request("read", uri, list(call.chain[self._depth :])))

    def call(self, server: str, tool: str, arguments: dict[str, Any], call: Call) -> dict[str, Any]:
        """Return the result of another server's tool. Raises ToolFailed."""
        return dict(self._request("call", server, tool, arguments))

    def pass_on(self, entry: Any, arguments: dict[str, Any], call: Call) -> Events:
        """Raise ToolFailed: no definition is a toolset."""
        raise ToolFailed("only a toolset passes its calls on to other servers")

    def pass_on_reading(self, entry: Any, uri: str, call: Call) -> Events:
        """Raise ToolFailed: no definition is a toolset."""
        raise ToolFailed("only a toolset passes its calls on to other servers")

    def run_saved_script(self, server: Any, script: Any, arguments: dict[str, Any], call: Call) -> Events:
        """Raise ToolFailed: no definition is a toolset."""
        raise ToolFailed("only a toolset has scripts as its tools")

    def start(self, function: str, arguments: dict[str, Any], call: Call) -> None:
        """Run a function of this definition independently. Raises ToolFailed."""
        self._request("start", function, arguments)

    def configured(self, kind: str, call: Call) -> dict[str, str]:
        """Return the texts of the visible variables, or the definitions of the visible servers, by name."""
        return dict(self._request("configured", kind))

    def changed(self, server: str, kind: str) -> None:
        """Announce that this server's lists may have changed."""
        self._request("changed", kind)

    def updated(self, server: str, uri: str) -> None:
        """Announce that a resource's content changed."""
        self._request("updated", uri)

    def emit(self, server: str, event: str, data: Mapping[str, Any], id: str) -> str:
        """Emit an event of this server; return its id. Raises ToolFailed."""
        return str(self._request("emit", event, dict(data), id))

    def missed(self, server: str, event: str) -> None:
        """Raise ToolFailed: a definition stores all events that it emits."""
        raise ToolFailed("a Python definition misses no events of its own")

    def state(self, server: str, call: Any = None) -> Memory:
        """Return this server's own state. The hub knows the call."""
        return RemoteState(self._request)

    def over(self) -> bool:
        """Return False: the hub itself ends the call."""
        return False

    def is_current(self, sender: Any) -> bool:
        """Return True: the hub itself ends the call."""
        return True

    def may_use(self, sender: Any, server: str) -> bool:
        """Return True: the hub itself checks the rights of the sender."""
        return True

    def folder(self, server: str) -> Path:
        """Return the folder for files of this server's own."""
        return Path(self._request("folder"))

    def kept(self, server: str, make: Callable[[], Any]) -> Any:
        """Raise ToolFailed: in a worker, no object reliably outlives its call."""
        raise ToolFailed('context.kept works only inside the hub: the server needs "isolation": "inline"')


class RemoteState(Memory):
    """JSON values under string keys, stored in the hub."""

    def __init__(self, request: Callable[..., Any]) -> None:
        self._request = request

    def __getitem__(self, key: str) -> Any:
        found = self._request("state.get", key)
        if not found:
            raise KeyError(key)
        return found[0]

    def __setitem__(self, key: str, value: Any) -> None:
        self._request("state.set", key, value)

    def __delitem__(self, key: str) -> None:
        if not self._request("state.delete", key):
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._request("state.keys"))

    def __len__(self) -> int:
        return len(self._request("state.keys"))

    def starting(self, prefix: str) -> list[str]:
        return list(self._request("state.starting", prefix))

    def several(self, keys: Iterable[str]) -> dict[str, Any]:
        return dict(self._request("state.several", list(keys)))

    def swap(self, changes: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
        return bool(self._request("state.swap", dict(changes), dict(expected)))
