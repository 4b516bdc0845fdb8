"""What running tools may ask of the hub: the catalogue's filler of `activation.Hub`.

Rules: a tool that another tool calls has no more time than its caller and may not ask its caller's
client; a chain of calls is bounded and never turns back on itself.
Sources: DESIGN sections 5 and 6; REQUIREMENTS VWR-27, V-C10.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from patchbay.activation import Call, CancelFlag, Closing, Memory, activate
from patchbay.boot import variable
from patchbay.catalogue.reading.last_outputs import keep_output
from patchbay.catalogue.reading.resources import CatalogueForReading, read_resource
from patchbay.catalogue.rows import (
    parse_row,
)
from patchbay.catalogue.servers import Server
from patchbay.catalogue.tool_state import State
from patchbay.errors import ContentError, ToolFailed, UnknownServer
from patchbay.events import Failed
from patchbay.settings import Settings
from patchbay.topics import SERVERS, UPDATED, VARIABLES

log = logging.getLogger(__name__)


MAX_CALL_CHAIN = 8
"""How many tools may call each other in one chain."""

ALONE = 64
"""How many functions may run by themselves in one process."""

ALONE_SECONDS = 3600.0
"""How long one of them may take."""


RunTool = Callable[["CatalogueHub", Server, str, dict[str, Any], Call], dict[str, Any]]
"""Runs the tool of a name for a Call whose chain names it; gives its whole result, or raises ToolFailed."""


class CatalogueForHub(CatalogueForReading, Protocol):
    """The part of the catalogue that the hub needs."""

    readonly: bool
    settings: Settings

    def rerun(self, name: str, kind: str) -> None: ...


class CatalogueHub:
    """Lets tools read, call, remember and announce. `read_limit` in bytes.

    `left` is how many seconds calls still have: infinite until the hub is to stop. `run_tool` runs a tool for another
    one; who puts the hub together sets it.
    """

    def __init__(self, catalogue: CatalogueForHub, read_limit: int) -> None:
        self.left: Callable[[], float] = lambda: math.inf
        self.run_tool: RunTool = _refuse_to_run
        self._catalogue = catalogue
        self._read_limit = read_limit
        self._alone: set[CancelFlag] = set()
        self._counting = threading.Lock()
        self._keeping = threading.Lock()
        self._kept: dict[str, Closing] = {}
        self._closed = False

    def over(self) -> bool:
        """Whether the hub ends and has no more time for what still runs."""
        return self.left() <= 0

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
        return self.run_tool(self, found, tool, arguments, _deeper(call, f"{server}.{tool}"))

    def start(self, function: str, arguments: dict[str, Any], call: Call) -> None:
        """Run a function of the calling server by itself, in at most ALONE_SECONDS. Raises ToolFailed for too many.

        What it says goes nowhere; that it failed goes to the hub's log.
        """
        server = self._catalogue.find(call.server)
        inner = replace(
            _deeper(call, f"{call.server}, {function} by itself"),
            target={"function": function},
            arguments=arguments,
            deadline=time.monotonic() + ALONE_SECONDS,
            capabilities={},
            progress_token=None,
            cancelled=CancelFlag(),
        )
        with self._counting:
            if len(self._alone) >= ALONE:
                raise ToolFailed(f"{ALONE} functions run by themselves already; try again later")
            self._alone.add(inner.cancelled)
        threading.Thread(target=self._run_alone, args=(server, inner), name=f"{function} alone", daemon=True).start()

    def _run_alone(self, server: Server, call: Call) -> None:
        assert server.handler is not None, f"{server.name} has nothing that runs a function"
        try:
            for event in activate(server.handler, call):
                if isinstance(event, Failed):
                    log.warning("%s, %s by itself: %s", server.name, call.target["function"], event.message)
        finally:
            with self._counting:
                self._alone.discard(call.cancelled)

    def configured(self, kind: str) -> dict[str, str]:
        """The texts of all `variables`, or the definitions of all `servers` that are switched on, by name."""
        store = self._catalogue.store
        if kind == "servers":
            cids = store.names.all(SERVERS).items()
            rows = [parse_row(name.removeprefix(SERVERS), store.blobs.get(cid)) for name, cid in cids]
            sources = {row.name: store.blobs.get(row.definition_cid) for row in rows if row.enabled}
            return {name: source.decode("utf-8", "replace") for name, source in sources.items()}
        names = [name.removeprefix(VARIABLES) for name in store.names.all(VARIABLES)]
        values = {name: variable(store, name) for name in names}
        return {name: value.decode("utf-8", "replace") for name, value in values.items() if value is not None}

    def folder(self, server: str) -> Path:
        """The folder for files of a server's own."""
        return self._catalogue.settings.folder_of(server)

    def kept(self, server: str, make: Callable[[], Closing]) -> Any:
        """What `make` gave the first time this server asked; closed when the hub ends. Raises ToolFailed after that."""
        with self._keeping:
            if self._closed:
                raise ToolFailed("the hub is ending")
            if server not in self._kept:
                self._kept[server] = make()
            return self._kept[server]

    def close(self) -> None:
        """Cancel what runs by itself; close what is kept."""
        with self._counting:
            for flag in self._alone:
                flag.set("the hub is ending")
        with self._keeping:
            self._closed, kept = True, list(self._kept.values())
            self._kept.clear()
        for one in kept:
            one.close()

    def changed(self, server: str, kind: str) -> None:
        """Run a server's transforms again; listeners hear of it, as the author says so."""
        self._catalogue.rerun(server, kind)

    def updated(self, server: str, uri: str) -> None:
        """Tell listeners that a resource's content changed."""
        self._catalogue.store.bus.publish(f"{UPDATED}{server}", uri.encode())

    def state(self, server: str) -> Memory:
        """A server's own memory in the store."""
        return State(self._catalogue.store, server, self._catalogue.readonly)

    def remember(self, server: Server, tool: str, result: dict[str, Any]) -> None:
        """Keep the text of a tool's successful result, where a resource shows it; nothing in a read-only hub.

        A store that fails, such as on a full disk, costs the text and never the result.
        """
        if tool not in server.remembered or self._catalogue.readonly:
            return
        text = "".join(block["text"] for block in result["content"] if block.get("type") == "text")
        try:
            keep_output(self._catalogue.store, server.name, tool, text.encode())
        except ContentError as problem:
            log.warning("the last output of %s.%s is not kept: %s", server.name, tool, problem.message)
            return
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
    if len(chain) > MAX_CALL_CHAIN:
        raise ToolFailed(f"more than {MAX_CALL_CHAIN} tools call each other: {' -> '.join(chain)}")
    return replace(call, chain=chain)


def _refuse_to_run(
    hub: CatalogueHub, server: Server, name: str, arguments: dict[str, Any], call: Call
) -> dict[str, Any]:
    raise ToolFailed(f"{server.name}.{name} cannot be called: this hub is not put together yet")
