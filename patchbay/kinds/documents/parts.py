"""The parts of a server of documents: its tools, its template, and each document as a resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from patchbay.descriptors import Descriptor, Problem
from patchbay.documents.collection import Library
from patchbay.documents.paths import uri_of
from patchbay.documents.search import MAX_OFFSET, MAX_QUERY_CHARACTERS
from patchbay.documents.search_results import MAX_LIMIT
from patchbay.kind import ConfiguredServer, ServerParts
from patchbay.kinds.documents.handler import (
    CHANGED,
    LIST_WAIT_SECONDS,
    documents_handler,
    folder_of,
    library_of,
)
from patchbay.occurrences.event_types import DOCUMENT_SCHEMA, event_type
from patchbay.shaping.own_tools import shape_own_tools

HINTS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
TEXT = {"type": "string"}
NON_EMPTY = {"type": "string", "minLength": 1}
SUMMARY = {
    **dict.fromkeys(("uri", "path", "title", "description", "author", "problem"), TEXT),
    "tags": {"type": "array", "items": TEXT},
}
NEEDED = ["uri", "path", "title"]
MATCH = {"type": "object", "properties": {"line": {"type": "integer"}, "text": TEXT}, "required": ["line", "text"]}


def make_parts(server: ConfiguredServer) -> ServerParts:
    """Return the parts of a folder's server; its hub supplies the library whose documents are listed."""
    name, root = server.name, server.fields["root"]
    template = _template(name)
    library = library_of(server.hub, name, root) if server.hub is not None else None
    own = shape_own_tools(name, server.fields, {one.name: one for one in _tools()}, documents_handler(name, root))
    return ServerParts(
        own.handler,
        own.tools,
        _resources(name, library) if library is not None else {},
        {template.name: template},
        events={
            CHANGED: event_type(
                CHANGED, f"A document of {name} changed.", DOCUMENT_SCHEMA, {"resource": "uri"}, "static"
            )
        },
        problems=(*_folder_problems(root), *_left_out(name, library), *own.problems),
        description=f"The documents of {name}",
        fields={"completions": {template.name: {"path": {"function": "paths"}}}},
    )


def _folder_problems(root: str) -> list[Problem]:
    """Return a problem where the folder does not exist, is a file, or this hub may not read it."""
    try:
        there, is_file = folder_of(root).is_dir(), folder_of(root).is_file()
    except OSError as problem:
        return [Problem("root", f"the folder {root} cannot be reached: {problem.strerror}", is_fault=True)]
    if there:
        return []
    reason = f"{root} is a file: write the folder that has it" if is_file else f"there is no folder {root}"
    return [Problem("root", reason, is_fault=True)]


def _left_out(name: str, library: Library | None) -> list[Problem]:
    """Return a problem that says how many files are not served; their names are for readers who may read them."""
    count = len(library.left_out) if library is not None else 0
    if not count:
        return []
    some = "1 file or folder is" if count == 1 else f"{count} files or folders are"
    return [Problem("root", f"{some} not served; /servers/{quote(name, safe='')}/documents has the reason for each")]


def _resources(name: str, library: Library) -> dict[str, Descriptor]:
    library.ready(LIST_WAIT_SECONDS)
    found = {}
    for row in library.rows():
        uri = uri_of(name, row.key)
        wire = {"uri": uri, "name": row.key, "title": row.title, "mimeType": "text/markdown", "size": row.size}
        wire |= {"description": row.description} if row.description else {}
        found[uri] = Descriptor("resource", uri, wire)
    return found


def _template(name: str) -> Descriptor:
    uri = uri_of(name, "") + "{+path}"
    wire = {"uriTemplate": uri, "name": "document", "title": "Document", "mimeType": "text/markdown"}
    return Descriptor("template", uri, wire, {"function": "read"})


def _tools() -> list[Descriptor]:
    path = {"path": {**NON_EMPTY, "description": "The path of the document, as in the result of list_documents."}}
    folder = {"folder": {**TEXT, "description": "List only documents in this folder and in the folders inside it."}}
    asked = {
        "query": {
            **TEXT,
            "maxLength": MAX_QUERY_CHARACTERS,
            "description": 'Words; "a phrase" in double quotes; valid* for words that begin so; * for all documents.',
        },
        "includeContent": {"type": "boolean", "description": "Whether the result has the text of each document too."},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": "Maximum number of results."},
        "offset": {
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_OFFSET,
            "description": "Number of results to skip: the nextOffset of the previous result.",
        },
    }
    whole = {**SUMMARY, "cid": TEXT, "metadata": {"type": "object"}, "content": TEXT}
    section = _object({"title": TEXT, "anchor": TEXT}, ["title", "anchor"])
    hit = {**SUMMARY, "score": {"type": "number"}, "section": section, "matches": {"type": "array", "items": MATCH}}
    hit |= {"content": TEXT, "contentLeftOut": {"type": "boolean"}}
    listed = _object({"documents": {"type": "array", "items": _object(SUMMARY, NEEDED)}}, ["documents"])
    results = {"type": "array", "items": _object(hit, [*NEEDED, "score", "matches"])}
    count, flag = {"type": "integer"}, {"type": "boolean"}
    totals = {"query": TEXT, "total": count, "every": flag, "behind": flag, "pending": count, "nextOffset": count}
    found = _object({**totals, "didYouMean": TEXT, "results": results}, ["query", "total", "results"])
    return [
        _tool("list_documents", "List documents", "List the documents of this folder.", _object(folder), listed),
        _tool("get_document", "Get a document", "Get one document.", _object(path, ["path"]), _object(whole, NEEDED)),
        _tool("search", "Search documents", "Search for documents.", _object(asked, ["query"]), found),
    ]


def _tool(name: str, title: str, about: str, takes: dict[str, Any], gives: dict[str, Any]) -> Descriptor:
    wire = {"name": name, "title": title, "description": about, "inputSchema": takes, "outputSchema": gives}
    return Descriptor("tool", name, {**wire, "annotations": HINTS}, {"function": name})


def _object(properties: Mapping[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties)} | ({"required": required} if required else {})
