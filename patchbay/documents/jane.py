"""The two collections of the server jane in one library: `stdlib/{language}/**.md` and `specs/{project}/**.md`.

Stored definitions of the server import this module, so its names stay (docs/definitions.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from patchbay.documents import paths
from patchbay.documents.collection import Library
from patchbay.documents.index import DocumentChange, DocumentRow
from patchbay.documents.search_results import answered as answered
from patchbay.documents.search_results import told as told
from patchbay.errors import WrongArguments

FIRST_SCAN_SECONDS = 0.5
"""Seconds that a list of resources waits for the first scan of the folder; a notification follows a longer scan."""


@dataclass(frozen=True, slots=True)
class Collection:
    """One of the two collections: its `type` in arguments (also the URI scheme), its folder, the name of its groups."""

    type: str
    folder: str
    group: str

    def key(self, group: str, path: str) -> str:
        """Return the path in the library of a document of a group. Raises BadPath.

        The library itself refuses a path that is not valid on every system, unless such a document exists.
        """
        if not group or "/" in group or paths.why_not_served(group):
            paths.name(group, self.group)
        if paths.why_not_served(path):
            paths.document_path(path)
        return f"{self.folder}/{group}/{path}"

    def uri(self, group: str, path: str) -> str:
        """Return the URI of a document."""
        return f"{self.type}://{quote(group, safe='')}/{quote(path, safe='/')}"


STDLIB = Collection("stdlib", "stdlib", "language")
SPEC = Collection("spec", "specs", "project")
BY_TYPE = {one.type: one for one in (STDLIB, SPEC)}
_BY_FOLDER = {one.folder: one for one in (STDLIB, SPEC)}


def place_of(key: str) -> tuple[Collection, str, str] | None:
    """Return collection, group and path of a document of the library; None for a document in neither collection."""
    parts = key.split("/", 2)
    found = _BY_FOLDER.get(parts[0])
    return (found, parts[1], parts[2]) if found is not None and len(parts) == 3 else None


def uri_of(key: str) -> str:
    """Return the URI of a document of one of the collections."""
    place = place_of(key)
    assert place is not None, f"{key} is in neither collection"
    collection, group, path = place
    return collection.uri(group, path)


def chosen(type: str, language: str | None, project: str | None) -> tuple[Collection, str]:
    """Return the collection and group in a tool's arguments. Raises WrongArguments for a missing group."""
    collection = BY_TYPE[type]
    group = language if collection is STDLIB else project
    if not group:
        raise WrongArguments(f"{collection.group.capitalize()} parameter is required for a document of type {type}")
    return collection, group


def opened(context: Any) -> Library:
    """Return the library of the calling server. The first call opens it; the hub closes it when the hub stops."""
    library: Library = context.kept(_open_library)
    return library


def listed(context: Any) -> list[dict[str, Any]]:
    """Return an entry of `resources/list` for every document, sorted by path."""
    library = opened(context)
    library.ready(FIRST_SCAN_SECONDS)
    found = []
    for row in library.rows():
        place = place_of(row.key)
        if place is None:
            continue
        collection, group, path = place
        entry = {
            "uri": collection.uri(group, path),
            "name": path,
            "title": row.title,
            "description": row.description or None,
            "mimeType": "text/markdown",
            "size": row.size,
            "annotations": {"lastModified": row.updated} if row.updated else None,
        }
        found.append(entry)
    return found


def summary(row: DocumentRow) -> dict[str, Any]:
    """Return the entry of a document in the results of tools."""
    place = place_of(row.key)
    assert place is not None, f"{row.key} is in neither collection"
    collection, group, path = place
    entry = {
        "uri": collection.uri(group, path),
        "type": collection.type,
        collection.group: group,
        "path": path,
        "title": row.title,
        "description": row.description,
        "author": row.author,
        "tags": list(row.tags),
        "createdAt": row.created,
        "updatedAt": row.updated,
        "problem": row.problem,
    }
    needed = ("uri", "type", collection.group, "path", "title", "tags")
    return {name: value for name, value in entry.items() if value or name in needed}


def _open_library(context: Any) -> Library:
    library = Library(context.folder, listener=partial(_report_changes, context))
    library.start()
    return library


def _report_changes(context: Any, changes: Sequence[DocumentChange]) -> None:
    for change in changes:
        if place_of(change.key) is not None and change.how != "added":
            context.updated(uri_of(change.key))
    if any(change.relisted for change in changes):
        context.changed("resources")
