"""What is plugged in: from a name, or a name and a CID, to a Server.

Rules: `find` is one look into a dictionary that nobody changes; a change builds new servers beside the
old ones and swaps the dictionary, so that calls under way keep theirs. Only what changed is built
again. Rebuilding is one at a time in each process. The bus gives hints; the store is looked at
every second all the same.
Sources: DESIGN sections 2 to 4; REQUIREMENTS V-C2, V-C3, V-F18, T5.6, T12.6, T14.3; THREATS S18.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from secrets import token_bytes
from uuid import uuid4

from patchbay.catalogue.aggregate import Aggregate, aggregate
from patchbay.catalogue.build import BuildContext, broken, build
from patchbay.catalogue.contents.reading import Contents
from patchbay.catalogue.contents.results import Results
from patchbay.catalogue.contents.revocations import Revocations, RevokedServer
from patchbay.catalogue.hub_services import CatalogueHub
from patchbay.catalogue.listing import Listing
from patchbay.catalogue.planning import Planner, Refusal, check_enabled
from patchbay.catalogue.provenance import vouched
from patchbay.catalogue.rows import ServerRow
from patchbay.catalogue.servers import Server
from patchbay.catalogue.transforms import HandlerFor
from patchbay.catalogue.versions import Pins, Versions, never_had
from patchbay.catalogue.watching.folder import Folder
from patchbay.config import Configs
from patchbay.errors import UnavailableServer, UnknownServer
from patchbay.kinds.mount.standing_connections import StandingConnections
from patchbay.kinds.registry import handler_for
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.topics import NAMES_CHANGED, RERUN

log = logging.getLogger(__name__)


SWEEP = 60.0
"""Seconds between two sweeps of the journal."""

STORE_POLL_SECONDS = 1.0
"""Seconds after which the store is looked at without a hint."""

Key = tuple[ServerRow | Refusal, bool, int, tuple[str, ...]]
"""What a built server depends on: its row, whether the hub is read-only, how often its transforms were run again,
and, where it is mounted, what it listed last."""


class Catalogue:
    """The servers of one hub, in one process. `watch` says whether `settings.servers` is watched once started.

    `handlers` makes what runs their definitions; without it, Python runs inside the hub. `keepers` reach the servers
    that are mounted. `key` is the hub's own; without, one of this process.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        watch: bool = True,
        handlers: HandlerFor = handler_for,
        keepers: StandingConnections | None = None,
        key: bytes | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        results = Results(store, key or token_bytes(32), settings.result_minutes, settings.result_size)
        self.contents = Contents(store, results)
        self.revocations = Revocations(store)
        self.hub = CatalogueHub(self, settings.read_limit)
        self.mcps_problem: str | None = None
        self.readonly = False
        self._handlers = handlers
        self._keepers = keepers
        self._id = uuid4().hex
        self._configs = Configs(store.blobs)
        self._versions = Versions(store, self._id, settings.replay_minutes * 60)
        self._folder = Folder(store, settings.servers) if watch else None
        self._planner = Planner(store, self._configs, settings.enable)
        self._servers: Mapping[str, Server] = {}
        self._announced: Mapping[str, Server] = {}
        self._served: Mapping[str, Server] = {}
        self._stamp: tuple[object, ...] = ()
        self._next_sweep = time.monotonic() + SWEEP
        self._listing: tuple[Listing, str | None] = (Listing(), None)
        self._whole: tuple[Mapping[str, Server], object, Aggregate] = (self._served, self._listing, aggregate(()))
        self._keys: dict[str, Key] = {}
        self._runs: dict[str, int] = {}
        self._lock = threading.RLock()
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self._pins = Pins(store, self._build_pinned)
        self.refresh()

    def find(self, name: str) -> Server:
        """The server of a name. Raises UnknownServer naming close ones, UnavailableServer for one that is off."""
        server = self._served.get(name)
        if server is not None:
            return server
        known = self._servers.get(name)
        if known is None:
            close = get_close_matches(name, self._served, 3)
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise UnknownServer(f"there is no server {name!r:.140}{hint}")
        raise UnavailableServer(f"the server {name} is not available: {known.broken or 'it is disabled'}")

    def pinned(self, name: str, cid: str, operator: bool = False) -> Server:
        """One version of a server until it is revoked; `cid` is that of a version or definition this name has had.

        A name that was taken away keeps its versions for the operator, unless it was disabled then. Raises
        UnknownServer for any other CID, UnavailableServer when the server is disabled or that version is broken,
        RevokedServer when the operator has revoked the name, the version or a content that it is made of.
        """
        now = self._servers.get(name)
        if now is None and not operator:
            raise never_had(name, cid)
        now = now or self._pins.latest(name)
        if now is not None and not now.enabled:
            raise UnavailableServer(f"the server {name} is not available: it is disabled")
        server = self._pins.find(name, cid)
        revocation = self.revocations.of_row(self._pins.row(name, server.version))
        if revocation is not None:
            raise RevokedServer(revocation.sentence)
        if server.broken or not server.enabled:
            raise UnavailableServer(f"this version of {name} is not available: {server.broken or 'it is disabled'}")
        return server

    def revoked_versions(self, name: str, versions: Iterable[str | None]) -> dict[str, str]:
        """Those of a name's versions that are revoked, each with a sentence that says why."""
        found = {}
        for version in versions if self.revocations.state() else ():
            if version is not None and (revocation := self.revocations.of_row(self._pins.row(name, version))):
                found[version] = revocation.sentence
        return found

    def version(self, name: str, cid: str) -> Server:
        """A version or definition a name has had, to be looked at and not to be served: it may be broken or disabled.

        Raises UnknownServer for any other CID.
        """
        return self._pins.find(name, cid)

    def whole(self) -> Aggregate:
        """All servers that are served as one, made again when one of them, or how they are listed, is another."""
        served, listing, whole = self._whole
        if served is not self._served or listing is not self._listing:
            served, listing = self._served, self._listing
            whole = aggregate(served.values(), *listing)
            self._whole = (served, listing, whole)
        return whole

    def all(self) -> list[Server]:
        """Every server by name, the disabled and the broken ones too."""
        return list(self._servers.values())

    @property
    def refused(self) -> Mapping[str, str]:
        """Files of the watched folder that are no servers, and why."""
        return self._folder.refused if self._folder else {}

    def start(self) -> None:
        """Read the folder, then keep up with folder and store in threads of their own.

        Raises ConfigError when the folder to be watched is something else, or the setting `enable` names no server.
        """
        check_enabled(self.settings.enable, self._servers)
        if self._folder and not self.readonly:
            self._folder.check()
        ready = threading.Event()
        self._spawn(partial(self._listen, ready), "catalogue")
        ready.wait()
        if self._folder and not self.readonly:
            self._guarded(partial(self._take_from_folder, self._folder.start))
            self._spawn(partial(self._watch, self._folder), "servers folder")

    def close(self) -> None:
        """Stop the threads and what runs by itself; servers can still be found."""
        self.hub.close()
        self._ending.set()
        self.store.bus.publish(NAMES_CHANGED)
        for thread in self._threads:
            thread.join(timeout=10)
        self._threads.clear()
        if self._keepers is not None:
            self._keepers.close()

    def rerun(self, name: str, kind: str) -> None:
        """Have a server's transforms run again, here and in every other process, then tell that `kind` changed."""
        self.store.bus.publish(f"{RERUN}{name}", f"{self._id} {kind}".encode())

    def refresh(self) -> None:
        """Make the servers agree with the store; answers when they do."""
        with self._lock:
            plan = self._planner.plan(self.refused)
            self._stamp = plan.stamp
            self.mcps_problem = plan.mcps_problem
            self.readonly = plan.readonly
            self._listing = plan.listing if plan.listing != self._listing else self._listing
            keys = {
                name: (row, plan.readonly, self._runs.get(name, 0), plan.lists.get(name, ()))
                for name, row in plan.rows.items()
            }
            kept = {name: self._servers[name] for name, key in keys.items() if self._keys.get(name) == key}
            servers = {name: kept.get(name) or self._made(row) for name, row in sorted(plan.rows.items())}
            self._keys = keys
            self._swap(servers)
            self._keep()
            # Another change may have come meanwhile; then a hint is on its way, and the next round tells of both.
            if self._planner.stamp() == plan.stamp:
                self._announce()

    def _swap(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers
        self._served = {name: one for name, one in servers.items() if one.enabled and not one.broken}

    def _keep(self) -> None:
        """Keep the mounted servers that are served, once this catalogue is kept up to date itself."""
        if self._keepers is not None and self._threads and not self._ending.is_set():
            found = [server.upstream for server in self._served.values() if server.upstream is not None]
            self._keepers.keep(keeper.mount for keeper in found)

    def _announce(self) -> None:
        names = self._announced.keys() | self._servers.keys()
        fresh = [name for name in names if self._announced.get(name) is not self._servers.get(name)]
        moved = [name for name in sorted(fresh) if self._versions.announce(name, self._servers.get(name))]
        self._announced = self._servers
        if self._versions.announce_listing(self._listing[0]) or moved:
            self.store.bus.publish(NAMES_CHANGED)

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
                self._guarded(partial(self._hear, *got) if got else self._look)
                self._guarded(self._sweep)

    def _hear(self, topic: str, message: bytes) -> None:
        if topic.startswith(RERUN):
            of, _, kind = message.decode().partition(" ")
            self._run_again(topic.removeprefix(RERUN), kind if of == self._id else None)
        else:
            self.refresh()

    def _look(self) -> None:
        """Bring the servers up to date when the store has moved without a hint."""
        if self._planner.stamp() != self._stamp:
            self.refresh()

    def _sweep(self) -> None:
        """Sweep the journal now and then, however much there is to hear meanwhile."""
        if time.monotonic() > self._next_sweep:
            self._next_sweep = time.monotonic() + SWEEP
            self.store.journal.sweep()

    def _watch(self, folder: Folder) -> None:
        while not self._ending.wait(folder.every):
            self._guarded(partial(self._take_from_folder, folder.scan))

    def _take_from_folder(self, look: Callable[[], bool]) -> None:
        if look():
            self.store.bus.publish(NAMES_CHANGED)
            self.refresh()

    def _guarded(self, run: Callable[[], None]) -> None:
        """Run one round of a thread that has to go on: a failure is logged, the next round tries again."""
        try:
            run()
        except Exception:
            log.exception("the catalogue could not be brought up to date; it tries again")

    def _made(self, row: ServerRow | Refusal) -> Server:
        if isinstance(row, Refusal):
            server = broken(row.row, "", row.sentence)
        else:
            server = build(row, self._versions.keep(row), self._workshop())
        if server.broken:
            log.warning("the server %s is not served: %s", server.name, server.broken)
        replaced = row.replaces if isinstance(row, ServerRow) else None
        return replace(server, replaces=replaced) if replaced else server

    def _build_pinned(self, row: ServerRow, version: str) -> Server:
        return build(row, version, self._workshop(), pinned=True)

    def _workshop(self) -> BuildContext:
        return BuildContext(
            self.store.blobs,
            self._configs,
            self.settings.timeout,
            self.readonly,
            self.hub,
            self._handlers,
            self._keepers,
            partial(vouched, self.store),
        )

    def _run_again(self, name: str, kind: str | None) -> None:
        """Build one server again; only the process where the change was announced (`kind`) tells of it."""
        with self._lock:
            row, readonly, runs, lists = self._keys.get(name, (None, False, 0, ()))
            if not isinstance(row, ServerRow):
                return
            self._runs[name] = runs + 1
            self._keys[name] = (row, readonly, runs + 1, lists)
            server = self._made(row)
            self._swap({**self._servers, name: server})
            self._announced = {**self._announced, name: server}
            if kind:
                self._versions.announce(name, server, kind)
