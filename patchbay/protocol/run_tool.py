"""The one way to run a tool: find it, check its arguments, make the Call, run it, check and limit its result.

MCP and its tasks (`calls.py`), the native interface (`native/calls.py`), plain HTTP (`web/api/plain.py`) and a tool
that calls a tool (`call_from_tool`) all run tools by `run_tool`, so that no way in avoids the checks of another.
A way in decides only how its caller hears the events and the result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from patchbay.activation import Call, Events
from patchbay.arguments import describe_problems, misfits, problems, validator
from patchbay.catalogue.hub_services import CatalogueHub
from patchbay.catalogue.servers import Server, ServerCache
from patchbay.descriptors import Descriptor
from patchbay.errors import ToolFailed, WrongArguments
from patchbay.events import Ending, Event, Failed
from patchbay.protocol.results.large import Keep, limited, limited_event
from patchbay.views.fold import Fold, ValueFold, folded

_CHECKERS: ServerCache[tuple[str, str], Any] = ServerCache()
"""Compiled validators by schema field and tool name."""


class UnknownTool(ToolFailed):
    """The server has no tool of that name."""

    code, status = -32600, 404


class Reference(NamedTuple):
    """How a large result goes by reference: what keeps it, and the bytes from which on a text is large."""

    keep: Keep
    limit: int


class ToolRun:
    """One run of a tool. Its `events` end as its result counts: a result that breaks the tool's promise is a failure.

    `fold` holds what the events said so far. With `passed_on` the events go on as they come, and only what the checks
    need is held.
    """

    def __init__(
        self,
        hub: CatalogueHub,
        server: Server,
        descriptor: Descriptor,
        call: Call,
        reference: Reference | None,
        passed_on: bool,
    ) -> None:
        self.server = server
        self.descriptor = descriptor
        self.call = call
        self._hub = hub
        self._reference = reference
        self._whole: dict[str, Any] | None = None
        self._promised = "outputSchema" in descriptor.wire and descriptor.source != "upstream"
        self._remembered = descriptor.name in server.tools_with_stored_output
        self.fold = ValueFold(self._promised) if passed_on and not self._remembered else Fold()
        self.events: Events = folded(server.activate(descriptor, call), self.fold, self._checked)

    def result(self) -> dict[str, Any]:
        """The tool result, with large parts by reference."""
        result = self._whole or self.fold.result()
        if self._reference is None or "content" not in result:  # without content it is a mounted server's task
            return result
        return limited(result, self._reference.keep, self._reference.limit, self.descriptor)

    def within_limit(self, event: Event) -> tuple[Event, ...]:
        """An event that is passed on, or the head and the link that stand for one with a large text."""
        if self._reference is None:
            return (event,)
        return limited_event(event, self._reference.keep, self._reference.limit, self.descriptor)

    def _checked(self, ending: Ending) -> Ending:
        """The ending as it counts. What a resource shows of a result that counts is remembered."""
        if isinstance(ending, Failed) or self.call.cancelled or not (self._promised or self._remembered):
            return ending
        result = self.fold.result(ending)
        if result.get("isError") or "content" not in result:
            return ending
        sentence = self._broken_promise(result) if self._promised else None
        if sentence is not None:
            given = None
            if ending.result is not None:
                given = {"content": [*result["content"], {"type": "text", "text": sentence}], "isError": True}
            return Failed(sentence, result=given)
        self._whole = result
        if self._remembered:
            self._hub.remember(self.server, self.descriptor.name, result)
        return ending

    def _broken_promise(self, result: Mapping[str, Any]) -> str | None:
        """Why a result is not what the tool's outputSchema promises, as a sentence; None when it fits."""
        name = self.descriptor.name
        if "structuredContent" not in result:
            return f"{name} has an outputSchema but gave no structured result"
        wrong = problems(_checker(self.server, "outputSchema", self.descriptor), result["structuredContent"])
        return f"the result of {name} does not fit its outputSchema: {describe_problems(wrong)}" if wrong else None


