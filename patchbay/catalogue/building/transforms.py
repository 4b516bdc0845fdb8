"""Transforms: functions that add tools, resources or prompts to a server.

A transform runs like a tool, with a deadline. A failure, or an invalid entry, is a Problem on the server's page and
does not affect other entries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from patchbay.activation import Call, Events, Handler, Hub, activate
from patchbay.catalogue.building import entries
from patchbay.catalogue.building.entries import EntryContext
from patchbay.catalogue.reading.uri_templates import compile_template
from patchbay.cid import cid_of
from patchbay.config import check, check_tool, check_uri
from patchbay.descriptors import Descriptor, Problem
from patchbay.errors import ConfigError, PatchbayError, ToolFailed
from patchbay.events import Content, Data, Failed, Text
from patchbay.shaping.own_tools import ONLY_SHAPING

DEADLINE_SECONDS = 5.0
"""Seconds that one transform may take."""

MAX_ENTRIES_PER_TRANSFORM = 20_000
"""Maximum number of entries of one transform."""

HandlerFor = Callable[[str, bytes, str, str, Mapping[str, Any]], Handler | None]


def collect_output(events: Events) -> list[Text | Content | Data]:
    """Return the output of an activation. Raises ToolFailed (or the error it carries) when it failed."""
    found: list[Text | Content | Data] = []
    for event in events:
        if isinstance(event, Failed):
            raise event.error or ToolFailed(event.message)
        if isinstance(event, (Text, Content, Data)):
            found.append(event)
    return found


class Transforms:
    """Runs the transforms of one server, each in at most `seconds`; `problems` collects their faults."""

    def __init__(
        self, context: EntryContext, handler_for: HandlerFor, hub: Hub | None, seconds: float = DEADLINE_SECONDS
    ) -> None:
        self._context = context
        self._handler_for = handler_for
        self._hub = hub
        self._seconds = seconds
        self.problems: list[Problem] = []

    def run(self, sources: Mapping[str, bytes]) -> list[Descriptor]:
        """Return the descriptors of the transforms; `sources` has Python source by `tools`, `resources`, `prompts`."""
        return [found for kind, source in sources.items() for found in self._run_one(kind, source)]

    def _run_one(self, kind: str, source: bytes) -> Iterator[Descriptor]:
        function = f"generate_{kind}"
        try:
            listed = self._list_entries(function, source)
        except PatchbayError as problem:
            self.problems.append(Problem(function, f"{function} failed: {problem.message}"))
            return
        for number, entry in enumerate(listed):
            try:
                yield make_descriptor(self._context, kind, entry)
            except ConfigError as problem:
                place = f"entry {number}" + (f", {problem.path}" if problem.path else "")
                self.problems.append(Problem(function, f"{function}, {place}: {problem.expected}"))

    def _list_entries(self, function: str, source: bytes) -> list[Any]:
        name = self._context.server
        handler = self._handler_for("python", source, cid_of(source), name, self._context.config)
        if handler is None:
            raise ToolFailed("this hub has no handler for Python")
        deadline = time.monotonic() + self._seconds
        call = Call(name, {"function": function}, {"server_name": name}, deadline, self._hub)
        values = [
            event.value if isinstance(event, Data) else event for event in collect_output(activate(handler, call))
        ]
        listed = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        if any(isinstance(entry, (Text, Content)) for entry in listed):
            raise ToolFailed("it must return a list of objects")
        if len(listed) > MAX_ENTRIES_PER_TRANSFORM:
            raise ToolFailed(f"it returned {len(listed)} entries; at most {MAX_ENTRIES_PER_TRANSFORM} are allowed")
        return list(listed)


def make_descriptor(context: EntryContext, kind: str, entry: Any) -> Descriptor:
    """Make a descriptor of one entry of a transform, checked like a static one. Raises ConfigError."""
    if not isinstance(entry, Mapping):
        raise ConfigError(context.where, "", "expected an object")
    entry = {key: value for key, value in entry.items() if value is not None}
    name = str(entry.get("name", ""))
    if kind == "resources":
        return _resource(context, name, entry)
    rest = {key: value for key, value in entry.items() if key != "name"}
    single = kind.removesuffix("s")
    check({kind: {name: {}}} if kind == "tools" else {kind: {name: {"messages": [{"content": ""}]}}}, context.where)
    check(rest, context.where, kind=single)
    if kind == "prompts":
        return entries.make_prompt(context, name, rest, "transform")
    if shaping := [member for member in ONLY_SHAPING if member in rest]:
        raise ConfigError(context.where, shaping[0], "expected only in the field tools of the configuration")
    check_tool(rest, context.where, name)
    return entries.make_tool(context, name, rest, "transform")


def _resource(context: EntryContext, name: str, entry: Mapping[str, Any]) -> Descriptor:
    if "uriTemplate" in entry:
        check(entry, context.where, kind="template")
        return entries.make_template(context, name or entry["uriTemplate"], entry, "transform")
    uri = str(entry.get("uri", ""))
    check(entry, context.where, kind="resource")
    check_uri(uri, context.where, "uri")
    return entries.make_resource(context, name or uri, entry, "transform")


def matches_template(context: EntryContext, uri: str) -> bool:
    """Whether a resource template of the configuration matches a URI, so that listing it needs no source."""
    templates = [
        one.get("matches", one["uriTemplate"]) for one in context.config.get("resource_templates", {}).values()
    ]
    return any(compile_template(template).match(uri) is not None for template in templates)
