"""Which tools clients see: a server's `listing`, the two search tools that replace a long list, and those of scripts.

`include` and `exclude` decide which tools exist: an excluded tool cannot be called. `search` decides only which tools a
list shows: `search_tools`, `call_tool` and the tools in `always`; the others can be found and called. `scripts` adds
`find_tools` and `run_script` to the list, or lists them and the tools in `always` only. Patterns are
those of a shell (`*`, `?`, `[...]`), match whole names and are case-sensitive. In the aggregate of all servers a
pattern matches `server__tool` and `server.tool`. The field `listing` of `mcps.schema.json` has the same words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from patchbay.catalogue.servers.script_tools import (
    FIND,
    NOT_INSTALLED,
    OFF,
    ONLY,
    RUN,
    is_installed,
    script_descriptors,
)
from patchbay.config import LISTING_MEMBERS
from patchbay.descriptors import SCRIPT_TOOLS, Descriptor, Problem
from patchbay.suggestions import did_you_mean, find_similar_names

SEARCH, CALL = "search_tools", "call_tool"

MAX_FOUND_TOOLS, DEFAULT_FOUND_TOOLS = 50, 5
"""Maximum, and default, number of tools in a search result."""

MAX_NAMED_SERVERS = 40
"""Number of servers, or tools of one server, that the description of the search lists."""

Tools = Mapping[str, Descriptor]


@dataclass(frozen=True)
class Listing:
    """How the tools of one server, or of the aggregate, are listed."""

    search: bool = False
    always: tuple[str, ...] = ()
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    scripts: str = OFF

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Listing:
        """Make a Listing from the fields of a valid configuration."""
        patterns = {key: tuple(fields[key]) for key in ("always", "include", "exclude") if key in fields}
        return cls(search=bool(fields.get("search", False)), scripts=str(fields.get("scripts", OFF)), **patterns)

    @classmethod
    def of_server(cls, fields: Mapping[str, Any]) -> Listing:
        """Make the Listing of a server from its fields; a toolset may have LISTING_MEMBERS beside `listing`."""
        own = {member: fields[member] for member in LISTING_MEMBERS if member in fields}
        return cls.of({**fields.get("listing", {}), **own})

    def select(self, tools: Tools) -> dict[str, Descriptor]:
        """Return the tools that exist after `include` and `exclude`."""
        included = tools
        if "*" not in self.include:
            included = {name: one for name, one in tools.items() if _matches(one, self.include)}
        if not self.exclude:
            return dict(included)
        return {name: one for name, one in included.items() if not _matches(one, self.exclude)}

    def visible(self, tools: Tools) -> Tools:
        """Return the tools that a list shows."""
        is_scripted = self.has_scripts(tools) and is_installed()
        is_search = self.is_search_active(tools) and not (is_scripted and self.scripts == ONLY)
        if not is_scripted and not is_search:
            return tools
        shown = dict(tools)
        if is_search or self.scripts == ONLY:
            shown = {name: one for name, one in tools.items() if _matches(one, self.always)}
        return {
            **(script_descriptors(tools, name_owners(tools)) if is_scripted else {}),
            **(search_descriptors(tools) if is_search else {}),
            **shown,
        }

    def has_scripts(self, tools: Tools) -> bool:
        """Whether scripts may call the tools: false without tools, or when a tool has a name of the two of scripts.

        A hub without the interpreter of scripts has them too: its `run_script` says what is missing.
        """
        return self.scripts != OFF and bool(tools) and not any(name in tools for name in SCRIPT_TOOLS)

    def is_search_active(self, tools: Tools) -> bool:
        """Whether the two search tools replace the list: false without tools, or when a tool has one of their names."""
        return self.search and bool(tools) and SEARCH not in tools and CALL not in tools

    def problems(self, tools: Tools) -> Iterator[Problem]:
        """Yield problems for the operator: a pattern that matches no tool, a search that is impossible."""
        for key in ("always", "include", "exclude"):
            for pattern in getattr(self, key):
                if pattern != "*" and not any(_matches(one, [pattern]) for one in tools.values()):
                    yield Problem(f"listing.{key}", f"no tool matches {pattern}{suggest_patterns(pattern, tools)}")
        if self.search and {SEARCH, CALL} & self.select(tools).keys():
            reason = f"one of the server's own tools is called {SEARCH} or {CALL}, so search stays off"
            yield Problem("listing.search", reason)
        if self.scripts != OFF and set(SCRIPT_TOOLS) & self.select(tools).keys():
            reason = f"one of the server's own tools is called {FIND} or {RUN}, so scripts stay off"
            yield Problem("listing.scripts", reason)
        elif self.scripts != OFF and not is_installed():
            yield Problem("listing.scripts", NOT_INSTALLED)


def _matches(one: Descriptor, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in one.names)


def suggest_patterns(pattern: str, tools: Tools) -> str:
    """Return the end of a sentence about a pattern without a match: what is nearest to it; empty if nothing is.

    A pattern with a wildcard may mean all tools of a server of another name, or others of its tools.
    """
    literal = pattern.strip("*?")
    names = {tool.name: None for tool in tools.values()}
    if "." in literal:
        names = {tool.names[1] if tool.belongs_to else tool.name: None for tool in tools.values()}
    if literal != pattern:
        ending = "." if literal.endswith(".") else "__"
        servers = dict.fromkeys(tool.belongs_to[0] for tool in tools.values() if tool.belongs_to)
        of_server = literal.partition(ending)[0]
        close = [f"{one}{ending}*" for one in find_similar_names(of_server, list(servers))]
        if close and of_server not in servers:
            return did_you_mean(close)
    return did_you_mean(find_similar_names(literal, list(names)))


def search_descriptors(tools: Tools) -> dict[str, Descriptor]:
    """Return the two search tools by name."""
    reads = all(one.read_only for one in tools.values())
    hints = {"readOnlyHint": True} if reads else {}
    search = {
        "name": SEARCH,
        "title": "Search tools",
        "description": f"Find tools by what they do. There are {len(tools)}: {name_owners(tools)}. "
        f"Returns the best matches with the schemas of their arguments. Call one by its name, or with {CALL}.",
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


def name_owners(tools: Tools) -> str:
    """Name the servers of the tools, else the tools, so that a model knows when to search."""
    servers = list(dict.fromkeys(one.belongs_to[0] for one in tools.values() if one.belongs_to))
    names = servers or list(tools)
    more = f" and {len(names) - MAX_NAMED_SERVERS} more" if len(names) > MAX_NAMED_SERVERS else ""
    return ("of the servers " if servers else "") + ", ".join(names[:MAX_NAMED_SERVERS]) + more


_SEARCH_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "What the tool should do, in a few words; an empty query lists the first tools.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_FOUND_TOOLS,
            "default": DEFAULT_FOUND_TOOLS,
            "description": "Maximum number of tools to return.",
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
        "hint": {"type": "string", "description": "The next step when there is no match."},
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
