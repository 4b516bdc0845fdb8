"""What the tests of handlers share: calls, a small hub, and one way to wait."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

from patchbay.activation import Call, Handler, activate
from patchbay.cid import cid_of
from patchbay.errors import ResourceNotFound, ToolFailed
from patchbay.events import Event, Pause
from patchbay.kinds.python.direct_calls import python_handler
from patchbay.kinds.shell.handler import shell_handler
from patchbay.processes.limits import Limits
from patchbay.views.fold import fold


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@dataclass
class SmallHub:
    """A hub with a few handlers and resources in memory."""

    servers: dict[str, Handler] = field(default_factory=dict)
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    announced: list[tuple[str, ...]] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)

    def read(self, uri: str, call: Call) -> dict[str, Any]:
        self.reads.append(uri)
        if uri.startswith("server://"):
            server, _, function = uri.removeprefix("server://").partition("/")
            result = self._run(server, function or "main", {}, call)
            if result.get("isError"):
                raise ToolFailed(result["content"][-1]["text"])
            return {"uri": uri, "mimeType": "text/plain", "text": result["content"][0]["text"]}
        if uri not in self.resources:
            raise ResourceNotFound(uri)
        return self.resources[uri]

    def call(self, server: str, tool: str, arguments: dict[str, Any], call: Call) -> dict[str, Any]:
        return self._run(server, tool, arguments, call)

    def _run(self, server: str, tool: str, arguments: dict[str, Any], call: Call) -> dict[str, Any]:
        inner = replace(call, server=server, target={"function": tool}, arguments=arguments)
        return fold(activate(self.servers[server], inner))

    def changed(self, server: str, kind: str) -> None:
        self.announced.append(("changed", server, kind))

    def emit(self, server: str, event: str, data: Mapping[str, Any], id: str) -> str:
        self.announced.append((event, server, id))
        return id or "evt"

    def updated(self, server: str, uri: str) -> None:
        self.announced.append(("updated", server, uri))

    def state(self, server: str, call: Any = None) -> MutableMapping[str, Any]:
        return self.states.setdefault(server, {})

    def over(self) -> bool:
        return False

    def is_current(self, sender: Any) -> bool:
        return True


def python(source: str, name: str = "tool") -> Handler:
    """Return the handler of a Python definition."""
    data = dedent(source).encode()
    return python_handler(data, cid_of(data), name)


def shell(source: str | bytes, name: str = "tool", hidden: Sequence[Path] = (), **limits: Any) -> Handler:
    """Return the handler of a shell definition."""
    data = source if isinstance(source, bytes) else dedent(source).encode()
    return shell_handler(data, name, limits=Limits(**limits), hidden=hidden)


def call_of(arguments: dict[str, Any] | None = None, /, left: float = 20.0, **more: Any) -> Call:
    """Return a call of `main` with this many seconds left; `more` are further fields of the Call."""
    more.setdefault("target", {"function": "main"})
    return Call(server="tool", arguments=arguments or {}, deadline=time.monotonic() + left, **more)


def next_event(running: Iterator[Event]) -> Event:
    """Return the next event of an activation that is not a Pause."""
    return next(event for event in running if not isinstance(event, Pause))


def events(handler: Handler, call: Call) -> list[Event]:
    """Return all events of one activation except the Pauses, of which there may be any number."""
    return [event for event in activate(handler, call) if not isinstance(event, Pause)]