def find_tool(server: Server, name: str) -> Descriptor:
    """The tool of a name. Raises UnknownTool, which names the closest tools."""
    found = server.tools.get(name)
    if found is not None:
        return found
    behind = server.upstream.health if server.upstream is not None else None
    why = f"; of the server behind this mount: {behind.sentence}" if behind and behind.state != "up" else ""
    raise UnknownTool(f"there is no tool {name!r:.140} on {server.name}{nearest(name, server.tools)}{why}")


def run_tool(
    hub: CatalogueHub,
    server: Server,
    descriptor: Descriptor,
    arguments: dict[str, Any],
    reference: Reference | None,
    *,
    passed_on: bool = False,
    no_later_than: float = math.inf,
    **terms: Any,
) -> ToolRun:
    """Check the arguments of a tool and make its run, which begins when its events are read.

    Arguments under another name (`x-alias`) are put under their own. Without a `reference` the result is whole.
    `no_later_than` is a `time.monotonic()` moment; `terms` are the fields of the Call that depend on the caller.

    Raises WrongArguments with `{"details": [{path, message}]}`.
    """
    wrong = _argument_problems(server, descriptor, arguments)
    if wrong:
        raise WrongArguments(
            f"the arguments do not fit {descriptor.name}: {describe_problems(wrong)}", {"details": wrong}
        )
    call = new_call(hub, server, descriptor, arguments, **terms)
    call.deadline = min(call.deadline, no_later_than)
    call.chain = call.chain or (f"{server.name}.{descriptor.name}",)
    return ToolRun(hub, server, descriptor, call, reference, passed_on)


def call_from_tool(
    hub: CatalogueHub, server: Server, name: str, arguments: dict[str, Any], outer: Call
) -> dict[str, Any]:
    """The whole result of a tool that another tool calls: in no more time than its caller, without questions.

    `outer` is the caller's Call with the chain of the new one. Raises ToolFailed for what cannot be called.
    """
    descriptor = find_tool(server, name)
    terms: dict[str, Any] = {
        "principal": outer.principal,
        "log_level": outer.log_level,
        "meta": outer.meta,
        "chain": outer.chain,
        "cancelled": outer.cancelled,
    }
    try:
        run = run_tool(hub, server, descriptor, arguments, None, no_later_than=outer.deadline, **terms)
    except WrongArguments as problem:
        # The caller's own arguments were right: its client hears of a failure, and not of wrong arguments.
        raise ToolFailed(f"{server.name}: {problem.message}", problem.data) from problem
    for _ in run.events:
        pass
    return run.result()


def new_call(
    hub: CatalogueHub, server: Server, descriptor: Descriptor | None, arguments: dict[str, Any], **terms: Any
) -> Call:
    """The Call of one descriptor (or of none), with its deadline; `terms` are the fields that depend on the caller."""
    target = descriptor.target if descriptor is not None else {}
    deadline = time.monotonic() + float(target.get("timeout", server.timeout))
    return Call(server.name, target, arguments, deadline, hub=hub, **terms)


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """The end of a sentence that says which known names are close to this one; empty when no name is close."""
    close = get_close_matches(name, known, n=3, cutoff=0.4)
    return f"; did you mean {', '.join(close)}?" if close else ""


def _argument_problems(server: Server, descriptor: Descriptor, arguments: dict[str, Any]) -> list[dict[str, str]]:
    """What is wrong with arguments, as `{path, message}`; empty when they fit the tool's schema.

    A server that is mounted, or shared in a room, checks its arguments itself and words what is wrong with them.
    """
    if descriptor.source == "upstream":
        return []
    return misfits(_checker(server, "inputSchema", descriptor), descriptor.wire["inputSchema"], arguments)


def _checker(server: Server, schema: str, descriptor: Descriptor) -> Any:
    return _CHECKERS.get(server, (schema, descriptor.name), lambda: validator(descriptor.wire[schema]))
