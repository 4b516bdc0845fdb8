"""The one way to run a tool: find it, check its arguments, make the Call, run it, check and limit its result.

MCP and its tasks (`calls.py`), the native interface (`native/calls.py`), plain HTTP (`web/api/plain.py`) and a tool
that calls a tool (`call_from_tool`) all run tools by `run_tool`, so that every entry point makes the same checks.
An entry point decides only how its caller gets the events and the result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NamedTuple

from patchbay.access.principals import LOCAL_ID
from patchbay.activation import Call, CallPlace, Events
from patchbay.activity.call_recording import CallRecording
from patchbay.arguments import describe_problems, misfits, problems, validator
from patchbay.catalogue.catalogue_hub import CatalogueHub
from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.client.connection.list_pages import APPS
from patchbay.descriptors import SCRIPT_TOOLS, Descriptor
from patchbay.errors import OverQuota, ResourceNotFound, ToolFailed, WrongArguments
from patchbay.events import Ending, Event, Failed
from patchbay.protocol.content_budget import CONTENTS, CallContents
from patchbay.protocol.linked_arguments import resolve_links
from patchbay.protocol.results.promises import describe_broken_promise
from patchbay.protocol.results.result_limits import Keep, limited, limited_event
from patchbay.views.fold import Fold, ValueFold, folded

NO_TERMS: Mapping[str, Any] = MappingProxyType({})
"""The terms of a call of the hub itself."""

_HUB_VIEWS = ("server://", "variable://")
"""The schemes by which the hub shows other servers and its variables."""

_CHECKERS: ServerCache[tuple[str, str], Any] = ServerCache()
"""Compiled validators by schema field and tool name."""


class UnknownTool(ToolFailed):
    """The server has no tool with this name."""

    code, status = -32600, 404


class Reference(NamedTuple):
    """The rule for large results: the function that stores them, and the limit in bytes for a text."""

    keep: Keep
    limit: int


class ToolRun:
    """One run of a tool. Its `events` end in Failed if the result does not fit the tool's `outputSchema`.

    `fold` holds the result so far. With `passed_on` the caller forwards the events itself, and `fold` holds only the
    values that the checks need.
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
        most = descriptor.target.get("max_bytes")  # of a tool of a toolset
        if reference is not None and most is not None:
            reference = Reference(reference.keep, min(most, reference.limit))
        self._reference = reference
        self._whole: dict[str, Any] | None = None
        self._promised = "outputSchema" in descriptor.wire and descriptor.source != "upstream"
        self._remembered = descriptor.name in server.tools_with_stored_output
        self.fold = ValueFold(self._promised) if passed_on and not self._remembered else Fold()
        approved = hub.gate(server, descriptor, call, server.activate(descriptor, call))
        place = count_call(hub, call, owner_of(server, descriptor))
        self.events: Events = folded(approved, self.fold, self._checked, place)

    def result(self) -> dict[str, Any]:
        """Return the tool result, with references for large parts; of a call that the hub ended, only the reason.

        The tool may have given a result all the same, and its caller may have lost the right to it.
        """
        if self.call.cancelled.by_hub:
            return {"content": [{"type": "text", "text": self.call.cancelled.describe()}], "isError": True}
        result = self._whole or self.fold.result()
        if self._reference is None or "content" not in result:  # without content it is a mounted server's task
            return result
        return limited(result, self._reference.keep, self._reference.limit, self.descriptor)

    def within_limit(self, event: Event) -> tuple[Event, ...]:
        """Return an event unchanged; for one with a large text, return its beginning and a link."""
        if self._reference is None:
            return (event,)
        return limited_event(event, self._reference.keep, self._reference.limit, self.descriptor)

    def _checked(self, ending: Ending) -> Ending:
        """Return the ending after the check of the result; store a valid result that a resource shows."""
        if isinstance(ending, Failed) or self.call.cancelled or not (self._promised or self._remembered):
            return ending
        result = self.fold.result(ending)
        if self.call.resumes and not result.get("content"):
            return ending  # a script that went on, and waits for a person again: it has no value yet
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
        """Return why a result does not fit the tool's outputSchema, as a sentence; None if it fits."""
        wrong: list[dict[str, str]] = []
        if "structuredContent" in result:
            wrong = problems(_checker(self.server, "outputSchema", self.descriptor), result["structuredContent"])
            if not wrong:
                return None
        elif isinstance(self.fold, ValueFold):
            result = {"content": self.fold.beginning()}
        language, line = self._hub.find_return(self.server, self.descriptor)
        schema = self.descriptor.wire["outputSchema"]
        sentence = describe_broken_promise(self.descriptor.name, schema, result, wrong, language)
        return f"{sentence} (line {line})" if line is not None else sentence


