"""`completion/complete`: values for a prompt's or a template's argument, from the server's `completions`.

At most 100 values that begin with the typed text, ignoring case. The configuration lists the values, or names a
function of the definition that returns them. A value of a template that leads to a URI which a denial forbids, or which
a toolset excludes, is left out.
Source: MCP specification, server/utilities/completion.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchbay.activation import Call, Events
from patchbay.catalogue.reading.toolset_templates import excludes_uri
from patchbay.catalogue.reading.uri_templates import expand_template
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import InvalidParams, ToolFailed
from patchbay.events import Failed
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.run_tool import count_call, new_call
from patchbay.protocol.translate import stamped
from patchbay.raised.exceptions import attach_raised
from patchbay.views.fold import Fold, ValueFold, folded

log = logging.getLogger(__name__)

MAX_VALUES = 100

SECONDS = 5.0
"""Limit on the time of a function that suggests values, because a person waits while typing."""

ORIGIN_FAILED = "there are no suggestions now: the server behind this entry failed"
"""The failure of a server behind an entry of a toolset, for callers who may not know that server."""


def complete(context: RequestContext) -> dict[str, Any]:
    """Return the result of a completion request. Raises InvalidParams for an unknown reference or argument."""
    reference, argument = context.params.get("ref"), context.params.get("argument")
    if not isinstance(reference, Mapping):
        raise InvalidParams("params.ref has to be an object: a ref/prompt with a name or a ref/resource with a uri")
    if not isinstance(argument, Mapping) or not isinstance(argument.get("name"), str):
        raise InvalidParams("params.argument has to be an object with a name and a value")
    typed = argument.get("value", "")
    if not isinstance(typed, str):
        raise InvalidParams("params.argument.value has to be a string")
    entry, server = _referred(context, reference), context.server
    _check_argument(entry, argument["name"])
    descriptor = entry
    if descriptor.origins:
        call = _call(context, {})
        server, descriptor = context.services.catalogue.hub.origins.find(descriptor, call)
        if server.upstream is not None:
            completion = without_hidden(context, _ask_mount(context, server, descriptor, call))
            return stamped({"completion": completion}, context.server, context.caller.revision)
    configured = server.config.get("completions", {}).get(descriptor.name, {})
    known = configured.get(argument["name"], [])
    if isinstance(known, Mapping):
        known = _suggestions(context, server, descriptor, known["function"], typed)
    values = _shown(context, entry, [value for value in known if value.lower().startswith(typed.lower())])
    completion = {"values": values[:MAX_VALUES], "total": len(values), "hasMore": len(values) > MAX_VALUES}
    return stamped({"completion": completion}, context.server, context.caller.revision)


def check_reference(context: RequestContext) -> None:
    """Check that a completion is for a listed prompt or template, before a mounted server is asked.

    Raises InvalidParams: an entry that the pins of the server hold gets no completion either.
    """
    reference = context.params.get("ref")
    if isinstance(reference, Mapping):
        _referred(context, reference)


def without_hidden(context: RequestContext, completion: Mapping[str, Any]) -> dict[str, Any]:
    """Return a completion of a mounted server without the values that lead to a URI which the caller may not read."""
    values = completion.get("values")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return dict(completion)
    shown = _shown(context, _referred(context, context.params["ref"]), values)
    left_out = () if len(shown) == len(values) else ("total",)  # how many are hidden is not told either
    return {key: value for key, value in completion.items() if key not in left_out} | {"values": shown}


def _shown(context: RequestContext, entry: Descriptor, values: list[str]) -> list[str]:
    """Return the values of an argument that lead to no hidden URI; other arguments of a template may be unknown."""
    if entry.kind != "template" or (context.catalogue.shows_everything and not entry.origins):
        return values
    given = context.params.get("context")
    others = given.get("arguments") if isinstance(given, Mapping) else None
    known = {name: text for name, text in others.items() if isinstance(text, str)} if isinstance(others, dict) else {}
    argument = context.params.get("argument")
    name = str(argument.get("name", "")) if isinstance(argument, Mapping) else ""
    return [value for value in values if not _is_hidden(context, entry, {**known, name: value})]


def _is_hidden(context: RequestContext, entry: Descriptor, arguments: Mapping[str, str]) -> bool:
    """Whether a denial or a toolset keeps the URI of these arguments of a template from the caller."""
    places = [(context.server.name, entry.name), *((one.server, one.name) for one in entry.origins)]
    uris = [(server, expand_template(template, arguments)) for server, template in places]
    is_excluded = bool(entry.origins) and excludes_uri(entry, uris[0][1])
    return is_excluded or any(context.catalogue.forbids(server, uri) for server, uri in uris)


def _call(context: RequestContext, arguments: dict[str, Any]) -> Call:
    """Return the call of a request for suggestions."""
    call = new_call(
        context.services.catalogue.hub,
        context.server,
        None,
        arguments,
        {
            "principal": context.caller.wire.principal,
            "sender": context.caller.wire.sender,
            "cancelled": context.cancelled,
        },
    )
    call.deadline = min(call.deadline, time.monotonic() + SECONDS)
    return call


def _ask_mount(context: RequestContext, server: Server, descriptor: Descriptor, call: Call) -> dict[str, Any]:
    """Return the completion of the mounted server behind an entry of a toolset; of none where it completes nothing.

    A failure is answered without its reason, which may name the server.
    """
    if "completions" not in server.offers:
        return {"values": [], "total": 0, "hasMore": False}
    is_prompt = descriptor.kind == "prompt"
    reference = {"type": "ref/prompt", "name": descriptor.name}
    params = {key: value for key, value in context.params.items() if key != "_meta"}
    params["ref"] = reference if is_prompt else {"type": "ref/resource", "uri": descriptor.name}
    target = {"method": context.request.method, "params": params}
    call = replace(call, server=server.name, target=target)
    collected = Fold()
    place = count_call(context.services.catalogue.hub, call, context.server.name)
    asked = Descriptor("tool", context.request.method, {}, target)
    for _ in folded(_origin_events(context, server, asked, call), collected, place=place):
        pass
    result = collected.ending.result if collected.ending is not None else None
    found = result.get("completion") if result is not None else None
    if not isinstance(found, Mapping):
        raise ToolFailed(ORIGIN_FAILED)
    return dict(found)


def _suggestions(
    context: RequestContext, server: Server, descriptor: Descriptor, function: str, typed: str
) -> list[str]:
    """Return the suggestions of a function of a server, which gets the typed text and the other arguments.

    Raises ToolFailed; behind an entry of a toolset without the reason, which names the server and its function.
    """
    given = context.params.get("context")
    others = given.get("arguments", {}) if isinstance(given, Mapping) else {}
    call = _call(context, {"value": typed, "arguments": others if isinstance(others, dict) else {}})
    call = replace(call, server=server.name, target={"function": function})
    collected = Fold()
    place = count_call(context.services.catalogue.hub, call, context.server.name)
    is_behind = server is not context.server
    activated = _origin_events if is_behind else _own_events
    for _ in folded(activated(context, server, descriptor, call), collected, place=place):
        pass
    result = collected.result()
    found = result.get("structuredContent")
    if not isinstance(found, list) or not all(isinstance(value, str) for value in found):
        reason = " ".join(block.get("text", "") for block in result["content"]) if result.get("isError") else ""
        if is_behind:
            log.warning("%s of %s gave no list of strings to complete with: %s", function, server.name, reason)
            raise ToolFailed(ORIGIN_FAILED)
        problem = ToolFailed(f"{function} gave no list of strings to complete with{': ' if reason else ''}{reason}")
        if isinstance(collected.ending, Failed):
            attach_raised(problem, collected.ending.raised)
        raise problem
    return found


def _own_events(context: RequestContext, server: Server, descriptor: Descriptor, call: Call) -> Events:
    return server.activate(descriptor, call)


def _origin_events(context: RequestContext, server: Server, descriptor: Descriptor, call: Call) -> Events:
    """Return the events of the server behind an entry of a toolset; the call counts on that server too.

    Raises ToolFailed when a quota on that server is used up: the message of the quota names it.
    """
    place = context.services.catalogue.hub.origins.count(server, call, "this entry")
    yield from folded(server.activate(descriptor, call), ValueFold(False), place=place)


def _key(reference: Mapping[str, Any]) -> Any:
    return reference.get("name") if reference.get("type") == "ref/prompt" else reference.get("uri")


def _referred(context: RequestContext, reference: Mapping[str, Any]) -> Descriptor:
    kind, key = reference.get("type"), _key(reference)
    known: Mapping[str, Descriptor]
    if kind == "ref/prompt":
        known = context.server.prompts
    elif kind == "ref/resource":
        known = {**context.server.resources, **context.server.templates}
    else:
        raise InvalidParams(f'params.ref.type has to be "ref/prompt" or "ref/resource"; it is {kind!r}')
    if not isinstance(key, str) or key not in known:
        raise InvalidParams(f"params.ref names nothing that is here: {key!r}")
    return known[key]


def _check_argument(descriptor: Descriptor, name: str) -> None:
    if descriptor.kind != "prompt":
        return
    names = [argument["name"] for argument in descriptor.wire.get("arguments", ())]
    if name not in names:
        known = ", ".join(names) or "none"
        raise InvalidParams(f"the prompt {descriptor.name} has no argument {name!r}; it has {known}")
