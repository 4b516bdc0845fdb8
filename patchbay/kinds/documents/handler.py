"""A folder of Markdown as a read-only server: `"kind": "documents"` with its `root`.

Its tools list, search and read; `docs://<server>/<path>` is each document. The folder is never written to: the index is
in memory, and is started at the first request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from patchbay.activation import Call, Events, Handler, Hub
from patchbay.documents import paths
from patchbay.documents.collection import Library
from patchbay.documents.errors import BadPath, NoDocument
from patchbay.documents.index import DocumentChange, DocumentRow
from patchbay.documents.paths import uri_of
from patchbay.documents.search_results import answered, told
from patchbay.errors import PatchbayError, ResourceNotFound, ToolFailed
from patchbay.events import Content, Data, Event, Pause, Progress

ENDINGS = (".md", ".markdown", ".mdx")
IGNORED = ("node_modules",)
CHANGED = "document.changed"
"""The event type of a folder."""

log = logging.getLogger(__name__)

NO_FOLDER = (
    "The folder of this server is not there now; the operator of the hub finds its path on the page of the server."
)
"""What a list and a search say, so that an empty answer is not taken for an empty folder."""

FIRST_SCAN_WAIT_SECONDS = 20.0
"""Seconds that a search waits for the first scan of the folder; then it answers from the documents indexed so far."""

LIST_WAIT_SECONDS = 0.5
"""Seconds that a list of resources waits for the first scan; a longer scan announces the list when it is done."""


def documents_handler(server: str, root: str) -> Handler:
    """Return the handler of a folder's tools and resources. It raises ToolFailed for missing documents."""
    known = {"list_documents": _list, "get_document": _get, "search": _search, "read": _read, "paths": _paths}

    def handle(call: Call) -> Events:
        if call.hub is None:
            raise ToolFailed("this call runs without a hub")
        library = library_of(call.hub, server, root)
        function = call.target["function"]
        if function in ("list_documents", "search", "paths") or not paths.is_portable(call.arguments["path"]):
            yield from _wait_for_scan(library)
        for event in known[function](library, server, call.arguments):
            yield _name_missing_folder(event, root) if function in ("list_documents", "search") else event

    return handle


def library_of(hub: Hub, server: str, root: str) -> Library:
    """Return the library of a folder, opened at the first request and closed when the hub ends."""

    def open_library() -> Library:
        library = Library(folder_of(root), ENDINGS, True, IGNORED, partial(_announce_changes, hub, server))
        library.start()
        return library

    # A server's name contains no space; another root is another library.
    library: Library = hub.kept(f"{server} {root}", open_library)
    return library


def folder_of(root: str) -> Path:
    """Return the folder that a configuration names."""
    return Path(root).expanduser()


def _name_missing_folder(event: Event, root: str) -> Event:
    """Return an event of a list or a search, with a sentence when the folder is not there."""
    if not isinstance(event, Data):
        return event
    try:
        is_there = folder_of(root).is_dir()
    except OSError:
        is_there = False
    return event if is_there else replace(event, text=f"{event.text} {NO_FOLDER}")


def _announce_changes(hub: Hub, server: str, changes: Sequence[DocumentChange]) -> None:
    _emit_changes(hub, server, changes)
    for change in changes:
        if change.how != "added":
            hub.updated(server, uri_of(server, change.key))
    if any(change.relisted for change in changes):
        hub.changed(server, "resources")


def _emit_changes(hub: Hub, server: str, changes: Sequence[DocumentChange]) -> None:
    """Emit an event for each change. The first scan finds no change; what changed before it may be missing.

    Each process watches the folder. The id of an event is made of what all of them see, so that it is stored once.
    """
    try:
        if not changes or any(change.is_first for change in changes):
            hub.missed(server, CHANGED)
        for change in changes:
            if not change.is_first:
                data, seen = _event_of(server, change)
                hub.emit(server, CHANGED, data, f"doc_{sha256(orjson.dumps(seen)).hexdigest()[:40]}")
    except PatchbayError as problem:  # a read-only hub, or a server that was removed meanwhile
        log.info("the changes of the documents of %s are no events: %s", server, problem.message)


def _event_of(server: str, change: DocumentChange) -> tuple[dict[str, Any], list[str]]:
    """Return the data of the event of a change, and what every process that watches the folder sees of it."""
    data = {"how": change.how, "path": change.key, "uri": uri_of(server, change.key)}
    row, stamp = change.row, ""
    if row is not None:
        stamp = row.stamp
        if change.how != "removed":
            data |= {"title": row.title, "cid": row.cid}
    return data, [change.key, "removed" if change.how == "removed" else "there", stamp]


def _wait_for_scan(library: Library) -> Events:
    """Wait for the first scan of the folder, with progress events."""
    for _ in range(int(FIRST_SCAN_WAIT_SECONDS * 4)):
        reported: list[Progress] = []
        note = partial(_add_progress, reported)
        if library.ready(0.25, note):
            library.catch_up()
            return
        yield reported[-1] if reported else Pause()


def _add_progress(reported: list[Progress], done: int, total: int) -> None:
    reported.append(Progress(done, total, f"indexed {done} of {total} documents"))


def _list(library: Library, server: str, arguments: Mapping[str, Any]) -> Events:
    folder = arguments.get("folder", "").strip("/")
    rows = library.rows(f"{folder}/" if folder else "")
    if folder and not rows:
        raise ToolFailed(f"there are no documents in {folder}; list_documents without a folder lists all")
    documents = [summarize(server, row) for row in rows]
    lines = [f"- {row.title} ({row.key})" for row in rows] or ["There are no documents yet."]
    yield Data({"documents": documents}, None, "\n".join(lines))


def _get(library: Library, server: str, arguments: Mapping[str, Any]) -> Events:
    document = library.read(arguments["path"])
    value = summarize(server, document.row) | {"metadata": document.metadata, "content": document.front.body}
    yield Data({**value, "cid": document.row.cid}, None, document.front.body)


def _search(library: Library, server: str, arguments: Mapping[str, Any]) -> Events:
    given = {name: arguments[name] for name in ("limit", "offset") if name in arguments}
    with_content = bool(arguments.get("includeContent"))
    value = answered(library, arguments["query"], {}, partial(summarize, server), with_content=with_content, **given)
    yield Data(value, None, told(value))


def _read(library: Library, server: str, arguments: Mapping[str, Any]) -> Events:
    uri = uri_of(server, arguments["path"])
    try:
        document = library.read(arguments["path"])
    except (BadPath, NoDocument) as problem:
        raise ResourceNotFound(uri, problem.message) from problem
    meta = {"cid": document.row.cid, "metadata": document.metadata}
    resource = {"uri": uri, "mimeType": "text/markdown", "text": document.text, "_meta": meta}
    yield Content({"type": "resource", "resource": resource})


def _paths(library: Library, server: str, arguments: Mapping[str, Any]) -> Events:
    yield Data([row.key for row in library.rows()])


def summarize(server: str, row: DocumentRow) -> dict[str, Any]:
    """Return the summary of a document for lists."""
    return {"uri": uri_of(server, row.key), "path": row.key, "title": row.title, **dict(_optional_fields(row))}


def _optional_fields(row: DocumentRow) -> Iterator[tuple[str, Any]]:
    fields = {"description": row.description, "author": row.author, "tags": list(row.tags), "problem": row.problem}
    return ((name, value) for name, value in fields.items() if value)
