"""Search tools by what they do: `search_tools`, answered from an index of one version of a server.

The index is in memory, is made at the first search, and is released with its server. Names count most, then titles,
descriptions and the texts of the arguments. MCP specification, server/tools.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from patchbay.activation import Call, Events
from patchbay.catalogue.listing import CALL, DEFAULT_FOUND_TOOLS, SEARCH, search_descriptors
from patchbay.catalogue.servers import Server, ServerCache
from patchbay.descriptors import Descriptor
from patchbay.errors import ToolFailed
from patchbay.events import Data
from patchbay.fulltext.index import Index, IndexedText

WEIGHTS = {"name": 4.0, "title": 2.0, "description": 2.0, "arguments": 1.0}
RESULT_FIELDS = ("name", "title", "description", "inputSchema", "annotations")
"""Fields of a tool in a search result."""

MAX_OBJECT_DEPTH = 4
"""Maximum depth of nested objects that are searched for names of arguments."""

FINDERS: ServerCache[str, Server] = ServerCache()


def search_server(server: Server) -> Server:
    """Return the server that answers `search_tools` for another one; made once for each version."""
    return FINDERS.get(server, "", lambda: _build_finder(server))


def _build_finder(server: Server) -> Server:
    search = ToolSearch({name: one for name, one in server.found_tools.items() if one.is_for_models})

    def handle(call: Call) -> Events:
        if call.target["front"] == CALL:
            raise ToolFailed(f"{CALL} cannot call itself: expected the name of a tool that {SEARCH} finds")
        yield Data(search.search(call.arguments["query"], call.arguments.get("limit", DEFAULT_FOUND_TOOLS)))

    return Server(
        server.name,
        server.version,
        "static",
        tools=search_descriptors(server.found_tools),
        handler=handle,
        pinned=server.pinned,
        timeout=server.timeout,
    )


class ToolSearch:
    """Searches some tools. Thread-safe."""

    def __init__(self, tools: Mapping[str, Descriptor]) -> None:
        self._tools = tools
        self._lock = threading.Lock()

    def names(self, query: str, limit: int) -> list[str]:
        """Return the names of the best tools for a query; those of the first tools for an empty one."""
        if not query.strip():
            return list(self._tools)[:limit]
        with self._lock:
            index = self._index
        return [hit.key for hit in index.search(query, limit)]

    def search(self, query: str, limit: int = DEFAULT_FOUND_TOOLS) -> dict[str, Any]:
        """Return the structured result of a search; an empty query returns the first tools."""
        names = self.names(query, limit)
        result: dict[str, Any] = {"tools": [_select_fields(self._tools[name].wire) for name in names]}
        if not names:
            result["hint"] = "No tool has any of these words. Try other words, or an empty query for the first tools."
        return result

    @cached_property
    def _index(self) -> Index:
        index = Index(WEIGHTS)
        index.put(*(IndexedText(name, searchable_texts(one.wire)) for name, one in self._tools.items()))
        return index


def _select_fields(wire: Mapping[str, Any]) -> dict[str, Any]:
    return {key: wire[key] for key in RESULT_FIELDS if key in wire}


def searchable_texts(wire: Mapping[str, Any]) -> dict[str, str]:
    """Return the searched texts of a tool, by column."""
    return {
        "name": wire["name"],
        "title": wire.get("title") or (wire.get("annotations") or {}).get("title") or "",
        "description": wire.get("description") or "",
        "arguments": " ".join(_words(wire.get("inputSchema"))),
    }


def _words(schema: Any, depth: int = 0) -> Iterator[str]:
    """Yield names, titles, descriptions and choices of the properties of a schema, also in nested objects and lists."""
    if not isinstance(schema, Mapping) or depth > MAX_OBJECT_DEPTH:
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        yield name
        if isinstance(inner, Mapping):
            yield from (inner[key] for key in ("title", "description") if isinstance(inner.get(key), str))
            choices = inner.get("enum")
            yield from (one for one in choices if isinstance(one, str)) if isinstance(choices, list) else ()
            yield from _words(inner, depth + 1)
    yield from _words(schema.get("items"), depth + 1)
