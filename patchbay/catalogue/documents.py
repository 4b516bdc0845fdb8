"""A folder of documents as a Server: its tools, its template, and each document as a resource.

Sources: issue "a library of documents", part 5; DESIGN section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.activation import Hub
from patchbay.catalogue.listing import Listing
from patchbay.catalogue.rows import Row
from patchbay.catalogue.servers import Server
from patchbay.descriptors import Descriptor, Problem
from patchbay.documents.search import MAX_OFFSET, MAX_QUERY_CHARACTERS
from patchbay.documents.search_results import MAX_LIMIT
from patchbay.kinds.documents.handler import FIRST_LOOK, documents_handler, folder_of, library_of, uri_of

HINTS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
TEXT = {"type": "string"}
SOME = {"type": "string", "minLength": 1}
SUMMARY = {
    **dict.fromkeys(("uri", "path", "title", "description", "author", "problem"), TEXT),
    "tags": {"type": "array", "items": TEXT},
}
NEEDED = ["uri", "path", "title"]
MATCH = {"type": "object", "properties": {"line": {"type": "integer"}, "text": TEXT}, "required": ["line", "text"]}


def documents(
    row: Row,
    version: str,
    fields: Mapping[str, Any],
    hub: Hub | None,
    timeout: float,
    pinned: bool = False,
) -> Server:
    """The server of a folder; `hub` gives the library whose documents are listed."""
    enabled = row.serves(fields)
    listing = Listing.of(fields.get("listing", {}))
    tools = listing.kept({one.name: one for one in _tools()})
    template = _template(row.name)
    return Server(
        row.name,
        version,
        row.kind,
        definition=row.definition_cid,
        config_cid=row.config_cid,
        config={**fields, "completions": {template.name: {"path": {"function": "paths"}}}},
        title=fields.get("title"),
        description=fields.get("description") or f"The documents of {row.name}",
        instructions=fields.get("instructions"),
        tools=tools if enabled else {},
        resources=_resources(row.name, fields["root"], hub) if enabled and hub is not None else {},
        templates={template.name: template} if enabled else {},
        problems=(*_without_folder(fields["root"]), *listing.problems(tools)) if enabled else (),
        handler=documents_handler(row.name, fields["root"]),
        enabled=enabled,
        pinned=pinned,
        origin=row.origin,
        timeout=float(fields.get("timeout", timeout)),
        listing=listing,
    )


def _without_folder(root: str) -> list[Problem]:
    """Why there is nothing to serve, where the folder is not there or nobody lets this hub look."""
    try:
        there = folder_of(root).is_dir()
    except OSError as problem:
        return [Problem("root", f"the folder {root} cannot be reached: {problem.strerror}")]
    return [] if there else [Problem("root", f"there is no folder {root}")]


def _resources(name: str, root: str, hub: Hub) -> dict[str, Descriptor]:
    library = library_of(hub, name, root)
    library.ready(FIRST_LOOK)
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
    path = {"path": {**SOME, "description": "The document's path, as list_documents says it."}}
    folder = {"folder": {**TEXT, "description": "Only documents in this folder, and in those inside it."}}
    asked = {
        "query": {
            **TEXT,
            "maxLength": MAX_QUERY_CHARACTERS,
            "description": 'Words; "a phrase" in double quotes, begin* for words that begin so, * for all documents.',
        },
        "includeContent": {"type": "boolean", "description": "Whether to give each document's text too."},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": "How many documents to show."},
        "offset": {
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_OFFSET,
            "description": "How many to leave out, as nextOffset says it.",
        },
    }
    whole = {**SUMMARY, "cid": TEXT, "metadata": {"type": "object"}, "content": TEXT}
    section = _object({"title": TEXT, "anchor": TEXT}, ["title", "anchor"])
    hit = {**SUMMARY, "score": {"type": "number"}, "section": section, "matches": {"type": "array", "items": MATCH}}
    hit |= {"content": TEXT, "contentLeftOut": {"type": "boolean"}}
    listed = _object({"documents": {"type": "array", "items": _object(SUMMARY, NEEDED)}}, ["documents"])
    results = {"type": "array", "items": _object(hit, [*NEEDED, "score", "matches"])}
    count, flag = {"type": "integer"}, {"type": "boolean"}
    said = {"query": TEXT, "total": count, "every": flag, "behind": flag, "pending": count, "nextOffset": count}
    found = _object({**said, "didYouMean": TEXT, "results": results}, ["query", "total", "results"])
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
