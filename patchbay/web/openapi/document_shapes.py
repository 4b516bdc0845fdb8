"""The JSON Schemas of the JSON responses of the pages of documents."""

from __future__ import annotations

from patchbay.web.openapi.route_table import (
    ANY,
    FLAG,
    INTEGER,
    TEXT,
    UNIX,
    Schema,
    array_of,
    nullable,
    object_of,
)

_ROW = object_of(path=TEXT, title=TEXT, description=TEXT, problem=TEXT)
_FOLDER = object_of(path=TEXT, name=TEXT, documents=INTEGER)
_FOUND: Schema = {
    "type": "object",
    "properties": {"total": INTEGER, "results": array_of({"type": "object", "required": ["path", "title"]})},
    "required": ["total", "results"],
}

DOCUMENT_SHAPES: dict[str, Schema] = {
    "Folder": object_of(
        server=TEXT,
        query=TEXT,
        found=nullable(_FOUND),
        folder=TEXT,
        folders=array_of(_FOLDER),
        documents=array_of(_ROW),
        total=INTEGER,
        pending=INTEGER,
        left_out=array_of(object_of(path=TEXT, reason=TEXT)),
        meaning=object_of(is_on=FLAG, pending=INTEGER, documents=INTEGER, install=TEXT),
    ),
    "Document": object_of(
        server=TEXT,
        path=TEXT,
        title=TEXT,
        cid=TEXT,
        metadata={"type": "object", "additionalProperties": ANY},
        problem=TEXT,
        content=TEXT,
        headings=array_of(object_of(level=INTEGER, title=TEXT, anchor=TEXT)),
        versions=array_of(object_of(cid=nullable(TEXT), at=UNIX, how=TEXT)),
        is_present=FLAG,
    ),
    "Documents": {"anyOf": [{"$ref": "#/components/schemas/Folder"}, {"$ref": "#/components/schemas/Document"}]},
    "DocumentVersions": object_of(server=TEXT, path=TEXT, comparison={"type": "object"}),
    "DocumentDraft": object_of(server=TEXT, path=TEXT, text=TEXT, problem=nullable(TEXT)),
}
