"""Search tools by what they do: `search_tools`, answered from an index of one version of a server.

The index is in memory, is made at the first search, and is released with its server. Names count most, then titles,
descriptions and the texts of the arguments. With a model, tools near the query's meaning count too. MCP specification,
server/tools.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from patchbay.activation import Call, Events
from patchbay.catalogue.search.meaning_ranks import rank_entries
from patchbay.catalogue.servers.listing import CALL, DEFAULT_FOUND_TOOLS, SEARCH, search_descriptors
from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.descriptors import Descriptor
from patchbay.embeddings.short_texts import ShortTexts
from patchbay.errors import ToolFailed
from patchbay.events import Data
from patchbay.fulltext.index import Index, IndexedText
from patchbay.fulltext.words import pieces

WEIGHTS = {"name": 4.0, "title": 2.0, "description": 2.0, "arguments": 1.0}
RESULT_FIELDS = ("name", "title", "description", "inputSchema", "annotations")
"""Fields of a tool in a search result."""

MAX_OBJECT_DEPTH = 4
"""Maximum depth of nested objects that are searched for names of arguments."""

_FIRST_SENTENCE = re.compile(r".*?(?<!\be\.g)(?<!\bi\.e)[.!?](?=\s)|.+")

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
        self._meaning = ShortTexts()

    def search(self, query: str, limit: int = DEFAULT_FOUND_TOOLS) -> dict[str, Any]:
        """Return the structured result of a search; an empty query returns the first tools."""
        names = self.names(query, limit)
        result: dict[str, Any] = {"tools": [_select_fields(self._tools[name].wire) for name in names]}
        if not names:
            result["hint"] = "No tool has any of these words. Try other words, or an empty query for the first tools."
        return result

    def names(self, query: str, limit: int = DEFAULT_FOUND_TOOLS) -> list[str]:
        """Return the names of at most `limit` tools, best first; an empty query returns the first tools."""
        if not query.strip():
            return list(self._tools)[:limit]
        with self._lock:
            index = self._index
            if not self._meaning.is_possible:
                return [hit.key for hit in index.search(query, limit)]
            found = rank_entries(index, self._meaning, query, limit)
        return sorted(found, key=lambda name: not _is_named(name, query))

    @cached_property
    def _index(self) -> Index:
        index = Index(WEIGHTS)
        index.put(*(IndexedText(name, searchable_texts(one.wire)) for name, one in self._tools.items()))
        self._meaning.put({name: text_of_meaning(searchable_texts(one.wire)) for name, one in self._tools.items()})
        return index


def _is_named(name: str, query: str) -> bool:
    """Whether a query is the name of a tool, with or without that of its server before it."""
    return query.strip().lower() in (name.lower(), name.lower().rpartition("__")[2])


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


def text_of_meaning(texts: Mapping[str, str]) -> str:
    """Return what a tool is for: the words of its name, with those of its server, its title, its first sentence.

    The rest of a description and the arguments say how it is called; with them, questions find fewer right tools.
    """
    name = " ".join(pieces(f"{texts.get('server', '')} {texts['name']}"))
    return f"{name} {texts['title']}. {first_sentence(texts.get('description', ''))}"


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, or its first line if that ends earlier."""
    found = _FIRST_SENTENCE.match(text.strip())
    return found[0] if found else ""


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
