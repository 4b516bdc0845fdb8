"""Which tools clients see: a server's `listing`, and the two tools that stand for all others while search is on.

`include` and `exclude` decide which tools there are: what they leave out cannot be called. `search` decides only
what a list shows: `search_tools`, `call_tool` and the tools that are always shown; all others are found and called.
Patterns are as in a shell (`*`, `?`, `[...]`), of whole names, with case. Where all servers are listed as one, a
pattern matches `server__tool` and `server.tool`.
Source: the `listing` field of `mcps.schema.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from patchbay.descriptors import Descriptor, Problem

SEARCH, CALL = "search_tools", "call_tool"

MOST_FOUND, FOUND = 50, 5
"""How many tools a search gives at most, and unless it says how many."""

MOST_NAMED = 40
"""How many servers, or tools of one server, the description of the search names."""

Tools = Mapping[str, Descriptor]


@dataclass(frozen=True)
class Listing:
    """How the tools of one server, or of all of them together, are listed."""

    search: bool = False
    always: tuple[str, ...] = ()
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Listing:
        """From the fields of a configuration, which fits the schema."""
        patterns = {key: tuple(fields[key]) for key in ("always", "include", "exclude") if key in fields}
        return cls(search=bool(fields.get("search", False)), **patterns)

    def kept(self, tools: Tools) -> dict[str, Descriptor]:
        """The tools that there are."""
        return {name: one for name, one in tools.items() if _fits(one, self.include) and not _fits(one, self.exclude)}

    def shown(self, tools: Tools) -> Tools:
        """What a list shows of the tools that there are."""
        if not self.searches(tools):
            return tools
        return {**front(tools), **{name: one for name, one in tools.items() if _fits(one, self.always)}}

    def searches(self, tools: Tools) -> bool:
        """Whether the two stand for the others: not where there are none, or where one has a name of theirs."""
        return self.search and bool(tools) and SEARCH not in tools and CALL not in tools

    def problems(self, tools: Tools) -> Iterator[Problem]:
        """What an operator has to know: a pattern that names no tool, a search that cannot be."""
        for key in ("always", "include", "exclude"):
            for pattern in getattr(self, key):
                if pattern != "*" and not any(_fits(one, [pattern]) for one in tools.values()):
                    yield Problem(f"listing.{key}", f"no tool is called {pattern}")
        if self.search and {SEARCH, CALL} & self.kept(tools).keys():
            reason = f"a tool of the server's own is called {SEARCH} or {CALL}, so search stays off"
            yield Problem("listing.search", reason)


def _fits(one: Descriptor, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in one.names)


def front(tools: Tools) -> dict[str, Descriptor]:
    """The two tools in front of all others, by name."""
    reads = all(one.read_only for one in tools.values())
    hints = {"readOnlyHint": True} if reads else {}
    search = {
        "name": SEARCH,
        "title": "Search tools",
        "description": f"Find tools by what they do. There are {len(tools)}: {_named(tools)}. "
        f"Gives the best matches with the schemas of their arguments. Call one by its name, or with {CALL}.",
        "inputSchema": _SEARCH_INPUT,
        "outputSchema": _SEARCH_OUTPUT,
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
    }
    call = {
        "name": CALL,
        "title": "Call a tool",
        "description": f"Call a tool that {SEARCH} found, with arguments that fit its inputSchema. "
        "The result is that of the tool.",
        "inputSchema": _CALL_INPUT,
        **({"annotations": hints} if hints else {}),
    }
    return {
        str(wire["name"]): Descriptor("tool", str(wire["name"]), wire, {"front": wire["name"]})
        for wire in (search, call)
    }


def _named(tools: Tools) -> str:
    """What a model needs to know to search at all: the servers that the tools belong to, else the tools."""
    servers = list(dict.fromkeys(one.belongs_to[0] for one in tools.values() if one.belongs_to))
    names = servers or list(tools)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ("of the servers " if servers else "") + ", ".join(names[:MOST_NAMED]) + more


_SEARCH_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "What the tool should do, in a few words; nothing lists the first tools.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_FOUND,
            "default": FOUND,
            "description": "How many tools to give at most.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}

_SEARCH_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tools": {
            "type": "array",
            "description": "The tools, best first.",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "title": {"type": "string"},
                    "description": {"type": "string"},
                    "inputSchema": {"type": "object"},
                    "annotations": {"type": "object"},
                },
                "required": ["name", "inputSchema"],
            },
        },
        "hint": {"type": "string", "description": "What to do where nothing was found."},
    },
    "required": ["tools"],
}

_CALL_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the tool."},
        "arguments": {"type": "object", "description": "Its arguments."},
    },
    "required": ["name"],
    "additionalProperties": False,
}
