"""Versions: the moving name `served/<name>`, its past, and who hears that a server's lists changed.

Rules: a version is the CID of a manifest kept as a blob; whoever really moved the name, and nobody
else, writes the change into the journal and tells the bus; a pin works only for what a name has had.
Sources: DESIGN section 4; REQUIREMENTS SUB-C9, T9.8.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256

import orjson

from patchbay.catalogue.listing import Listing
from patchbay.catalogue.rows import (
    ServerRow,
    parse_row,
)
from patchbay.catalogue.servers import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import ContentError, StaleUpdate, UnknownServer
from patchbay.store import NameChange, Store
from patchbay.topics import CHANGED, CHANGES, LISTS, SERVED, SERVERS

WHO = "catalogue"
KINDS = ("tools", "resources", "prompts")

PINS = 256
"""How many pinned servers are kept ready."""

PAGE = 500
"""How many moves of a name are read at once."""


class Versions:
    """Moves `served/<name>` and `lists/<name>` (digests of what clients see).

    `lists/` alone is how all of them are listed together. `id` tells this process from others; `keep` is how long
    a change is told to late listeners, in seconds.
    """

    def __init__(self, store: Store, id: str, keep: float) -> None:
        self._store = store
        self._why = f"built by {id}"
        self._keep = keep

    def keep(self, row: ServerRow) -> str:
        """Keep a row's manifest; answers the version."""
        return self._store.blobs.put(row.manifest())

    def announce(self, name: str, server: Server | None, kind: str | None = None) -> bool:
        """Say that this is the server of a name now (None: there is none); whether this process was the first to.

        The first one tells listeners which lists differ from those before. With `kind`, they hear of that
        list in any case: the server's author said that it changed.
        """
        before = self._store.names.get(LISTS + name)
        after = self._store.blobs.put(_digests(server)) if server else None
        changes = {LISTS + name: after}
        if server is None or server.version:
            changes[SERVED + name] = server.version if server else None
        said = {kind} if kind else set()
        if all(self._store.names.get(full) == cid for full, cid in changes.items()):
            self._tell(name, said)
            return False
        try:
            self._store.names.move(changes, WHO, self._why, {LISTS + name: before})
        except StaleUpdate:
            return self.announce(name, server, kind)  # another process moved the name since it was read
        self._tell(name, said | self._kinds(before, after))
        return True

    def announce_listing(self, listing: Listing) -> bool:
        """Say how the tools of all servers together are listed; the first process to say so tells their listeners."""
        before = self._store.names.get(LISTS)
        plain = before is None and listing == Listing()
        after = None if plain else self._store.blobs.put(orjson.dumps(asdict(listing)))
        if before == after:
            return False
        self._store.names.move({LISTS: after}, WHO, self._why)
        if self._mine(LISTS, after):
            change = orjson.dumps({"kinds": ["tools"]})
            seq = self._store.journal.append(CHANGES, change, self._keep)
            self._store.bus.publish(CHANGED, orjson.dumps({"kinds": ["tools"], "seq": seq}))
        return True

    def _mine(self, full: str, cid: str | None) -> bool:
        latest = self._store.names.past(full, 1)
        return bool(latest) and latest[0].why == self._why and latest[0].cid == cid

    def _kinds(self, before: str | None, after: str | None) -> set[str]:
        old, new = (orjson.loads(self._store.blobs.get(cid)) if cid else EMPTY for cid in (before, after))
        return {kind for kind in KINDS if old[kind] != new[kind]}

    def _tell(self, name: str, kinds: Collection[str]) -> None:
        if kinds:
            told = [kind for kind in KINDS if kind in kinds]
            change = orjson.dumps({"kinds": told})
            # The nameless topic is that of all servers together.
            self._store.journal.append(CHANGES, change, self._keep)
            seq = self._store.journal.append(f"{CHANGES}{name}", change, self._keep)
            self._store.bus.publish(f"{CHANGED}{name}", orjson.dumps({"kinds": told, "seq": seq}))


