"""The catalogue as callers with the same rights may see it. Everything that lists, calls, reads or shows uses it.

The parts of servers are made once for each version of a server, so that a call costs one more lookup in a dictionary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from patchbay.boot.grants import READ, SEE
from patchbay.catalogue.aggregate.aggregate import Aggregate, build_aggregate
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.contents.links import cids_in
from patchbay.catalogue.contents.reading import Contents, ReadableContents
from patchbay.catalogue.reading.uri_templates import compile_template
from patchbay.catalogue.servers.server import Server, unavailable_server, unknown_server
from patchbay.catalogue.versions import unknown_version
from patchbay.catalogue.visibility.server_filter import visible_part
from patchbay.catalogue.visible_catalogue import Visibility
from patchbay.cid import canonical, content_in
from patchbay.errors import ContentError, MissingBlob
from patchbay.store import Blobs

MAX_PINNED_PARTS = 64
"""Parts of pinned servers that one view remembers."""

MAX_REACHED_CONTENTS = 20_000
"""Contents that one view searches for the contents that its servers are made of."""


_Part = tuple[Server, Server | None, frozenset[str]]
"""A server, the part of it that is visible, and the names that it hides from the caller."""


class CatalogueView:
    """A catalogue behind rights that hide something, or with servers that hide something from a principal.

    `principal` is the caller: a server with an audience hides from it what its audience hides. It may be empty where no
    server has an audience. Safe to use from many threads.
    """

    def __init__(self, catalogue: Catalogue, rights: Visibility, principal: str = "") -> None:
        self._catalogue = catalogue
        self._rights = rights
        self._principal = principal
        self._parts: dict[str, _Part] = {}
        self._pinned: dict[str, _Part] = {}
        self._whole: tuple[object, object, object, Aggregate] | None = None
        self.store = catalogue.store
        self.contents: ReadableContents = (
            catalogue.contents if rights.is_unlimited else VisibleContents(catalogue.contents, self)
        )

    @property
    def shows_everything(self) -> bool:
        """Whether the rights show the whole configuration."""
        return self._rights.is_unlimited

    @property
    def readonly(self) -> bool:
        """Whether the hub was booted read-only."""
        return self._catalogue.readonly

    def find(self, name: str) -> Server:
        """Return a visible server by name. Raises UnknownServer, and UnavailableServer for a disabled one."""
        server, known_part = self._catalogue.served.get(name), self._parts.get(name)
        is_known = known_part is not None and known_part[0] is server
        if known_part is not None and is_known and known_part[1] is not None and known_part[0].audience is None:
            return known_part[1]
        part = self._part(server) if server is not None else None
        if part is not None:
            return part
        known = self._catalogue.find_any(name) if server is None else None
        if known is not None and self._rights.allows(SEE, name):
            raise unavailable_server(known)
        raise unknown_server(name, self._served())

    def pinned(self, name: str, cid: str, operator: bool = False) -> Server:
        """Return the visible part of one version of a server. Raises UnknownServer, UnavailableServer."""
        now = self._catalogue.find_any(name)
        if now is None or not self._is_visible(now):
            raise unknown_version(name, cid)
        server = self._catalogue.pinned(name, cid, operator)
        known, hidden = self._pinned.get(server.version), self._hidden(server)
        if known is None or known[0] is not server or known[2] != hidden:
            if len(self._pinned) >= MAX_PINNED_PARTS:
                self._pinned = {}
            known = self._pinned[server.version] = server, visible_part(server, self._rights, hidden), hidden
        if known[1] is None:
            raise unknown_version(name, cid)
        return known[1]

    def version(self, name: str, cid: str) -> Server:
        """Return a version of a name for display, for readers of its source. Raises UnknownServer."""
        if not self.shows_source(name):
            raise unknown_version(name, cid)
        return self._catalogue.version(name, cid)

    def aggregate(self) -> Aggregate:
        """Return all visible served servers as one."""
        served, listing = self._catalogue.served, self._catalogue.listing
        hidden = [self._hidden(server) for server in served.values() if server.audience is not None]
        known = self._whole
        if known is None or known[0] is not served or known[1] is not listing or known[2] != hidden:
            known = self._whole = served, listing, hidden, build_aggregate(self._served().values(), listing)
        return known[3]

    def all(self) -> list[Server]:
        """Return every visible server; a disabled or broken one is visible to readers of its source."""
        parts = (self._part(server) for server in self._catalogue.all())
        return [part for part in parts if part is not None and self._is_visible(part)]

    def revoked_versions(self, name: str, versions: Iterable[str | None]) -> dict[str, str]:
        """Return the revoked ones among a name's versions, each with a sentence that gives the reason."""
        return self._catalogue.revoked_versions(name, versions)

    def shows_source(self, name: str) -> bool:
        """Whether the rights show a server as a whole."""
        return self._rights.allows(SEE, name)

    def may_read(self, server: str, uri: str) -> bool:
        """Whether the rights allow a URI of a mounted server that its lists do not have."""
        return self._rights.allows(READ, server, uri)

    def forbids(self, server: str, uri: str) -> bool:
        """Whether a denial forbids a URI of a server."""
        return self._rights.forbids(server, uri)

    def hears_of(self, server: str, uri: str | None = None) -> bool:
        """Whether a server, or a resource of it, is visible now, or was before its removal."""
        known = self._catalogue.find_any(server)
        if known is None:  # it was removed just now
            return uri is None and self._rights.concerns(server)
        part = self._part(known)
        if part is None:
            return False
        if uri is None:
            return True
        if self._rights.forbids(server, uri):
            return False
        listed = uri in part.resources or uri in part.skill_files
        return listed or self.may_read(server, uri) or any(compile_template(key).match(uri) for key in part.templates)

    def _served(self) -> Mapping[str, Server]:
        parts = ((name, self._part(server)) for name, server in self._catalogue.served.items())
        return {name: part for name, part in parts if part is not None}

    def _is_visible(self, server: Server) -> bool:
        if server.enabled and not server.broken:
            return self._part(self._catalogue.find_any(server.name) or server) is not None
        return self._rights.allows(SEE, server.name)

    def _part(self, server: Server) -> Server | None:
        known, hidden = self._parts.get(server.name), self._hidden(server)
        if known is None or known[0] is not server or known[2] != hidden:
            known = self._parts[server.name] = server, visible_part(server, self._rights, hidden), hidden
        return known[1]

    def _hidden(self, server: Server) -> frozenset[str]:
        return frozenset() if server.audience is None else server.audience.hidden_from(self._principal)


