"""What the tests of pins share: lists of a mounted server as values, and a store with its first sight."""

from __future__ import annotations

from typing import Any

from patchbay.pins.documents import Changes, ItemKey
from patchbay.pins.enforcement import check_pins
from patchbay.pins.observation import observe
from patchbay.pins.records import load_pins
from patchbay.store import Store

SERVER = "far"


def tool(name: str = "echo", description: str = "Echo a text.", **fields: Any) -> dict[str, Any]:
    """A tool as `tools/list` has it."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return {"name": name, "description": description, "inputSchema": schema, **fields}


def tools(*found: dict[str, Any]) -> dict[ItemKey, Any]:
    """A list of tools with an introduction."""
    introduction: dict[ItemKey, Any] = {("introduction", ""): {"instructions": "Call echo."}}
    return introduction | {("tool", one["name"]): one for one in found}


def look(store: Store, *found: dict[str, Any], changes: Changes = "hold", server: str = SERVER) -> bool:
    """Let the hub look at these tools of the server; whether its pins changed."""
    return observe(store, server, tools(*found), changes, "upstream")


def served(store: Store, *found: dict[str, Any], changes: Changes = "hold", server: str = SERVER) -> list[str]:
    """The names of these tools that are served."""
    state = check_pins(load_pins(store, server), changes, tools(*found))
    return [one["name"] for one in found if ("tool", one["name"]) not in state.held]


def reasons(store: Store, name: str) -> list[tuple[str, str]]:
    """Who changed a name, and why, newest first."""
    return [(move.who, move.why) for move in store.names.past(name)]
