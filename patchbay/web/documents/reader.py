"""`/servers/<name>/documents`: the folders of a library, one document as a page, its versions, and a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from flask import Blueprint, Response, request

from patchbay.documents.collection import Library
from patchbay.documents.errors import NoDocument
from patchbay.documents.headings import headings
from patchbay.documents.history import Version
from patchbay.documents.index import DocumentRow
from patchbay.documents.search import MAX_QUERY_CHARACTERS
from patchbay.documents.search_results import answered
from patchbay.embeddings.selection import INSTALL
from patchbay.errors import InvalidParams
from patchbay.hosts.path_prefix import add_prefix
from patchbay.web.documents.libraries import ShownLibrary, find_library
from patchbay.web.documents.rendering import page_of, render_document, resolve_path
from patchbay.web.operator.changes import explain_refusal
from patchbay.web.rendering.text_comparison import compare
from patchbay.web.site.answers import render_answer
from patchbay.web.site.site import Site

MAX_RESULTS = 50
"""Documents of one search on the page, at most."""

MAX_SEARCHED = 500
"""Results among which those are chosen that a reader with limited rights may read."""

MAX_LISTED = 500
"""Documents of one folder on the page, at most."""


class _ReaderViews:
    def __init__(self, site: Site) -> None:
        self._site = site

    def documents(self, name: str) -> Response:
        """GET /servers/<name>/documents: a folder, a document (`path`) or a search (`q`). Raises UnknownServer."""
        shown = find_library(self._site, name)
        if path := request.args.get("path", ""):
            return self._document(shown, path)
        query = request.args.get("q", "")
        if len(query) > MAX_QUERY_CHARACTERS:
            raise InvalidParams(f"the query has {len(query)} characters; expected at most {MAX_QUERY_CHARACTERS}")
        found = find_documents(shown, query) if query else None
        folder = request.args.get("folder", "").strip("/")
        data = {"server": shown.server, "query": query, "found": found, **list_folder(shown, shown.rows(), folder)}
        data["left_out"] = list_left_out(shown, folder)
        data["meaning"] = describe_meaning(shown)
        return self._page(shown, "documents.html", data)

    def _document(self, shown: ShownLibrary, path: str) -> Response:
        document = shown.read(path, request.args.get("version", ""))
        body = document.front.body
        data = {
            "server": shown.server,
            "path": path,
            "title": document.row.title,
            "cid": document.row.cid,
            "metadata": document.metadata,
            "problem": document.row.problem,
            "content": body,
            "headings": [{"level": each.level, "title": each.title, "anchor": each.anchor} for each in headings(body)],
            "versions": [asdict(each) for each in list_versions(shown.library, path)],
            "is_present": not request.args.get("version"),
        }
        rows = shown.rows()
        known = {row.key for row in rows}
        folder = list_folder(shown, rows, path.rpartition("/")[0])
        html = render_document(body, make_linker(request.script_root, shown.server, path, known))
        return self._page(shown, "document.html", data, html=html, here_folder=folder)

    def compare(self, name: str) -> Response:
        """GET /servers/<name>/documents/compare: compare the versions `old` and `new` of the document `path`."""
        shown = find_library(self._site, name)
        path, versions = request.args.get("path", ""), [request.args.get(key, "") for key in ("old", "new")]
        if not path or not all(versions):
            raise InvalidParams("expected path, old and new: a document and the CIDs of two of its versions")
        old, new = (shown.read(path, version).text for version in versions)
        found = compare(old, new)
        data = {"server": shown.server, "path": path, "comparison": asdict(found)}
        return self._page(shown, "document_versions.html", data, found=found)

    def _page(self, shown: ShownLibrary, template: str, data: dict[str, Any], **view: Any) -> Response:
        refusal = explain_refusal(self._site)
        may_write = not shown.library.readonly and refusal is None
        return render_answer(self._site, template, "servers", data, may_write=may_write, **view)


def find_documents(shown: ShownLibrary, query: str) -> dict[str, Any]:
    """Search in the library; return the totals and the results that the reader may read.

    A reader who may not read every document gets no numbers and no suggestion, which come from all of them.
    """

    def describe(row: DocumentRow) -> dict[str, Any]:
        return {"path": row.key, "title": row.title, "description": row.description}

    if all(shown.may_read(row.key) for row in shown.library.rows()):
        return answered(shown.library, query, {}, describe, limit=MAX_RESULTS)
    results: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None and offset < MAX_SEARCHED and len(results) < MAX_RESULTS:
        found = answered(shown.library, query, {}, describe, limit=MAX_RESULTS, offset=offset, may_find=shown.may_read)
        results += [each for each in found["results"] if shown.may_read(each["path"])]
        offset = found.get("nextOffset")
    return {"query": query, "total": len(results[:MAX_RESULTS]), "results": results[:MAX_RESULTS]}


def list_folder(shown: ShownLibrary, rows: Sequence[DocumentRow], folder: str) -> dict[str, Any]:
    """Return the folders inside a folder with their numbers of documents, and the documents in it. `rows` are all."""
    start = f"{folder}/" if folder else ""
    inside = [row for row in rows if row.key.startswith(start)]
    folders = Counter(rest.partition("/")[0] for row in inside if "/" in (rest := row.key[len(start) :]))
    here = [row for row in inside if "/" not in row.key[len(start) :]]
    return {
        "folder": folder,
        "folders": [{"path": start + name, "name": name, "documents": many} for name, many in sorted(folders.items())],
        "documents": [
            {"path": row.key, "title": row.title, "description": row.description, "problem": row.problem}
            for row in here[:MAX_LISTED]
        ],
        "total": len(here),
        "pending": shown.library.pending,
    }


def describe_meaning(shown: ShownLibrary) -> dict[str, Any]:
    """Return whether documents are found by meaning too, how many of them are not yet, and what to install for it.

    The number comes from all documents: a reader who may not read each of them gets 0.
    """
    library = shown.library
    if not library.has_meaning:
        return {"is_on": False, "pending": 0, "documents": 0, "install": INSTALL}
    count = len(shown.rows())
    pending = library.not_embedded if count == len(library.rows()) else 0
    return {"is_on": True, "pending": pending, "documents": count, "install": ""}


def list_left_out(shown: ShownLibrary, folder: str) -> list[dict[str, str]]:
    """Return the files and folders below a folder that are not served, each with the reason, at most MAX_LISTED."""
    start = f"{folder}/" if folder else ""
    found = ((path, why) for path, why in shown.library.left_out.items() if path.startswith(start))
    return [{"path": path, "reason": why} for path, why in found if shown.may_read(path)][:MAX_LISTED]


def list_versions(library: Library, path: str) -> list[Version]:
    """Return the versions of a document, newest first; empty for a library without a history."""
    try:
        return library.history(path)
    except NoDocument:
        return []


def make_linker(prefix: str, server: str, document: str, known: set[str]) -> Callable[[str, str], str | None]:
    """Return a function that gives the page of a link's target in a document, with the path prefix of the hub.

    A target that is not a document has no page.
    """

    def link_to(target: str, anchor: str) -> str | None:
        path = resolve_path(document, target)
        return add_prefix(prefix, page_of(server, path, anchor)) if path in known else None

    return link_to


def documents_blueprint(site: Site) -> Blueprint:
    """The routes `/servers/<name>/documents` and `/servers/<name>/documents/compare`."""
    views = _ReaderViews(site)
    pages = Blueprint("documents", __name__)
    pages.add_url_rule("/servers/<name>/documents", "documents", views.documents)
    pages.add_url_rule("/servers/<name>/documents/compare", "compare", views.compare)
    return pages
