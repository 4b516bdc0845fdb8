"""A hub that a team shares, for tests: its servers, its grants, and an independent account of what they allow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from patchbay.access.principals import Principal
from patchbay.boot import change_names
from tests.hubs import Hub

Json = dict[str, Any]

NOTES = '''"""Notes of the team."""


def search(text: str = "x") -> str:
    """Search in the notes."""
    return f"found {text}"


def delete_note(id: str = "1") -> str:
    """Delete a note."""
    return f"deleted {id}"


def relay(context, server: str = "", tool: str = "run") -> str:
    """Call a tool of another server."""
    return str(context.call(server or ".".join(("bash", "tools")), tool))


def peek(context, uri: str = "notes://plan") -> str:
    """Read a resource of the hub."""
    return context.read(uri)["text"]


def elsewhere(path: str = "/notes/search") -> dict:
    """Redirect to a path of the hub."""
    return {"redirect": path}


def names(context, part: str = "servers") -> str:
    """Name what the context has."""
    return ",".join(sorted(context[part]))


def _note(id: str) -> str:
    return f"note {id}"


def note(id: str) -> str:
    """Return one note."""
    return f"note {id}"
'''

NOTES_CONFIG = {
    "auto_discover": True,
    "isolation": "inline",
    "resources": {
        "plan": {"uri": "notes://plan", "name": "Plan", "text": "the plan"},
        "diary": {"uri": "notes://diary", "name": "Diary", "text": "the diary"},
    },
    "resource_templates": {"note": {"uriTemplate": "note://{id}", "name": "Note", "function": "note"}},
    "prompts": {
        "ask": {"arguments": [{"name": "topic"}], "messages": [{"role": "user", "content": "About {{topic}}?"}]},
        "scold": {"messages": [{"role": "user", "content": "No!"}]},
    },
    "completions": {"ask": {"topic": ["weather", "whales"]}},
}

TOOLS = '''"""Tools with a dot in the name of their server."""


def run(command: str = "ls") -> str:
    """Run a command."""
    return f"ran {command}"


def delete_all() -> str:
    """Delete everything."""
    return "deleted"
'''

LONE = 'def lone() -> str:\n    """The only tool of its server."""\n    return "alone"\n'

INLINE = '{"auto_discover": true, "isolation": "inline"}'

FILES = {
    "notes.py": NOTES,
    "notes.mcp.json": orjson.dumps(NOTES_CONFIG).decode(),
    "bash.tools.py": TOOLS,
    "bash.tools.mcp.json": INLINE,
    "lone.py": LONE,
    "lone.mcp.json": INLINE,
}

SERVERS = ("notes", "bash.tools", "lone")
CALLS = {
    "notes": ("search", "delete_note", "relay", "peek", "names", "elsewhere", "note"),
    "bash.tools": ("run", "delete_all"),
    "lone": ("lone",),
}
READS = {"notes": ("notes://plan", "notes://diary"), "bash.tools": (), "lone": ()}
TEMPLATES = {"notes": ("note://{id}",), "bash.tools": (), "lone": ()}
PROMPTS = {"notes": ("ask", "scold"), "bash.tools": (), "lone": ()}


def team_hub(folder: Path, files: Mapping[str, str] = FILES, **settings: Any) -> Hub:
    """A shared hub with the servers above, or others, beside the shipped ones.

    It has no default quotas, because random tests make many calls in a second.
    """
    hub = Hub(folder, files, **({"access": "shared", "isolation": "inline"} | settings))
    hub.app.parts.dispatcher.services.quotas.defaults = {}
    return hub


def set_grants(hub: Hub, document: Mapping[str, Any] | None) -> None:
    """Write the variable `access`, or remove it, as an operator does."""
    store = hub.catalogue.store
    cid = None if document is None else store.blobs.put(orjson.dumps(document))
    change_names(store, {"variables/access": cid}, "test", "other grants")
    hub.catalogue.refresh()


def new_key(hub: Hub, name: str, scopes: list[str] | None = None) -> dict[str, str]:
    """Make a key; return the headers of its requests."""
    return {"Authorization": f"Bearer {hub.app.parts.keys.make(name, None, scopes)}"}


# The independent account: written from docs/sharing.md, without the code of the hub.


def may(document: Mapping[str, Any] | None, who: Principal, action: str, server: str, entry: str = "") -> bool:
    """Whether a document allows an action on an entry of a server (or, without one, on the server as a whole)."""
    if who.scopes is not None and not any(_scope_fits(scope, action, server, entry) for scope in who.scopes):
        return False
    if who.is_operator or document is None:
        return who.is_operator or action != "operate"
    denials = document.get("denials", ())
    if any((_is_for(row, who, document) or who.groups & {*row["to"]}) and _on(row, server, entry) for row in denials):
        return False
    return any(
        _is_for(row, who, document) and (action in row["may"] or "operate" in row["may"]) and _on(row, server, entry)
        for row in document.get("grants", ())
    )


def _is_for(row: Mapping[str, Any], who: Principal, document: Mapping[str, Any]) -> bool:
    for name in row["to"]:
        groups = document.get("groups", {})
        if name == "*":
            return True
        if name in groups:
            if who.id in groups[name]:
                return True
        elif name == who.id or (name in who.groups and name != "operator" and not name.startswith("key:")):
            return True
    return False


def _on(row: Mapping[str, Any], server: str, entry: str) -> bool:
    return any(_pattern_fits(pattern, server, entry) for pattern in row["on"])


def _scope_fits(scope: str, action: str, server: str, entry: str) -> bool:
    first, _, pattern = scope.partition(":")
    return first == action and _pattern_fits(pattern or "*", server, entry)


def _pattern_fits(pattern: str, server: str, entry: str) -> bool:
    if pattern == server:
        return True
    if "." not in pattern:
        return _shell(pattern, server)
    places = [place for place, letter in enumerate(pattern) if letter == "."]
    return any(_shell(pattern[:at], server) and _shell(pattern[at + 1 :], entry) for at in places)


def _shell(pattern: str, text: str) -> bool:
    parts = {"*": ".*", "?": "."}
    return re.fullmatch("".join(parts.get(one, re.escape(one)) for one in pattern), text, re.DOTALL) is not None