def _digests(server: Server) -> bytes:
    """A digest of each list as clients see it."""
    hidden = bool(server.broken) or not server.enabled
    # What is hidden behind a search counts too: clients keep what they found.
    tools = [server.tools, server.shown] if server.searches else [server.tools]
    groups = {"tools": tools, "resources": [server.resources, server.templates], "prompts": [server.prompts]}
    return orjson.dumps({kind: _digest([] if hidden else found, server.via) for kind, found in groups.items()})


def _digest(groups: Sequence[Mapping[str, Descriptor]], via: Sequence[str]) -> str:
    wires = [one.wire for group in groups for one in group.values()]
    # The mounts that a list comes by stand in it: whoever mounts this server finds a circle by them.
    return sha256(orjson.dumps([wires, via] if via else wires, option=orjson.OPT_SORT_KEYS)).hexdigest()


EMPTY = dict.fromkeys(KINDS, _digest([], ()))
"""The digests of a server that shows nothing."""


def never_had(name: str, cid: str) -> UnknownServer:
    """What is said of a version that a name has not had, and to others than the operator of one that was taken away."""
    return UnknownServer(f"the server {name!r:.140} has never had the version {cid!r:.140}")


class Pins:
    """Servers by name and CID, built once and kept while they are used."""

    def __init__(self, store: Store, build: Callable[[ServerRow, str], Server]) -> None:
        self._store = store
        self._build = build
        self._kept: OrderedDict[tuple[str, str], Server] = OrderedDict()
        self._known: OrderedDict[str, tuple[int, dict[str, str]]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: str, cid: str) -> Server:
        """The server of a version or definition that a name has had. Raises UnknownServer."""
        version = self._versions(name).get(cid)
        if version is None:
            raise never_had(name, cid)
        with self._lock:
            server = self._kept.get((name, version))
        if server is None:
            server = self._build(self.row(name, version), version)
        with self._lock:
            if server.upstream is None:  # what a mounted one lists is up to the server behind it
                self._kept[name, version] = server
                self._kept.move_to_end((name, version))
            while len(self._kept) > PINS:
                self._kept.popitem(last=False)
        return server

    def latest(self, name: str) -> Server | None:
        """The server a name had last, as it was when it was taken away; None for a name that never had one."""
        version = next((move.cid for move in self._store.names.past(SERVED + name, 2) if move.cid), None)
        row = next((move.cid for move in self._store.names.past(SERVERS + name, 2) if move.cid), None)
        if version is None or row is None:
            return None
        server = self.find(name, version)
        return server if self.row(name, row).enabled else replace(server, enabled=False)

    def row(self, name: str, version: str) -> ServerRow:
        """What a version is made of. Raises UnknownServer for one that cannot be read."""
        try:
            return parse_row(name, self._store.blobs.get(version))
        except ContentError as problem:
            raise UnknownServer(f"the version {version} of {name} cannot be read: {problem.message}") from problem

    def _versions(self, name: str) -> dict[str, str]:
        """Versions and definitions a name has had, each with its version; read again only after a move."""
        latest = self._store.names.past(SERVED + name, 1)
        seq = latest[0].seq if latest else 0
        with self._lock:
            known = self._known.get(name)
        if known is None or known[0] != seq:
            known = (seq, self._read(name) if seq else {})
            with self._lock:
                self._known[name] = known
                while len(self._known) > PINS:
                    self._known.popitem(last=False)
        return known[1]

    def _read(self, name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for version in {move.cid: None for move in self._moves(name) if move.cid}:
            found[version] = version
            found.setdefault(self.row(name, version).definition_cid, version)
        return found

    def _moves(self, name: str) -> Iterator[NameChange]:
        before = None
        while moves := self._store.names.past(SERVED + name, PAGE, before):
            yield from moves
            before = moves[-1].seq