def find_tool(server: Server, name: str) -> Descriptor:
    """Return the tool with this name. Raises UnknownTool with the closest names."""
    found = server.tools.get(name)
    if found is not None:
        return found
    behind = server.standing.health if server.standing is not None else None
    why = f"; of the server behind this mount: {behind.sentence}" if behind and behind.state != "up" else ""
    if behind and behind.state == "connecting":
        why += ", which takes longer while a package is fetched: call again in a moment"
    raise UnknownTool(f"there is no tool {name!r:.140} on {server.name}{nearest(name, server.tools)}{why}")


def check_visibility(server: Server, tool: Descriptor, app: str | None, shows_apps: bool) -> None:
    """Check that a caller is among those for whom a tool is (SEP-1865, visibility). Raises UnknownTool.

    `app` is the URI of the app that calls, empty for one that the endpoint does not have; `shows_apps` says that the
    client declares the extension for apps.
    """
    if app is not None:
        if app and tool.is_for_apps:
            return
        words = "not for this app: an app may call the tools of its own server whose _meta.ui.visibility includes app"
    elif tool.is_for_models or shows_apps:
        return
    else:
        words = f"for apps only: expected a client that declares the extension {APPS}; call a tool of tools/list"
    raise UnknownTool(f"the tool {tool.name!r:.140} on {server.name} is {words}")


def check_reading_app(server: Server, uri: str, app: str) -> None:
    """Check that an app may read a URI: one of its own server, and no other view of the hub. Raises ResourceNotFound.

    `app` is empty for an app that the endpoint does not have.
    """
    if not app or (uri.startswith(_HUB_VIEWS) and uri not in server.resources):
        raise ResourceNotFound(uri, "an app may read the resources of its own server")


def run_tool(
    hub: CatalogueHub,
    server: Server,
    descriptor: Descriptor,
    arguments: dict[str, Any],
    reference: Reference | None,
    terms: Mapping[str, Any] = NO_TERMS,
    *,
    passed_on: bool = False,
    no_later_than: float = math.inf,
) -> ToolRun:
    """Check the arguments of a tool and return its run, which begins at the first read of its events.

    Links of the caller in the arguments become contents where the schema asks for them (`linked_arguments.py`), and
    aliases (`x-alias`) are renamed. Without a `reference` the result is whole. `no_later_than` is a
    `time.monotonic()` time; `terms` are the fields of the Call that depend on the caller.

    Raises WrongArguments with `{"details": [{path, message}]}`, OverQuota.
    """
    principal = terms.get("principal", LOCAL_ID)
    contents = CallContents(CONTENTS, principal)
    try:
        read, limit = hub.read_link, hub.upload_limit
        arguments = resolve_links(server, descriptor, arguments, read, principal, limit, contents.add)
        check_arguments(server, descriptor, arguments)
        call = new_call(hub, server, descriptor, arguments, terms)
        if no_later_than != math.inf:
            call.end_by(no_later_than)
        call.chain = call.chain or (f"{server.name}.{descriptor.name}",)
        run = ToolRun(hub, server, descriptor, call, reference, passed_on)
    except BaseException:
        contents.release()
        raise
    contents.last(run)
    return run


