"""What running tools may ask of the hub: the catalogue's filler of `activation.Hub`.

Rules: a tool that another tool calls has no more time than its caller and may not ask its caller's
client; a chain of calls is bounded and never turns back on itself.
Sources: DESIGN sections 5 and 6; REQUIREMENTS VWR-27, V-C10.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Protocol
from urllib.parse import quote, unquote

import orjson

from patchbay.activation import Call
from patchbay.arguments import problems, told, validator
from patchbay.catalogue.outputs import keep_output
from patchbay.catalogue.resources import Plugged, read_resource
from patchbay.catalogue.servers import Server
from patchbay.errors import ReadOnly, ToolFailed, UnknownServer
from patchbay.store import Store
from patchbay.views.fold import fold

DEEPEST = 8
"""How many tools may call each other in one chain."""

STATE_LIMIT = 1024 * 1024
"""Largest value of a server's memory, in bytes of JSON."""


class Running(Plugged, Protocol):
    """The part of the catalogue that the hub needs."""

    readonly: bool

    def rerun(self, name: str, kind: str) -> None: ...


class CatalogueHub:
    """Lets tools read, call, remember and announce. `read_limit` in bytes."""

    def __init__(self, catalogue: Running, read_limit: int) -> None:
        self._catalogue = catalogue
        self._read_limit = read_limit

    def read(self, uri: str, call: Call) -> dict[str, Any]:
        """The first content of a resource, seen from the calling server. Raises ResourceNotFound, ToolFailed."""
        server = self._catalogue.find(call.server)
        inner = replace(_deeper(call, None), capabilities={}, progress_token=None)
        return read_resource(self._catalogue, server, uri, inner, self._read_limit)[0]

    def call(self, server: str, tool: str, arguments: dict[str, Any], call: Call) -> dict[str, Any]:
        """The result of another server's tool. Raises ToolFailed for what cannot be called."""
        try:
            found = self._catalogue.find(server)
        except UnknownServer as problem:
            raise ToolFailed(problem.message) from problem
        descriptor = found.tools.get(tool)
        if descriptor is None:
            close = get_close_matches(tool, found.tools, 3)
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise ToolFailed(f"there is no tool {tool} on {server}{hint}")
        _check(descriptor.wire["inputSchema"], arguments, f"{server}.{tool}")
        seconds = float(descriptor.target.get("timeout", found.timeout))
        inner = replace(
            _deeper(call, f"{server}.{tool}"),
            server=server,
            target=descriptor.target,
            arguments=arguments,
            deadline=min(call.deadline, time.monotonic() + seconds),
            capabilities={},
            progress_token=None,
        )
        result = fold(found.activate(descriptor, inner))
        if not result.get("isError"):
            self.remember(found, tool, result)
        return result

    def changed(self, server: str, kind: str) -> None:
        """Run a server's transforms again; listeners hear of it, as the author says so."""
        self._catalogue.rerun(server, kind)

    def updated(self, server: str, uri: str) -> None:
        """Tell listeners that a resource's content changed."""
        self._catalogue.store.bus.publish(f"updated/{server}", uri.encode())

    def state(self, server: str) -> MutableMapping[str, Any]:
        """A server's own memory in the store."""
        return State(self._catalogue.store, server, self._catalogue.readonly)

    def remember(self, server: Server, tool: str, result: dict[str, Any]) -> None:
        """Keep the text of a tool's successful result, where a resource shows it; nothing in a read-only hub."""
        if tool not in server.remembered or self._catalogue.readonly:
            return
        text = "".join(block["text"] for block in result["content"] if block.get("type") == "text")
        keep_output(self._catalogue.store, server.name, tool, text.encode())
        for resource in server.resources.values():
            if resource.target.get("last_output_of") == tool:
                self.updated(server.name, resource.name)


def _deeper(call: Call, word: str | None) -> Call:
    """The call one step down its chain. Raises ToolFailed for a cycle or a chain that is too long."""
    if word is None:
        return call
    chain = (*call.chain, word)
    if word in call.chain:
        raise ToolFailed(f"these tools call each other in a circle: {' -> '.join(chain)}")
    if len(chain) > DEEPEST:
        raise ToolFailed(f"more than {DEEPEST} tools call each other: {' -> '.join(chain)}")
    return replace(call, chain=chain)


def _check(schema: Mapping[str, Any], arguments: dict[str, Any], what: str) -> None:
    wrong = problems(validator(schema), arguments)
    if wrong:
        raise ToolFailed(f"the arguments do not fit {what}: {told(wrong)}")


class State(MutableMapping[str, Any]):
    """JSON values under string keys, each a name in the store; every change is kept as its past."""

    def __init__(self, store: Store, server: str, readonly: bool) -> None:
        self._store = store
        self._server = server
        self._prefix = f"state/{server}/"
        self._readonly = readonly

    def __getitem__(self, key: str) -> Any:
        cid = self._store.names.get(self._prefix + quote(key, safe=""))
        if cid is None:
            raise KeyError(key)
        return orjson.loads(self._store.blobs.get(cid))

    def __setitem__(self, key: str, value: Any) -> None:
        try:
            data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except TypeError as problem:
            raise ToolFailed(f"state holds JSON values: {key}: {problem}") from problem
        if len(data) > STATE_LIMIT:
            raise ToolFailed(f"state holds values of at most {STATE_LIMIT} bytes; {key} has {len(data)}")
        self._move(key, self._store.blobs.put(data), "set")

    def __delitem__(self, key: str) -> None:
        if self._store.names.get(self._prefix + quote(key, safe="")) is None:
            raise KeyError(key)
        self._move(key, None, "deleted")

    def __iter__(self) -> Iterator[str]:
        return iter([unquote(name.removeprefix(self._prefix)) for name in self._store.names.all(self._prefix)])

    def __len__(self) -> int:
        return len(self._store.names.all(self._prefix))

    def _move(self, key: str, cid: str | None, why: str) -> None:
        if self._readonly:
            raise ReadOnly("nothing can be changed here: the hub runs a read-only boot image")
        self._store.names.move({self._prefix + quote(key, safe=""): cid}, self._server, f"{why} {key}")
