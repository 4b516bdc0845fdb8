"""Finds the library of documents behind a server, with the rights of the reader of a page.

A server has a library when the object that it keeps in the hub (`Hub.kept`) is a `Library`: servers of the kind
`documents`, and definitions such as `jane`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from werkzeug.exceptions import NotFound

from patchbay.documents import jane
from patchbay.documents.collection import Library
from patchbay.documents.errors import BadPath, NoDocument, Unreadable
from patchbay.documents.index import Document, DocumentRow
from patchbay.documents.paths import uri_of
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.web.servers.mcp import find_shown_server
from patchbay.web.site.site import Site

FIRST_SCAN_SECONDS = 5.0
"""Seconds that a page waits for the first scan of a folder; then it shows the documents that are known so far."""


class UnknownDocument(PatchbayError):
    """There is no document at this path that the reader may read. `folder_page` is the page of its folder."""

    code, status = -32602, 404

    def __init__(self, server: str, path: str, why: str = "") -> None:
        super().__init__(why or f"there is no document at {path[:200]} in {server}")
        folder = path[:200].strip("/").rpartition("/")[0]
        query = f"?folder={quote(folder)}" if folder else ""
        self.folder_page = f"/servers/{quote(server, safe='')}/documents{query}"


@dataclass(frozen=True)
class ShownLibrary:
    """The library of one server as one reader may see it."""

    server: str
    library: Library
    may_read: Callable[[str], bool]
    """Whether the reader may read the document with this path."""

    def rows(self) -> list[DocumentRow]:
        """Return the documents that the reader may read, sorted by path."""
        return [row for row in self.library.rows() if self.may_read(row.key)]

    def check(self, path: str) -> str:
        """Return the path of a document that the reader may read. Raises UnknownDocument."""
        if not self.may_read(path):
            raise UnknownDocument(self.server, path)
        return path

    def read(self, path: str, version: str = "") -> Document:
        """Return a document, or its version with this CID. Raises UnknownDocument, InvalidParams."""
        self.check(path)
        try:
            return self.library.version(path, version) if version else self.library.read(path)
        except NoDocument as problem:
            raise UnknownDocument(self.server, path, problem.message if version else "") from problem
        except (BadPath, Unreadable) as problem:
            raise InvalidParams(problem.message) from problem


def find_library(site: Site, name: str) -> ShownLibrary:
    """Return the library of a server that the reader may see. Raises UnknownServer, NotFound without a library."""
    server, pinned = find_shown_server(site, name)
    # Listing the resources opens the library of a definition that has not been used yet.
    resources = server.resources
    library = site.catalogue.hub.find_kept(server.name)
    if pinned or not isinstance(library, Library):
        raise NotFound(f"the server {server.name} has no library of documents; it has {len(resources)} resources")
    library.ready(FIRST_SCAN_SECONDS)
    library.catch_up()
    prefixes = [str(template.wire["uriTemplate"]).partition("{")[0] for template in server.templates.values()]
    make_uri = uri_of if server.kind == "documents" else _uri_in_jane
    forbids = site.visible.forbids

    def may_read(path: str) -> bool:
        uri = make_uri(server.name, path)
        if uri is None:
            return False
        return uri in resources or (uri.startswith(tuple(prefixes)) and not forbids(server.name, uri))

    return ShownLibrary(server.name, library, may_read)


def _uri_in_jane(_server: str, path: str) -> str | None:
    """Return the URI of a document of Jane's library; None for a file outside of its collections."""
    return jane.uri_of(path) if jane.place_of(path) is not None else None