class VisibleContents:
    """The contents that a view shows: large results of the caller, and what the servers whose source it shows are
    made of.
    """

    def __init__(self, contents: Contents, view: CatalogueView) -> None:
        self._contents = contents
        self._view = view
        self._reached: tuple[tuple[str | None, ...], frozenset[str]] = ((), frozenset())

    def is_public(self, cid: str) -> bool:
        """Whether the view shows a content without a key. Raises BadCid."""
        name = canonical(cid)
        return content_in(name) is not None or name in self._reach()

    def is_own_result(self, cid: str, key: str, principal: str) -> bool:
        """Whether this hub made the key for this CID and this principal. Raises BadCid."""
        return self._contents.is_own_result(cid, key, principal)

    def read_link(self, uri: str, principal: str) -> bytes | None:
        """Return the bytes of a link to a large result or an upload of this principal; None for any other text."""
        return self._contents.read_link(uri, principal)

    def read(self, cid: str, key: str, principal: str) -> bytes:
        """Return the bytes of a CID. Raises BadCid, CorruptBlob, MissingBlob."""
        name = canonical(cid)
        if key and (found := self._contents.results.read(name, key, principal)) is not None:
            return found
        if not self.is_public(name):
            raise MissingBlob([name])
        return self._view.store.blobs.get(name)

    def _reach(self) -> frozenset[str]:
        """Return the contents of the servers whose source is shown, and the contents that these mention."""
        shown = [server for server in self._view.all() if self._view.shows_source(server.name)]
        begin = tuple(cid for server in shown for cid in (server.version, server.definition, server.config_cid))
        if begin != self._reached[0]:
            self._reached = begin, frozenset(_mentioned(self._view.store.blobs, [cid for cid in begin if cid]))
        return self._reached[1]


def _mentioned(blobs: Blobs, begin: Iterable[str]) -> set[str]:
    """Return some contents and what they mention, directly or through others."""
    waiting = deque(begin)
    found = set(waiting)
    while waiting and len(found) < MAX_REACHED_CONTENTS:
        try:
            mentions = cids_in(blobs.get(waiting.popleft()))
        except ContentError:
            continue
        fresh = [cid for cid in mentions if cid not in found]
        found.update(fresh)
        waiting.extend(fresh)
    return found
