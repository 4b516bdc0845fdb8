"""What a configuration says about a tool that another server lists, and the tool that callers then see.

A toolset says it about tools of other servers, every other configuration about those of its own server. An annotation
may only become stricter: no configuration calls a tool harmless that its server does not call so.
Source: MCP specification 2026-07-28, schema, ToolAnnotations (the defaults of the hints).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from patchbay.activation import Call, Events, Handler, activate, share_time_limits, without_tasks
from patchbay.client.contracts.drift import HINT_DEFAULTS
from patchbay.descriptors import Descriptor
from patchbay.errors import ConfigError
from patchbay.shaping.arguments import Argument, ArgumentShaping, check_arguments, make_shaping, parse_argument
from patchbay.shaping.results import check_result, shape_result

MAX_BYTES = "max_bytes"
"""The member of a target with the size of a text above which the text is a link."""


@dataclass(frozen=True, slots=True)
class ToolShape:
    """What a tool shows in place of what its server says.

    `result` is a jq expression over its result, "" for the result as it is. `max_bytes` is the size of a text of its
    result above which the text is a link with its beginning.
    """

    title: str | None = None
    description: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    result: str = ""
    max_bytes: int | None = None


AS_IT_IS = ToolShape()
"""The shape of a tool about which the configuration says nothing."""


class ShapedTool(NamedTuple):
    """A tool as callers see it, how its arguments are shaped (None: not), and the expression over its result ("")."""

    wire: dict[str, Any]
    max_bytes: int | None
    shaping: ArgumentShaping | None
    expression: str

    @property
    def changes_calls(self) -> bool:
        """Whether the arguments or the result of a call differ from those of the server."""
        return self.shaping is not None or bool(self.expression)

    def run(self, call: Call, begin: Callable[[dict[str, Any]], Events]) -> Events:
        """Return the events of a call; `begin` returns those of the server for its own arguments.

        Raises WrongArguments and ToolFailed.
        """
        given = call.arguments if self.shaping is None else self.shaping.make_arguments(call.arguments, call)
        events = begin(given)
        if self.shaping is not None and self.shaping.names:
            events = self.shaping.rename_failures(events)
        return shape_result(self.expression, events, call) if self.expression else events


def parse_shape(given: Mapping[str, Any]) -> ToolShape:
    """Return what checked fields say about a tool."""
    arguments = {name: parse_argument(one) for name, one in given.get("arguments", {}).items()}
    texts = given.get("title"), given.get("description")
    return ToolShape(*texts, given.get("annotations", {}), arguments, given.get("result", ""), given.get("max_bytes"))


def check_shape(given: Mapping[str, Any], where: str, path: str) -> None:
    """Check what a configuration says about a tool. Raises ConfigError."""
    if "arguments" in given:
        check_arguments(given["arguments"], where, f"{path}.arguments")


def shape_tool(place: str, tool: Descriptor, name: str, shape: ToolShape) -> ShapedTool:
    """Return a tool as a configuration shows it under a name.

    Raises ConfigError, whose `where` is below `place` when it is about one member.
    """
    shaping = None
    if shape.arguments:
        shaping = make_shaping(shape.arguments, tool.wire["inputSchema"], tool.source == "upstream")
    wire = {**tool.wire, "name": name}
    texts = {"title": shape.title, "description": shape.description}
    wire |= {key: text for key, text in texts.items() if text is not None}
    if shape.annotations:
        wire["annotations"] = _stricter(place, tool, shape.annotations)
    if shaping is not None:
        wire["inputSchema"] = shaping.shown
    if shape.result:
        _check_result(f"{place}.result", tool, shape.result)
        wire.pop("outputSchema", None)  # it describes what the expression gets
    limits = [one for one in (tool.target.get(MAX_BYTES), shape.max_bytes) if one is not None]
    if limits:
        wire.pop("outputSchema", None)  # a link is not the structured result that the schema promises
    return ShapedTool(wire, min(limits, default=None), shaping, shape.result)


def run_alone(shaped: ShapedTool, call: Call, handler: Handler, mask: bool) -> Events:
    """Return the events of a call of a shaped tool of the server itself.

    Its own activation gives the ending from which the result is made, and the failure whose message may name arguments;
    `mask` as in `activate`. A mounted server makes no task of a call whose result an expression shapes: it would give
    its own result later.
    """
    capabilities = without_tasks(call.capabilities) if shaped.expression else call.capabilities

    def begin(given: dict[str, Any]) -> Events:
        inner = replace(call, arguments=given, capabilities=capabilities)
        return share_time_limits(call, inner, activate(handler, inner, mask, is_inner=True))

    return shaped.run(call, begin)


def _check_result(place: str, tool: Descriptor, expression: str) -> None:
    """Check that an expression fits the results of a tool. Raises ConfigError with the place."""
    schema = tool.wire.get("outputSchema")
    try:
        check_result(expression, schema if isinstance(schema, Mapping) else None)
    except ConfigError as problem:
        raise ConfigError(place, "", problem.expected) from problem


def _stricter(place: str, tool: Descriptor, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of a tool with those of the configuration. Raises ConfigError for a looser hint."""
    known = tool.wire.get("annotations")
    found = dict(known) if isinstance(known, Mapping) else {}
    for hint, value in given.items():
        strict = HINT_DEFAULTS.get(hint)  # the default of each hint is also its strict value
        if strict is not None and value is not strict and found.get(hint, strict) is not value:
            said = str(found.get(hint, strict)).lower()
            raise ConfigError(
                f"{place}.annotations.{hint}",
                "",
                f"{str(value).lower()} is looser than the origin says ({said}); a hint may only become stricter",
            )
        found[hint] = value
    return found
