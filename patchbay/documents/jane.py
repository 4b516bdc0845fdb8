"""Jane's two collections in one library: `stdlib/{language}/**.md` and `specs/{project}/**.md`, and their addresses.

Sources: REQUIREMENTS section 5 (JANE-11, JANE-12, JANE-C7, A-F1).
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

FIRST_LOOK = 0.5
"""Seconds that a list of resources waits for the first look at the disk; a longer one is told when it is done."""


@dataclass(frozen=True, slots=True)
class Collection:
    """One of the two: the `type` of tools' arguments, its folder and its scheme, and what its groups are called."""

    type: str
    folder: str
    group: str

    def key(self, group: str, path: str) -> str:
        """The path in the library of a document of a group. Raises BadPath."""
        key = f"{self.folder}/{paths.name(group, self.group)}/{path}"
        paths.document_path(path)
        return key

    def uri(self, group: str, path: str) -> str:
        """The address of a document."""
        return f"{self.type}://{quote(group, safe='')}/{quote(path, safe='/')}"


STDLIB = Collection("stdlib", "stdlib", "language")
SPEC = Collection("spec", "specs", "project")
BY_TYPE = {one.type: one for one in (STDLIB, SPEC)}
_BY_FOLDER = {one.folder: one for one in (STDLIB, SPEC)}


def place_of(key: str) -> tuple[Collection, str, str] | None:
    """Collection, group and path of a document of the library; None for one that belongs to neither collection."""
    parts = key.split("/", 2)
    found = _BY_FOLDER.get(parts[0])
    return (found, parts[1], parts[2]) if found is not None and len(parts) == 3 else None


def uri_of(key: str) -> str:
    """The address of a document of one of the collections."""
    place = place_of(key)
    assert place is not None, f"{key} lies in neither collection"
    collection, group, path = place
    return collection.uri(group, path)


def chosen(type: str, language: str | None, project: str | None) -> tuple[Collection, str]:
    """The collection and group that a tool's arguments name. Raises WrongArguments when the group is missing."""
    collection = BY_TYPE[type]
    group = language if collection is STDLIB else project
    if not group:
        raise WrongArguments(f"{collection.group.capitalize()} parameter is required for a document of type {type}")
    return collection, group


def opened(context: Any) -> Library:
    """The library of the calling server, opened when it is asked for the first time, closed when the hub ends."""
    library: Library = context.kept(_made)
    return library


def listed(context: Any) -> list[dict[str, Any]]:
    """Every document as an entry of `resources/list`, by address."""
    library = opened(context)
    library.ready(FIRST_LOOK)
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
    """What a list says of a document."""
    place = place_of(row.key)
    assert place is not None, f"{row.key} lies in neither collection"
    collection, group, path = place
    said = {
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
    return {name: value for name, value in said.items() if value or name in needed}


def _made(context: Any) -> Library:
    library = Library(context.folder, listener=partial(_tell, context))
    library.start()
    return library


def _tell(context: Any, changes: Sequence[DocumentChange]) -> None:
    for change in changes:
        if place_of(change.key) is not None and change.how != "added":
            context.updated(uri_of(change.key))
    if any(change.relisted for change in changes):
        context.changed("resources")
