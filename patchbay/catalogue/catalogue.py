"""The servers of the hub, found by name, or by name and CID.

Rules: `find` is one lookup in a dictionary that is never modified; a change builds new servers beside the old ones and
swaps the dictionary, so that running calls keep their server. Only changed servers are built again. Each process
rebuilds one at a time. The bus gives hints; the store is also polled every second.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from secrets import token_bytes
from typing import Any
from uuid import uuid4

from patchbay.boot.grants import Grants
from patchbay.catalogue.aggregate.aggregate import Aggregate, build_aggregate
from patchbay.catalogue.aggregate.hub_listing import LISTING_PLACES, AggregateListing
from patchbay.catalogue.building.build import BuildContext, Examine, broken_server, build_server
from patchbay.catalogue.building.composing import Composer, compose_version
from patchbay.catalogue.building.stored_discovery import StoredDiscoveries
from patchbay.catalogue.building.transforms import HandlerFor
from patchbay.catalogue.catalogue_hub import CatalogueHub
from patchbay.catalogue.contents.collection import Collector, newest_move
from patchbay.catalogue.contents.reading import Contents
from patchbay.catalogue.contents.results import Results
from patchbay.catalogue.contents.revocations import Revocations, RevokedServer
from patchbay.catalogue.needed_servers import NeededServers
from patchbay.catalogue.planning import Planner, Refusal, check_enabled
from patchbay.catalogue.provenance import is_from_operator
from patchbay.catalogue.servers.rows import ServerRow
from patchbay.catalogue.servers.server import Server, ServerTable, unavailable_server, unknown_server
from patchbay.catalogue.upkeep.regular_work import Upkeep, run_guarded
from patchbay.catalogue.versions import PinnedServers, Versions, unknown_version
from patchbay.catalogue.visible_catalogue import VisibleToAll
from patchbay.catalogue.watching.folder import WatchedFolder
from patchbay.catalogue.watching.following import follow
from patchbay.config import Configs
from patchbay.descriptors import Problem
from patchbay.errors import UnavailableServer
from patchbay.kinds.registry import examine_definition, handler_for
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.topics import BUILT, NAMES_CHANGED, RERUN, RESTART
from patchbay.upstreams.configuration import Mount
from patchbay.upstreams.connections.standing_connections import StandingConnections
from patchbay.upstreams.room_caller import RoomCaller
from patchbay.upstreams.standing import Openable

log = logging.getLogger(__name__)

MAX_ROUNDS = 3
"""How often a refresh begins again because others changed the store meanwhile."""

STORE_POLL_SECONDS = 1.0
"""Seconds between two polls of the store without a hint."""

Key = tuple[ServerRow | Refusal, bool, int, tuple[str, ...]]
"""What a built server depends on: its row, read-only, runs of its transforms, lists that a mounted server reported."""


class Catalogue(VisibleToAll):
    """The servers of one hub, in one process. `watch`: watch the folder `settings.servers` after the start.

    `handlers` makes the handlers of definitions; the default runs Python inside the hub process. `connections` hold the
    connections to mounted servers. `key` is the hub's secret; the default is a random key of this process.
    `rooms` call the tools of the hub's rooms; without them no room is served. `examine` says what definitions need.
    `needed` are the servers that begin with this catalogue.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        watch: bool = True,
        handlers: HandlerFor = handler_for,
        connections: StandingConnections | None = None,
        key: bytes | None = None,
        rooms: RoomCaller | None = None,
        examine: Examine = examine_definition,
        needed: NeededServers | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        results = Results(store, key or token_bytes(32), settings.result_minutes, settings.result_size)
        self.contents = Contents(store, results)
        self.revocations = Revocations(store)
        self.hub = CatalogueHub(self, settings.read_limit)
        self.mcps_problem: str | None = None
        self.readonly = False
        self.grants: Grants | None = None
        self.access_problem: str | None = None
        self.access_cid: str | None = None
        self._handlers = handlers
        self.connections = connections
        self._rooms, self._examine, self._needed = rooms, examine, needed or NeededServers()
        self._id = uuid4().hex
        self._configs = Configs(store.blobs)
        self._versions = Versions(store, self._id, settings.replay_minutes * 60)
        self._folder = WatchedFolder(store, settings.servers) if watch else None
        self._planner = Planner(store, self._configs, settings.enable)
        self._discoveries = StoredDiscoveries(store)
        self._table = ServerTable({}, {})
        self._composer = Composer()
        self._announced: Mapping[str, Server] = {}
        self._connected: Mapping[str, Server] = {}
        self._stamp: tuple[object, ...] = ()
        self._moves, self._refused = -1, self.refused
        self._listing = AggregateListing()
        self._whole: tuple[Mapping[str, Server], object, Aggregate] = (self.served, self._listing, build_aggregate(()))
        self._keys: dict[str, Key] = {}
        self._runs: dict[str, int] = {}
        self._lock = threading.RLock()
        self.collector = Collector(store, settings.blob_hours * 3600)
        self.end_processes: Callable[[str], None] = lambda name: None
        self.after_refresh: list[Callable[[], None]] = []
        self._ending = threading.Event()
        self.upkeep = Upkeep(store, self.collector, self._ending)
        self._threads: list[threading.Thread] = []
        self._pinned = PinnedServers(store, self._build_pinned)
        self.refresh()

    @property
    def served(self) -> Mapping[str, Server]:
        """The servers that are neither disabled nor broken, by name."""
        return self._table.served

    def find(self, name: str) -> Server:
        """Return a server by name. Raises UnknownServer with similar names, UnavailableServer for a disabled one."""
        every, served = self._table
        if name in served:
            return served[name]
        raise unavailable_server(every[name]) if name in every else unknown_server(name, served)

    def configuration(self, name: str) -> Mapping[str, Any]:
        """Return the fields of a server's configuration, also while the server is built. Raises ContentError."""
        row = self._keys[name][0] if name in self._keys else None
        return self._configs.config(row.config_cid).fields if isinstance(row, ServerRow) and row.config_cid else {}

    def planned_rows(self) -> list[ServerRow]:
        """Return the rows of all servers that are not refused, also while the servers are built."""
        return [row for row, *_ in list(self._keys.values()) if isinstance(row, ServerRow)]

    def pinned(self, name: str, cid: str, operator: bool = False) -> Server:
        """Return one version of a server; `cid` is that of a version or definition that this name has had.

        After a name is removed, the operator can still use its versions, unless it was disabled then. Raises
        UnknownServer for any other CID, UnavailableServer when the server is disabled or that version is broken,
        RevokedServer when the operator has revoked the name, the version or one of its contents.
        """
        now = self._table.every.get(name)
        if now is None and not operator:
            raise unknown_version(name, cid)
        now = now or self._pinned.latest(name)
        if now is not None and not now.enabled:
            raise UnavailableServer(f"the server {name} is not available: it is disabled")
        server = self._pinned.find(name, cid)
        revocation = self.revocations.find_for_row(self._pinned.row(name, server.version))
        if revocation is not None:
            raise RevokedServer(revocation.sentence)
        if server.broken or not server.enabled:
            raise UnavailableServer(f"this version of {name} is not available: {server.broken or 'it is disabled'}")
        return server

    def revoked_versions(self, name: str, versions: Iterable[str | None]) -> dict[str, str]:
        """Return the revoked ones among a name's versions, each with a sentence that gives the reason."""
        found = {}
        for version in versions if self.revocations.state() else ():
            if version is not None and (revocation := self.revocations.find_for_row(self._pinned.row(name, version))):
                found[version] = revocation.sentence
        return found

    def version(self, name: str, cid: str) -> Server:
        """Return a version or definition of a name for display only: it may be broken or disabled.

        Raises UnknownServer for any other CID.
        """
        return self._pinned.find(name, cid)

    def aggregate(self) -> Aggregate:
        """Return all served servers as one; rebuilt when a server or the listing has changed."""
        served, listing, whole = self._whole
        if served is not self.served or listing is not self._listing:
            served, listing = self.served, self._listing
            whole = build_aggregate(served.values(), listing)
            self._whole = (served, listing, whole)
        return whole

    def all(self) -> list[Server]:
        """Return every server, also disabled and broken ones."""
        return list(self._table.every.values())

    def find_any(self, name: str) -> Server | None:
        """Return the server of a name, also a disabled or broken one; None for an unknown name."""
        return self._table.every.get(name)

    @property
    def listing(self) -> AggregateListing:
        """The listing of the aggregate."""
        return self._listing

    def listing_problems(self) -> list[Problem]:
        """Return what is wrong with the listing of the aggregate: an unusable text, a pattern without a match."""
        return [one for one in self.aggregate().problems if one.where.startswith(LISTING_PLACES)]

    @property
    def refused(self) -> Mapping[str, str]:
        """Files of the watched folder that are not valid servers, each with the reason."""
        return self._folder.refused if self._folder else {}

    def start(self) -> None:
        """Read the folder, then follow folder and store in threads.

        Raises ConfigError when the watched path is not a folder, or the setting `enable` names an unknown server.
        """
        check_enabled(self.settings.enable, self._table.every)
        if self._folder and not self.readonly:
            self._folder.check()
        ready = threading.Event()
        self._spawn(partial(self._listen, ready), "catalogue")
        ready.wait()
        self._spawn(self.upkeep.collect_regularly, "collection of blobs")
        self.read_folder()
        if self._folder and not self.readonly:
            self._spawn(partial(self._watch, self._folder), "servers folder")
        self._discoveries.release()

    def read_folder(self) -> None:
        """Import the files of the watched folder once; does nothing for a read-only hub."""
        if self._folder and not self.readonly:
            run_guarded(partial(self._import_from_folder, self._folder.start))

    def close(self) -> None:
        """Stop the threads and independent functions; servers can still be found."""
        self.hub.close()
        self._ending.set()
        self.store.bus.publish(NAMES_CHANGED)
        for thread in self._threads:
            thread.join(timeout=10)
        self._threads.clear()
        run_guarded(self.upkeep.release)
        if self.connections is not None:
            self.connections.close()

    def rerun(self, name: str, kind: str) -> None:
        """Run a server's transforms again in every process, then announce that `kind` changed."""
        self.store.bus.publish(f"{RERUN}{name}", f"{self._id} {kind}".encode())

    def begin(self, name: str) -> bool:
        """Begin what a server needs that was to begin at its first use; return whether it had not begun before."""
        if self._needed(name):
            return False  # without the lock: calls do not wait for a refresh
        with self._lock:
            if name not in self._keys or not self._needed.add(name):
                return False
            del self._keys[name]
            self.refresh()
            return True

    def refresh(self) -> None:
        """Bring the servers up to date with the store and announce what changed; returns when that is done.

        Others may change the store at the same time: after MAX_ROUNDS, the next hint of a change announces the rest.
        """
        with self._lock:
            for _ in range(MAX_ROUNDS):
                if self._refresh_once():
                    break

    def _refresh_once(self) -> bool:
        """Build what changed in the store, under the lock. Returns False when the store has changed again meanwhile."""
        moves, refused = newest_move(self.store), self.refused
        plan = self._planner.plan(refused)
        self._stamp, self._moves = (), -1  # until all of this is done, the next poll begins again
        self.mcps_problem = plan.mcps_problem
        self.readonly = plan.readonly
        self._listing = plan.listing if plan.listing != self._listing else self._listing
        (self.grants, self.access_problem), self.access_cid = plan.access, plan.stamp.access
        keys = {
            name: (row, plan.readonly, self._runs.get(name, 0), plan.lists.get(name, ()))
            for name, row in plan.rows.items()
        }
        kept = {name: self._table.every[name] for name, key in keys.items() if self._keys.get(name) == key}
        before, self._keys = self._keys, keys  # before the builds: a server's transforms use its configuration
        try:
            built = self._build_all([row for name, row in sorted(plan.rows.items()) if name not in kept])
            every = {name: kept.get(name) or built[name] for name in sorted(plan.rows)}
            self._table = ServerTable.of(self._composer.compose(every, plan.readonly))
        except Exception:
            self._keys = before  # the next round builds these servers again
            raise
        if self._begin_origins():
            return False  # they are built again, and so is what is made of them
        self._connect_mounts()
        if newest_move(self.store) != moves and self._planner.stamp() != plan.stamp:
            return False
        self._announce()
        self._stamp, self._moves, self._refused = plan.stamp, moves, refused
        return True

    def _begin_origins(self) -> bool:
        """Begin the servers that a needed server is made of; return whether one of them had not begun."""
        made = [(server, names) for server, names in self._composer.inputs().items() if server in self.served]
        names = [name for server, names in made if self._needed(server) for name in names]
        fresh = [name for name in names if self._needed.add(name)]
        for name in fresh:
            del self._keys[name]
        return bool(fresh)

    def _connect_mounts(self) -> None:
        """Keep connections to the served mounts, once this catalogue follows the store."""
        if self.connections is None or not self._threads or self._ending.is_set():
            return
        before, now = self._connected, self.served
        gone = [server for name, server in before.items() if now.get(name) is not server]
        fresh = [server for name, server in now.items() if before.get(name) is not server]
        if gone or fresh:
            self.connections.change(_mounts(gone), _mounts(fresh))
        self._connected = now

    def _announce(self) -> None:
        names = self._announced.keys() | self._table.every.keys()
        # Without its transforms, the lists of a server are not complete: only a process that needs it announces them.
        fresh = [n for n in names if self._announced.get(n) is not self._table.every.get(n) and self._needed(n)]
        moved = self._versions.announce_all({name: self._table.every.get(name) for name in sorted(fresh)})
        self._announced = self._table.every
        if fresh:
            self.store.bus.publish_here(BUILT)
        moved |= self._versions.announce_access(self.served)
        if self._versions.announce_listing(self._listing) or moved:
            self.store.bus.publish(NAMES_CHANGED)
        for follow_up in self.after_refresh:
            follow_up()

    def announce_again(self, changed: Mapping[str, Collection[str]]) -> None:
        """Announce the changed kinds of lists of servers once more; `""` stands for the listing of all servers."""
        self._versions.announce_again(changed)

    def _spawn(self, run: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _listen(self, ready: threading.Event) -> None:
        with self.store.bus.subscribe([NAMES_CHANGED, RERUN + "*"]) as mailbox:
            ready.set()
            while not self._ending.is_set():
                got = mailbox.get(STORE_POLL_SECONDS)
                if self._ending.is_set():
                    return
                run_guarded(partial(self._handle_hint, *got) if got else self.catch_up)
                run_guarded(self.upkeep.sweep)

    def _handle_hint(self, topic: str, message: bytes) -> None:
        if topic.startswith(RERUN):
            (of, _, kind), name = message.decode().partition(" "), topic.removeprefix(RERUN)
            if of == RESTART:
                self.end_processes(name)
            self.rebuild(name, kind if of == self._id else None)
            self._connect_mounts()
        else:
            self.catch_up()

    def catch_up(self) -> None:
        """Bring the servers up to date if the store or the folder has changed; without a change, one short read."""
        with self._lock:  # a refresh that another thread has begun may be the one that is due
            moves, is_same_folder = newest_move(self.store), self._refused == self.refused
            if moves == self._moves and is_same_folder:
                return
            if is_same_folder and self._planner.stamp() == self._stamp:
                self._moves = moves
            else:
                self.refresh()

    def _watch(self, folder: WatchedFolder) -> None:
        is_due = partial(self.upkeep.takes_over_watching, self.settings.servers)
        for _ in follow(folder.folders, folder.is_unsettled, self._ending, is_due):
            run_guarded(partial(self._import_from_folder, folder.scan))

    def _import_from_folder(self, scan: Callable[[], bool]) -> None:
        if self.upkeep.may_watch(self.settings.servers) and scan():
            self.store.bus.publish(NAMES_CHANGED)
            self.catch_up()

    def _build_all(self, rows: Sequence[ServerRow | Refusal]) -> dict[str, Server]:
        """Build servers, after their versions are stored in one transaction; returns them by name."""
        usable = [row for row in rows if isinstance(row, ServerRow)]
        versions = dict(zip(usable, self._versions.keep(usable), strict=True))
        servers = [self._build(row, versions[row] if isinstance(row, ServerRow) else "") for row in rows]
        self._discoveries.save()
        return {server.name: server for server in servers}

    def _build(self, row: ServerRow | Refusal, version: str) -> Server:
        if isinstance(row, Refusal):
            server = broken_server(row.row, version, row.sentence)
        else:
            server = build_server(row, version, self._build_context())
        if server.broken:
            log.warning("the server %s is not served: %s", server.name, server.broken)
        replaced = row.replaces if isinstance(row, ServerRow) else None
        return replace(server, replaces=replaced) if replaced else server

    def _build_pinned(self, row: ServerRow, version: str) -> Server:
        server = build_server(row, version, self._build_context(), pinned=True)
        return compose_version(server, self._table.every, self.readonly)

    def _build_context(self) -> BuildContext:
        return BuildContext(
            self.store.blobs,
            self._configs,
            self.settings.timeout,
            self.readonly,
            self.hub,
            self._handlers,
            self.connections,
            partial(is_from_operator, self.store),
            *(self._rooms, self._discoveries.read, self._examine, self._needed, self.settings.progress_timeout),
        )

    def rebuild(self, name: str, kind: str | None = None) -> None:
        """Build one server again; only the process that received the change (`kind` is set) announces it."""
        with self._lock:
            key = self._keys.get(name)
            if key is None or not isinstance(row := key[0], ServerRow):
                return
            _, readonly, runs, lists = key
            self._runs[name] = runs + 1
            self._keys[name] = (row, readonly, runs + 1, lists)
            before = self._table.every
            try:
                server = self._build_all([row])[name]
                self._table = ServerTable.of(self._composer.compose({**before, name: server}, self.readonly))
            except Exception:
                self._keys[name] = key
                self._stamp, self._moves = (), -1  # the next poll builds this server again
                raise
            changed = {each: one for each, one in self._table.every.items() if one is not before.get(each)}
            self._announced = {**self._announced, **changed}
            self.store.bus.publish_here(BUILT)
            if kind:
                for each, one in changed.items():
                    self._versions.announce(each, one, kind if each == name else None)
            for follow_up in self.after_refresh:
                follow_up()


def _mounts(servers: Iterable[Server]) -> list[Mount | Openable]:
    """Return the mounts of those of the servers that have one."""
    return [server.standing.mount for server in servers if server.standing is not None]
