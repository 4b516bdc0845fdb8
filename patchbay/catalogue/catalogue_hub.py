"""The services of the hub for running tools: the catalogue implements `activation.Hub`.

A tool that another tool calls has no more time than its caller and may not ask its caller's client. A chain of calls
has a maximum length and contains no tool twice.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

from patchbay.activation import (
    Call,
    CallPlace,
    CancelFlag,
    Closing,
    Events,
    Memory,
    activate,
)
from patchbay.arguments import describe_problems, problems, validator
from patchbay.background import run_in_background
from patchbay.boot import read_variable
from patchbay.catalogue.reading.last_outputs import store_output
from patchbay.catalogue.reading.resources import (
    CatalogueForReading,
    content_of_result,
    find_changing_tool,
    read_resource,
)
from patchbay.catalogue.servers.rows import ServerRow
from patchbay.catalogue.servers.server import Server
from patchbay.catalogue.tool_state import ServerState
from patchbay.catalogue.toolset_origins import BeginOriginCall, ToolsetOrigins
from patchbay.config import parse_config
from patchbay.descriptors import Descriptor
from patchbay.errors import (
    ContentError,
    PatchbayError,
    ToolFailed,
    UnknownServer,
)
from patchbay.events import Failed
from patchbay.kind import kind_named
from patchbay.occurrences.records import MAX_ID_CHARACTERS, record_event, record_gap
from patchbay.outputs.redirects import REDIRECT_PREFIX
from patchbay.settings import Settings
from patchbay.topics import UPDATED, VARIABLES
from patchbay.upstreams.lists.snapshots import mounts_in
from patchbay.upstreams.standing import wait_until_known

log = logging.getLogger(__name__)


MAX_CALL_CHAIN = 8
"""Maximum length of a chain of tools that call each other."""

MAX_INDEPENDENT_FUNCTIONS = 64
"""Maximum number of independent functions in one process."""

INDEPENDENT_FUNCTION_SECONDS = 3600.0
"""Seconds that an independent function may take."""


VisibleTo = Callable[[Any], CatalogueForReading]
"""Returns the catalogue as the sender of a call (`Call.sender`) may see it."""


BeginCall = Callable[[Any, str, bool], CallPlace | None]
"""Counts a call of a sender (`Call.sender`) on a server, nested or not; None if it needs no count. Raises OverQuota."""

Gate = Callable[[Server, Descriptor, Call, Events], Events]
"""Returns the events of a call, which begin only after its approval if the call needs one."""

RunTool = Callable[["CatalogueHub", Server, str, dict[str, Any], Call], dict[str, Any]]
"""Runs the named tool for a Call whose chain contains it; returns its whole result, or raises ToolFailed."""


BeginScriptCall = Callable[["CatalogueHub", Server, Descriptor, dict[str, Any], Call], Any]
"""Prepares the call of a tool for a script, whose Call has a chain that contains it."""


RunSavedScript = Callable[[Server, Any, dict[str, Any], Call], Events]
"""Returns the events of a saved script that calls tools of a server."""


class CatalogueForHub(CatalogueForReading, Protocol):
    """The part of the catalogue that CatalogueHub uses."""

    readonly: bool
    settings: Settings

    def rerun(self, name: str, kind: str) -> None: ...

    def configuration(self, name: str) -> Mapping[str, Any]: ...

    def planned_rows(self) -> Sequence[ServerRow]: ...

    def begin(self, name: str) -> bool: ...

    def catch_up(self) -> None: ...


class CatalogueHub:
    """Lets tools read, call, store and announce. `read_limit` in bytes.

    `left` returns the seconds that calls still have: infinite until the hub is to stop. `run_tool` runs a tool for
    another one, `begin_script_call` one for a script and `begin_saved_script` a script that is a tool, `visible_to`
    returns the catalogue as the sender of a call may see it, `is_current` says whether the credentials of a sender
    are still valid, `begin_call` counts a call against its quotas, `begin_origin_call` a call through a toolset on
    the server behind it, `count_state` the bytes that a principal writes into the state of tools, `gate` holds a call
    until it is approved, and `resumed_scripts` goes on with suspended runs of scripts (None: none is suspended); the
    assembly of the hub sets them.
    """

    def __init__(self, catalogue: CatalogueForHub, read_limit: int) -> None:
        self.left: Callable[[], float] = lambda: math.inf
        self.run_tool: RunTool = _refuse_to_run
        self.visible_to: VisibleTo = lambda sender: catalogue
        self.is_current: Callable[[Any], bool] = lambda sender: True
        self.begin_call: BeginCall = lambda sender, server, is_nested: None
        self.begin_origin_call: BeginOriginCall = lambda sender, server: None
        self.count_state: Callable[[str, int], None] = lambda principal, size: None
        self.begin_script_call: BeginScriptCall = _refuse_to_run
        self.begin_saved_script: RunSavedScript = _refuse_to_run_script
        self.gate: Gate = lambda server, descriptor, call, events: events
        self.resumed_scripts: Any = None
        self.origins = ToolsetOrigins(catalogue, self)
        self._catalogue = catalogue
        self._read_limit = read_limit
        self._alone: set[CancelFlag] = set()
        self._counting = threading.Lock()
        self._keeping = threading.Lock()
        self._kept: dict[str, Closing] = {}
        self._closed = False

    def may_use(self, sender: Any, server: str) -> bool:
        """Whether the credentials of the sender of a call are still valid, and its rights show a server."""
        if not self.is_current(sender):
            return False
        try:
            self.visible_to(sender).find(server)
        except UnknownServer:
            return False
        return True

    def over(self) -> bool:
        """Whether the hub is stopping and the time of running calls is over."""
        return self.left() <= 0

    @property
    def upload_limit(self) -> int:
        """Limit on the bytes of the contents that one call gets by links."""
        return self._catalogue.settings.upload_limit

    def read_link(self, uri: str, principal: str) -> bytes | None:
        """Return the bytes of a link to a large result or an upload of this principal; None for any other text."""
        return self._catalogue.contents.read_link(uri, principal)

    def read(self, uri: str, call: Call) -> dict[str, Any]:
        """Return the first content of a resource, seen from the calling server. Raises ResourceNotFound, ToolFailed.

        A redirect to a tool that is not marked read-only calls it: with the rights, the approval and the record of a
        call.
        """
        seen = self.seen_by(call)
        if call.chain[-1:] == (f"{REDIRECT_PREFIX}{uri}",) and (target := find_changing_tool(seen, uri)) is not None:
            assert target.descriptor is not None
            return content_of_result(uri, self.call(target.server.name, target.descriptor.name, target.variables, call))
        server = seen.find(call.server)
        inner = replace(_nested_call(call, None), capabilities={}, progress_token=None)
        return read_resource(seen, server, uri, inner, self._read_limit)[0]

    def call(self, server: str, tool: str, arguments: dict[str, Any], call: Call) -> dict[str, Any]:
        """Return the result of another server's tool. Raises ToolFailed when it cannot be called."""
        try:
            found = self._find_begun(server, tool, call)
        except UnknownServer as problem:
            raise ToolFailed(problem.message) from problem
        return self.run_tool(self, found, tool, arguments, _nested_call(call, f"{server}.{tool}"))

    def call_for_script(
        self, name: str, descriptor: Descriptor, arguments: dict[str, Any], call: Call, pinned: Server | None
    ) -> Any:
        """Return the call of a tool for a script: `events()` makes it, and `result` has its whole result then.

        The types of the script are those of `descriptor`. `pinned` is the server of an endpoint of one version.
        Raises ToolFailed when the tool cannot be called, or is no longer the same.
        """
        word = f"{name}.{descriptor.name}"
        try:
            found = self._find_begun(name, descriptor.name, call)
        except UnknownServer as problem:
            raise ToolFailed(problem.message) from problem
        if pinned is not None and not self.seen_by(call).forbids(name, descriptor.name):
            found = pinned
        now = found.tools.get(descriptor.name)
        if now is None or now.digest != descriptor.digest:
            raise ToolFailed(f"{word} has changed since the script began: find the tools again, and run it again")
        return self.begin_script_call(self, found, now, arguments, _nested_call(call, word))

    def run_saved_script(self, server: Server, script: Any, arguments: dict[str, Any], call: Call) -> Events:
        """Return the events of a script that is a tool of a toolset. It calls the tools that its caller may call.

        `server` is the toolset as it is served, or one version of it. Raises ToolFailed.
        """
        try:
            now = self.seen_by(call).find(server.name)
        except UnknownServer as problem:
            shown = call.shown or call.chain[-1]
            sentence = f"{shown} calls tools of {server.name}, to which its caller has no right"
            raise ToolFailed(f"{sentence}, or which is not saved yet") from problem
        if server.pinned:
            now = replace(server, tools={name: one for name, one in server.tools.items() if name in now.tools})
        return self.begin_saved_script(now, script, arguments, call)

    def pass_on(self, entry: Descriptor, arguments: dict[str, Any], call: Call) -> Events:
        """Return the events of the origin of an entry of a toolset, as ToolsetOrigins does."""
        return self.origins.pass_on(entry, arguments, call)

    def pass_on_reading(self, entry: Descriptor, uri: str, call: Call) -> Events:
        """Return the events of the origin of a resource, template or prompt of a toolset, as ToolsetOrigins does."""
        return self.origins.pass_on_reading(entry, uri, call)

    def _find_begun(self, name: str, tool: str, call: Call) -> Server:
        """Return a server for a call of another server's tool, once it has begun. Raises UnknownServer.

        A mounted server whose tools are not known yet gets the time for its first answer, except for a call that comes
        from a mount: two mounts that lead to each other would wait for each other.
        """
        found = self.seen_by(call).find(name)
        if self._catalogue.begin(name):
            found = self.seen_by(call).find(name)
        standing = found.standing
        if standing is None or tool in found.tools or mounts_in(call.meta):
            return found
        wait_until_known(standing, call)
        self._catalogue.catch_up()
        return self.seen_by(call).find(name)

    def start(self, function: str, arguments: dict[str, Any], call: Call) -> None:
        """Run a function of the calling server independently, for at most ALONE_SECONDS. Raises ToolFailed for too
        many.

        Its output is discarded; a failure is logged.
        """
        server = self._catalogue.find(call.server)
        inner = replace(
            _nested_call(call, f"{call.server}, {function} (independent)"),
            target={"function": function},
            arguments=arguments,
            deadline=time.monotonic() + INDEPENDENT_FUNCTION_SECONDS,
            capabilities={},
            progress_token=None,
            cancelled=CancelFlag(),
        )
        with self._counting:
            if len(self._alone) >= MAX_INDEPENDENT_FUNCTIONS:
                raise ToolFailed(f"{MAX_INDEPENDENT_FUNCTIONS} independent functions run already; try again later")
            self._alone.add(inner.cancelled)
        run_in_background(f"{function} alone", self._run_alone, server, inner)

    def _run_alone(self, server: Server, call: Call) -> None:
        assert server.handler is not None, f"{server.name} has no handler for functions"
        try:
            for event in activate(server.handler, call):
                if isinstance(event, Failed):
                    log.warning("%s, independent function %s: %s", server.name, call.target["function"], event.message)
        finally:
            with self._counting:
                self._alone.discard(call.cancelled)

    def seen_by(self, call: Call) -> CatalogueForReading:
        """Return the catalogue as the caller of a tool may see it: the tool has no other rights than its caller."""
        return self._catalogue if call.sender is None else self.visible_to(call.sender)

    def configured(self, kind: str, call: Call) -> dict[str, str]:
        """Return the texts of all `variables`, or the definitions of all enabled `servers`, by name.

        They are those that the caller may see.
        """
        store, seen = self._catalogue.store, self.seen_by(call)
        if kind == "servers":
            rows = [row for row in self._catalogue.planned_rows() if seen.shows_source(row.name)]
            sources = {row.name: store.blobs.get(row.definition_cid) for row in rows if self._is_enabled(row)}
            return {name: sources[name].decode("utf-8", "replace") for name in sorted(sources)}
        variables = store.names.all(VARIABLES) if seen.shows_everything else ()
        names = [name.removeprefix(VARIABLES) for name in variables]
        values = {name: read_variable(store, name) for name in names}
        return {name: value.decode("utf-8", "replace") for name, value in values.items() if value is not None}

    def _is_enabled(self, row: ServerRow) -> bool:
        """Whether a server is enabled. A configuration that cannot be read does not disable its server."""
        blobs = self._catalogue.store.blobs
        try:
            own = parse_config(blobs.get(row.definition_cid), row.origin) if row.is_configuration else {}
            return row.is_enabled(own or self._catalogue.configuration(row.name))
        except ContentError:
            return row.enabled

    def folder(self, server: str) -> Path:
        """Return the folder for a server's own files."""
        return self._catalogue.settings.folder_of(server, self._catalogue.configuration(server).get("folder"))

    def kept(self, server: str, make: Callable[[], Closing]) -> Any:
        """Return the object that `make` made at the first request of this server; closed when the hub ends.

        Raises ToolFailed after that.
        """
        with self._keeping:
            if self._closed:
                raise ToolFailed("the hub is ending")
            if server not in self._kept:
                self._kept[server] = make()
            return self._kept[server]

    def find_return(self, server: Server, descriptor: Descriptor) -> tuple[str, int | None]:
        """Return the language of a tool's definition, and the line there from which its result comes, if known.

        It reads the definition: ask for it only after a failure.
        """
        name = descriptor.name
        try:
            if descriptor.belongs_to:
                owner, name = descriptor.belongs_to
                server = self._catalogue.find(owner)
            kind = kind_named(server.kind)
            if server.definition is None or name not in server.tools:
                return kind.language, None
            source = self._catalogue.store.blobs.get(server.definition)
            return kind.language, kind.return_line(source, server.tools[name].target)
        except PatchbayError:
            return "", None

    def find_kept(self, server: str) -> Closing | None:
        """Return the newest object that `kept` made for a server; None without one. The keys begin with its name."""
        with self._keeping:
            found = [each for key, each in self._kept.items() if key.partition(" ")[0] == server]
        return found[-1] if found else None

    def close(self) -> None:
        """Cancel independent functions and close the servers' objects."""
        with self._counting:
            for flag in self._alone:
                flag.set("the hub is ending")
        with self._keeping:
            self._closed, kept = True, list(self._kept.values())
            self._kept.clear()
        for each in kept:
            each.close()

    def changed(self, server: str, kind: str) -> None:
        """Run a server's transforms again and announce the change."""
        self._catalogue.rerun(server, kind)

    def updated(self, server: str, uri: str) -> None:
        """Announce that a resource's content changed."""
        self._catalogue.store.bus.publish(f"{UPDATED}{server}", uri.encode())

    def emit(self, server: str, event: str, data: Mapping[str, Any], id: str) -> str:
        """Store an event of a server and announce it; return its id. Raises ToolFailed."""
        found = self._catalogue.find(server)
        descriptor = found.events.get(event)
        if descriptor is None or "source" in descriptor.target:
            known = ", ".join(name for name, one in found.events.items() if "source" not in one.target) or "none"
            raise ToolFailed(f"{server} has no event type {event!r} to emit; its EVENTS has {known}")
        if self._catalogue.readonly:
            raise ToolFailed("this hub is read-only: no events are stored")
        wrong = problems(validator(descriptor.wire["payloadSchema"]), data)
        if wrong:
            raise ToolFailed(f"the data of the event {event} does not fit its type: {describe_problems(wrong)}")
        if len(id) > MAX_ID_CHARACTERS:
            raise ToolFailed(f"the id of an event has {len(id)} characters; at most {MAX_ID_CHARACTERS}")
        return record_event(self._catalogue.store, server, event, data, id)

    def missed(self, server: str, event: str) -> None:
        """Tell subscribers of a server that events may be missing. Raises ToolFailed in a read-only hub."""
        if self._catalogue.readonly:
            raise ToolFailed("this hub is read-only: no events are stored")
        record_gap(self._catalogue.store, server, event)

    def state(self, server: str, call: Call | None = None) -> Memory:
        """Return a server's own key-value state in the store; changes by a call count for its caller."""
        if call is None or call.sender is None:
            return ServerState(self._catalogue.store, server, self._catalogue.readonly)
        count = partial(self.count_state, call.principal)
        return ServerState(self._catalogue.store, server, self._catalogue.readonly, count)

    def remember(self, server: Server, tool: str, result: dict[str, Any]) -> None:
        """Store the text of a tool's successful result for the resources that show it; not in a read-only hub.

        A failing store, such as a full disk, loses the text and never the result.
        """
        if tool not in server.tools_with_stored_output or self._catalogue.readonly:
            return
        text = "".join(block["text"] for block in result["content"] if block.get("type") == "text")
        try:
            store_output(self._catalogue.store, server.name, tool, text.encode())
        except ContentError as problem:
            log.warning("the last output of %s.%s is not stored: %s", server.name, tool, problem)
            return
        for resource in server.resources.values():
            if resource.target.get("last_output_of") == tool:
                self.updated(server.name, resource.name)


def _nested_call(call: Call, word: str | None) -> Call:
    """Return the call one step down its chain. Raises ToolFailed for a cycle or a chain that is too long."""
    if word is None:
        return call
    chain = (*call.chain, word)
    if word in call.chain:
        raise ToolFailed(f"these tools call each other in a cycle: {' -> '.join(chain)}")
    if len(chain) > MAX_CALL_CHAIN:
        raise ToolFailed(f"more than {MAX_CALL_CHAIN} tools call each other: {' -> '.join(chain)}")
    return call.changed(chain=chain)


def _refuse_to_run_script(server: Server, script: Any, arguments: dict[str, Any], call: Call) -> NoReturn:
    raise ToolFailed(f"{server.name} cannot run a script: this hub is still starting")


def _refuse_to_run(hub: CatalogueHub, server: Server, tool: Any, arguments: dict[str, Any], call: Call) -> NoReturn:
    raise ToolFailed(f"{call.chain[-1]} cannot be called: this hub is still starting")
