"""Versions: the name `served/<name>`, its history, and the announcement that a server's lists changed.

A version is the CID of a manifest, stored as a blob. Only the process that moved the name writes the change into the
journal and publishes it. A pin works only for versions that the name has had.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256

import orjson

from patchbay.catalogue.aggregate.hub_listing import AggregateListing
from patchbay.catalogue.servers.listing import Listing
from patchbay.catalogue.servers.rows import (
    ServerRow,
    parse_row,
)
from patchbay.catalogue.servers.script_tools import OFF
from patchbay.catalogue.servers.server import Server
from patchbay.cid import cid_of
from patchbay.descriptors import Descriptor
from patchbay.errors import ContentError, StaleUpdate, UnknownServer
from patchbay.kind import kind_named
from patchbay.store import NameChange, Store
from patchbay.topics import ACCESS, ANNOUNCED_ACCESS, CHANGED, CHANGES, LISTS, SERVED, SERVERS

AUTHOR = "catalogue"
KINDS = ("tools", "resources", "prompts", "events")

MAX_PINNED_SERVERS = 256
"""Maximum number of pinned servers in memory."""

MAX_BATCH_NAMES = 500
"""Maximum number of servers that one transaction records; other writers wait meanwhile."""

MAX_SINGLE_READS = 16
"""Up to this number of servers, their names are read one by one; from there on, all names are read at once."""

MOVES_PER_READ = 500
"""Number of moves of a name that are read at once."""


class Versions:
    """Moves `served/<name>` and `lists/<name>` (digests of the lists as clients see them).

    `lists/` without a name is the listing of the aggregate. `id` identifies this process; `keep` is how long a change
    stays in the journal for late subscribers, in seconds.
    """

    def __init__(self, store: Store, id: str, keep: float) -> None:
        self._store = store
        self._why = f"built by {id}"
        self._keep = keep

    def keep(self, rows: Sequence[ServerRow]) -> list[str]:
        """Store the manifests of rows in one transaction; returns their versions in the same order."""
        return self._store.blobs.put_many(row.manifest() for row in rows)

    def announce_all(self, servers: Mapping[str, Server | None]) -> bool:
        """Record the current servers of names (None: removed); returns whether this process was the first for any.

        Names move in batches. If another process moves a name of a batch meanwhile, its names move one by one.
        """
        names, moved = list(servers), False
        for start in range(0, len(names), MAX_BATCH_NAMES):
            batch = {name: servers[name] for name in names[start : start + MAX_BATCH_NAMES]}
            try:
                moved |= self._announce_batch(batch)
            except StaleUpdate:
                for name, server in batch.items():
                    moved |= self.announce(name, server)
        return moved

    def announce(self, name: str, server: Server | None, kind: str | None = None) -> bool:
        """Record the current server of a name (None: removed); returns whether this process was the first to do so.

        The first one announces which lists differ from the earlier ones. With `kind`, that list is announced in any
        case: the server's author declared the change.
        """
        try:
            return self._announce_batch({name: server}, kind)
        except StaleUpdate:
            return self.announce(name, server, kind)  # another process moved the name in the meantime

    def _announce_batch(self, servers: Mapping[str, Server | None], kind: str | None = None) -> bool:
        """Record servers in one transaction. Raises StaleUpdate when another process moved one of the names."""
        digests = [_digests(server) for server in servers.values() if server]
        stored = iter(self._store.blobs.put_many(digests))
        now = self._store.names.all if len(servers) > MAX_SINGLE_READS else self._read_names(servers)
        present = {**now(LISTS), **now(SERVED)}
        changes: dict[str, str | None] = {}
        expected: dict[str, str | None] = {}
        kinds = {name: {kind} if kind else set[str]() for name in servers}
        for name, server in servers.items():
            before, after = present.get(LISTS + name), next(stored) if server else None
            own: dict[str, str | None] = {LISTS + name: after}
            if server is None or server.version:
                own[SERVED + name] = server.version if server else None
            if any(present.get(full) != cid for full, cid in own.items()):
                changes |= own
                expected[LISTS + name] = before
                kinds[name] |= self._changed_kinds(before, after)
        if changes:
            self._store.names.move(changes, AUTHOR, self._why, expected)
        self._publish(kinds)
        return bool(changes)

    def _read_names(self, servers: Iterable[str]) -> Callable[[str], Mapping[str, str]]:
        """Return a function that reads the names of a few servers below a prefix."""

        def read(prefix: str) -> Mapping[str, str]:
            found = {prefix + name: self._store.names.get(prefix + name) for name in servers}
            return {full: cid for full, cid in found.items() if cid is not None}

        return read

    def announce_listing(self, listing: AggregateListing) -> bool:
        """Record the listing of the aggregate; the first process to do so announces it."""
        before = self._store.names.get(LISTS)
        unlisted = sorted(listing.unlisted)
        plain = before is None and listing.variable.tools == Listing() and not unlisted
        after = None if plain else self._store.blobs.put(_listing_bytes(listing))
        if before == after:
            return False
        self._store.names.move({LISTS: after}, AUTHOR, self._why)
        if self._moved_here(LISTS, after):
            # Which servers are listed concerns every list; a hub that is new announces nothing.
            self._publish_listing(KINDS if self._unlisted(before) != unlisted else KINDS[:1])
        return True

    def _unlisted(self, cid: str | None) -> list[str]:
        """Return the servers that were not listed with a recorded listing."""
        return list(orjson.loads(self._store.blobs.get(cid)).get("unlisted", ())) if cid else []

    def announce_again(self, changed: Mapping[str, Collection[str]]) -> None:
        """Announce the changed kinds of servers once more; the name without a server is that of the listing."""
        if "" in changed:
            self._publish_listing([kind for kind in KINDS if kind in changed[""]])
        self._publish({name: kinds for name, kinds in changed.items() if name})

    def _publish_listing(self, kinds: Sequence[str]) -> None:
        seq = self._store.journal.append(CHANGES, orjson.dumps({"kinds": kinds}), self._keep)
        self._store.bus.publish(CHANGED, orjson.dumps({"kinds": kinds, "seq": seq}))

    def announce_access(self, names: Iterable[str]) -> bool:
        """Record the variable `access`; the first process to do so announces that the lists of all servers changed."""
        now, before = self._store.names.get(ACCESS), self._store.names.get(ANNOUNCED_ACCESS)
        if now == before:
            return False
        try:
            self._store.names.move({ANNOUNCED_ACCESS: now}, AUTHOR, self._why, {ANNOUNCED_ACCESS: before})
        except StaleUpdate:
            return False  # another process announces it
        self._publish(dict.fromkeys(names, KINDS))
        return True

    def _moved_here(self, full: str, cid: str | None) -> bool:
        latest = self._store.names.past(full, 1)
        return bool(latest) and latest[0].why == self._why and latest[0].cid == cid

    def _changed_kinds(self, before: str | None, after: str | None) -> set[str]:
        old, new = (orjson.loads(self._store.blobs.get(cid)) if cid else EMPTY_DIGESTS for cid in (before, after))
        return {kind for kind in KINDS if old.get(kind) != new.get(kind)}

    def _publish(self, changed: Mapping[str, Collection[str]]) -> None:
        """Write the changed kinds of each name into the journal, in one transaction, then publish them."""
        ordered = {name: [kind for kind in KINDS if kind in kinds] for name, kinds in changed.items() if kinds}
        # The topic without a name is that of the aggregate.
        entries = [
            (topic, orjson.dumps({"kinds": kinds, "server": name}), self._keep)
            for name, kinds in ordered.items()
            for topic in (CHANGES, CHANGES + name)
        ]
        seqs = self._store.journal.append_all(entries, {}) if entries else []
        for (name, kinds), seq in zip(ordered.items(), seqs[1::2], strict=True):
            self._store.bus.publish(f"{CHANGED}{name}", orjson.dumps({"kinds": kinds, "seq": seq}))


def lists_cid(server: Server) -> str:
    """Return the CID that the name `lists/<name>` has once these lists are announced."""
    return cid_of(_digests(server))


def listing_cid(listing: AggregateListing) -> str:
    """Return the CID that the name `lists/` has once this listing of the aggregate is announced."""
    return cid_of(_listing_bytes(listing))


def _listing_bytes(listing: AggregateListing) -> bytes:
    unlisted = sorted(listing.unlisted)
    fields = asdict(listing.variable.tools)
    if fields["scripts"] == OFF:  # as it was before there were scripts, so that an upgrade announces nothing
        del fields["scripts"]
    return orjson.dumps(fields | ({"unlisted": unlisted} if unlisted else {}))


def _digests(server: Server) -> bytes:
    """Return a digest of each list as clients see it."""
    hidden = bool(server.broken) or not server.enabled
    # Tools that only a search finds count too: clients cache what they found.
    tools = [server.tools, server.visible_tools] if server.has_front_tools else [server.tools]
    groups = {"tools": tools, "resources": [server.resources, server.templates], "prompts": [server.prompts]}
    if server.events:  # servers without any keep the digests that earlier versions of the hub stored
        groups["events"] = [server.events]
    audience = "" if server.audience is None else server.audience.digest
    return orjson.dumps(
        {kind: _digest([] if hidden else found, server.via, audience) for kind, found in groups.items()}
    )


def _digest(groups: Sequence[Mapping[str, Descriptor]], via: Sequence[str], audience: str = "") -> str:
    wires = [one.wire for group in groups for one in group.values()]
    # The digest includes the mounts of the list: a hub that mounts this server detects cycles by them. It includes who
    # sees what: the list of a caller may change when that does.
    more = [list(via), audience] if audience else [via] if via else []
    return sha256(orjson.dumps([wires, *more] if more else wires, option=orjson.OPT_SORT_KEYS)).hexdigest()


EMPTY_DIGESTS = dict.fromkeys(KINDS[:-1], _digest([], ()))
"""The digests of a server with empty lists."""


def unknown_version(name: str, cid: str) -> UnknownServer:
    """Return the error for a version that a name has not had, or that is hidden after its removal."""
    return UnknownServer(f"the server {name!r:.140} has never had the version {cid!r:.140}")


def has_changing_lists(server: Server) -> bool:
    """Whether the lists of one version of a server can change at any time."""
    configuration = kind_named(server.kind).configuration
    return server.upstream is not None or (configuration is not None and configuration.is_changing)


class PinnedServers:
    """Servers by name and CID, built once; a bounded cache holds the most recently used."""

    def __init__(self, store: Store, build: Callable[[ServerRow, str], Server]) -> None:
        self._store = store
        self._build = build
        self._kept: OrderedDict[tuple[str, str], Server] = OrderedDict()
        self._known: OrderedDict[str, tuple[int, dict[str, str]]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: str, cid: str) -> Server:
        """Return the server of a version or definition that a name has had. Raises UnknownServer."""
        version = self._versions(name).get(cid)
        if version is None:
            raise unknown_version(name, cid)
        with self._lock:
            server = self._kept.get((name, version))
        if server is None:
            server = self._build(self.row(name, version), version)
        with self._lock:
            if not has_changing_lists(server):
                self._kept[name, version] = server
                self._kept.move_to_end((name, version))
            while len(self._kept) > MAX_PINNED_SERVERS:
                self._kept.popitem(last=False)
        return server

    def latest(self, name: str) -> Server | None:
        """Return the last server of a removed name, as it was then; None for a name without history."""
        version = next((move.cid for move in self._store.names.past(SERVED + name, 2) if move.cid), None)
        row = next((move.cid for move in self._store.names.past(SERVERS + name, 2) if move.cid), None)
        if version is None or row is None:
            return None
        server = self.find(name, version)
        return server if self.row(name, row).enabled else replace(server, enabled=False)

    def row(self, name: str, version: str) -> ServerRow:
        """Return the row of a version. Raises UnknownServer for an unreadable one."""
        try:
            return parse_row(name, self._store.blobs.get(version))
        except ContentError as problem:
            raise UnknownServer(f"the version {version} of {name} cannot be read: {problem.message}") from problem

    def _versions(self, name: str) -> dict[str, str]:
        """Map versions and definitions of a name to versions; read again only after a move."""
        latest = self._store.names.past(SERVED + name, 1)
        seq = latest[0].seq if latest else 0
        with self._lock:
            known = self._known.get(name)
        if known is None or known[0] != seq:
            known = (seq, self._read(name) if seq else {})
            with self._lock:
                self._known[name] = known
                while len(self._known) > MAX_PINNED_SERVERS:
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
        while moves := self._store.names.past(SERVED + name, MOVES_PER_READ, before):
            yield from moves
            before = moves[-1].seq