def call_from_tool(
    hub: CatalogueHub, server: Server, name: str, arguments: dict[str, Any], outer: Call
) -> dict[str, Any]:
    """Run a tool for another tool and return its whole result, within the caller's deadline and without questions.

    `outer` is the caller's Call with the chain of the new one. Raises ToolFailed for a call that cannot begin.
    """
    if name in SCRIPT_TOOLS and server.has_scripts:
        from patchbay.scripting.front import script_server

        server = script_server(server)
    descriptor = find_tool(server, name)
    terms = terms_of_inner_call(outer)
    try:
        run = run_tool(hub, server, descriptor, arguments, None, terms, no_later_than=outer.deadline)
    except WrongArguments as problem:
        # The arguments of the outer call were right, so its client gets a failure, not an error about arguments.
        raise ToolFailed(f"{server.name}: {problem.message}", problem.data) from problem
    except OverQuota as problem:
        raise ToolFailed(f"{server.name}: {problem.message}") from problem
    for _ in run.events:
        pass
    return run.result()


def terms_of_inner_call(outer: Call) -> dict[str, Any]:
    """Return the fields of the Call of a tool that another tool, or a script, calls: those of its caller.

    It may not ask its caller's client anything.
    """
    return {
        "principal": outer.principal,
        "sender": outer.sender,
        "log_level": outer.log_level,
        "meta": outer.meta,
        "chain": outer.chain,
        "cancelled": outer.cancelled,
        "find_base_url": outer.find_base_url,
        "find_header": outer.find_header,
        "run": outer.run,
        "run_depth": outer.run_depth,
    }


def owner_of(server: Server, descriptor: Descriptor | None) -> str:
    """Return the name of the server that a descriptor belongs to, also in the list of all servers."""
    return descriptor.belongs_to[0] if descriptor is not None and descriptor.belongs_to else server.name


def count_call(hub: CatalogueHub, call: Call, server: str, run: CallRecording | None = None) -> CallPlace | None:
    """Count a call against the quotas of its sender, until the place is released; None where no limit applies.

    This is the one place that asks the quotas, after everything that decides whether the call may begin.
    The record `run` of the call notes a refusal. Raises OverQuota.
    """
    try:
        return hub.begin_call(call.sender, server, len(call.chain) > 1)
    except OverQuota:
        if run is not None:
            run.note_refused()
        raise


def new_call(
    hub: CatalogueHub,
    server: Server,
    descriptor: Descriptor | None,
    arguments: dict[str, Any],
    terms: Mapping[str, Any],
) -> Call:
    """Return the Call of a descriptor (or None) with its deadline; `terms` are the fields that depend on the caller."""
    target = descriptor.target if descriptor is not None else {}
    seconds = float(target.get("timeout", server.timeout))
    call = Call(server.name, target, arguments, time.monotonic() + seconds, hub=hub, **terms)
    in_all = target.get("progress_timeout", server.progress_timeout)
    if in_all > seconds:
        call.progress_seconds, call.extra_seconds = seconds, in_all - seconds
    return call


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """Return the end of a sentence with the known names close to this one; empty if no name is close."""
    close = get_close_matches(name, known, n=3, cutoff=0.4)
    return f"; did you mean {', '.join(close)}?" if close else ""


def check_arguments(server: Server, descriptor: Descriptor, arguments: dict[str, Any]) -> None:
    """Check the arguments of a tool, and rename the aliases in them.

    Raises WrongArguments with `{"details": [{path, message}]}`.
    """
    wrong = _argument_problems(server, descriptor, arguments)
    if wrong:
        raise WrongArguments(
            f"the arguments do not fit {descriptor.name}: {describe_problems(wrong)}", {"details": wrong}
        )


def _argument_problems(server: Server, descriptor: Descriptor, arguments: dict[str, Any]) -> list[dict[str, str]]:
    """Return the problems of arguments as `{path, message}`; empty if they fit the tool's schema.

    A server that is mounted, or shared in a room, checks its arguments itself.
    """
    if descriptor.source == "upstream":
        return []
    return misfits(_checker(server, "inputSchema", descriptor), descriptor.wire["inputSchema"], arguments)


def _checker(server: Server, schema: str, descriptor: Descriptor) -> Any:
    return _CHECKERS.get(server, (schema, descriptor.name), lambda: validator(descriptor.wire[schema]))
