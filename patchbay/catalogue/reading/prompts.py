"""Prompts: check arguments, fill in `{{name}}` or run a function, and return messages.

Prompt arguments are strings. Required arguments must be present, unknown ones are refused, and inserted values are not
expanded again. MCP specification, server/prompts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchbay.activation import Call, Conceal, Events
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import InvalidParams, ToolFailed
from patchbay.events import Data, Done
from patchbay.views.fold import Fold

_FIELD = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}")


def prompt_events(server: Server, descriptor: Descriptor, call: Call, conceal: Conceal | None = None) -> Events:
    """Return the events of getting a prompt with `call.arguments`. `conceal` as in `activation.activate`.

    Raises InvalidParams at once, and ToolFailed for a prompt of a toolset that is not available.
    """
    if descriptor.origins:
        assert call.hub is not None, "a toolset is served by a hub"
        return call.hub.pass_on_reading(descriptor, "", call)
    if "method" in descriptor.target:
        return server.activate(descriptor, replace(call, target=descriptor.target), conceal)
    given = check_arguments(descriptor, call.arguments)
    if "function" in descriptor.target:
        return server.activate(descriptor, replace(call, target=descriptor.target, arguments=given), conceal)
    return _fill_messages(descriptor, given)


def _fill_messages(descriptor: Descriptor, given: Mapping[str, str]) -> Events:
    names = [argument["name"] for argument in descriptor.wire.get("arguments", ())]
    values = dict.fromkeys(names, "") | dict(given)
    yield Data({"messages": _fill(descriptor.target["messages"], values)})
    yield Done()


def check_arguments(descriptor: Descriptor, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the checked arguments of a prompt. Raises InvalidParams for missing, unknown and non-string ones."""
    declared = {argument["name"]: argument for argument in descriptor.wire.get("arguments", ())}
    problems = [
        *(f"{name} is missing" for name, one in declared.items() if one.get("required") and name not in arguments),
        *(f"{name} is not one of its arguments" for name in arguments if name not in declared),
        *(f"{name} must be a string" for name, value in arguments.items() if not isinstance(value, str)),
    ]
    if problems:
        known = ", ".join(declared) or "no arguments"
        raise InvalidParams(f"the prompt {descriptor.name} takes {known}: {'; '.join(problems)}")
    return dict(arguments)


def _fill(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _FIELD.sub(lambda found: values.get(found[1], found[0]), value)
    if isinstance(value, Mapping):
        return {key: _fill(inner, values) for key, inner in value.items()}
    return [_fill(inner, values) for inner in value] if isinstance(value, list) else value


def prompt_messages(fold: Fold, descriptor: Descriptor) -> list[dict[str, Any]]:
    """Return the messages of a finished prompt. Raises ToolFailed when it failed or gave another type."""
    result = fold.result()
    if result.get("isError"):
        texts = [block["text"] for block in result["content"] if block.get("type") == "text"]
        raise ToolFailed(f"the prompt {descriptor.name} failed: {' '.join(texts)}")
    given = result if "messages" in result else result.get("structuredContent", result["content"])
    if isinstance(given, Mapping):
        given = given.get("messages", given)
    parts = given if isinstance(given, list) else [given]
    return [_message(part, descriptor) for part in parts]


def _message(part: Any, descriptor: Descriptor) -> dict[str, Any]:
    if isinstance(part, str):
        return {"role": "user", "content": {"type": "text", "text": part}}
    if isinstance(part, Mapping) and "content" in part:
        content, role = part["content"], part.get("role", "user")
        content = {"type": "text", "text": content} if isinstance(content, str) else content
        if isinstance(content, Mapping) and role in ("user", "assistant"):
            return {"role": role, "content": dict(content)}
    elif isinstance(part, Mapping) and isinstance(part.get("type"), str):
        return {"role": "user", "content": dict(part)}
    raise ToolFailed(
        f"the prompt {descriptor.name} must return text, messages or content blocks; it returned {part!r:.200}"
    )
