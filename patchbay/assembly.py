"""A hub put together from its settings, for whatever way in: the web app, a pipe, a test.

Opens the store, imports the boot image, starts the catalogue and sets the desk up. Knows no transport.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from patchbay import __version__, boot
from patchbay.access.hub_key import has_key, hub_id, load_key
from patchbay.activity.recorder import Activity
from patchbay.assets import PACKAGE
from patchbay.boot.changes import NAMES_CHANGED
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.contents.collection import Source
from patchbay.kinds.mount.standing_connection import MountContext
from patchbay.kinds.mount.standing_connections import StandingConnections
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.kinds.registry import Handlers
from patchbay.protocol.client_requests import States
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.lists import Lists
from patchbay.protocol.request_context import HubServices, RunningRequests
from patchbay.protocol.run_tool import call_from_tool
from patchbay.protocol.sessions import Sessions
from patchbay.protocol.streams.subscriptions import Listeners
from patchbay.protocol.tasks.tasks import Tasks
from patchbay.rooms.bounds import Bounds
from patchbay.rooms.rooms import Rooms
from patchbay.rooms.servers.mounting import GatewayContext
from patchbay.rooms.servers.room_servers import RoomServers
from patchbay.settings import Settings, sign_ins, whole_environment
from patchbay.store import Store
from patchbay.stores import open_store

log = logging.getLogger(__name__)

ROOMS = "/rooms"
"""Under which the hub keeps its rooms, to close them at its end; no server can have this name."""


def assemble(settings: Settings, left: Callable[[], float], hosts: WorkerPool | None = None) -> Dispatcher:
    """A hub that is running: its servers are found, its folder is watched.

    `left` is how many seconds calls still have: infinite until the hub is to stop. `hosts` are the processes that
    Python definitions run in, for whoever wants to close them; without, they end with this process.

    Raises ConfigError, MissingBlob or CorruptBlob for settings, a data folder or a boot image that are wrong.
    """
    store = _opened_store(settings)
    hosts = hosts or WorkerPool(
        settings.hosts,
        hidden=(settings.data, sign_ins(whole_environment())),
        idle=settings.hosts_idle,
        protections=settings.protections,
        kept=(settings.servers, PACKAGE, Path(sys.prefix)),
    )
    key = load_key(None if settings.store == "memory" else settings.data)
    told = partial(store.bus.publish, NAMES_CHANGED)
    keepers = StandingConnections(MountContext(store, whole_environment(), hub_id(key), __version__, told))
    handlers = Handlers(hosts, settings.isolation, settings.memory, settings.folder_of, settings.writes)
    gateway = GatewayContext(whole_environment(), hub_id(key), __version__, settings.mount_hosts)
    rooms = Rooms(store, key, Bounds.of(settings), gateway)
    catalogue = Catalogue(
        store,
        settings,
        handlers=handlers,
        keepers=keepers,
        key=key,
        blob_sources=blob_sources(store),
        rooms=RoomServers(rooms),
    )
    catalogue.hub.left = left
    catalogue.hub.run_tool = call_from_tool
    catalogue.start()
    # Another process may have read the folder first; then there was nothing new for this one to find in it.
    catalogue.refresh()
    sessions = Sessions(key, store.journal, settings.session_hours, alone=settings.workers == 1)
    catalogue.hub.kept(ROOMS, lambda: rooms)
    return Dispatcher(
        HubServices(
            catalogue=catalogue,
            settings=settings,
            sessions=sessions,
            lists=Lists(key, settings.page_size),
            listeners=Listeners(store, settings.keepalive, lambda: left() != float("inf"), sessions.subscribed),
            states=States(key, store.journal),
            running=RunningRequests(),
            tasks=Tasks(store, settings.task_minutes, settings.tasks, left),
            activity=Activity(store, settings),
            hosts=hosts,
            rooms=rooms,
        )
    )


def blob_sources(store: Store) -> list[Source]:
    """The parts of a hub, beside its names, that need blobs of a store."""
    return []


def _opened_store(settings: Settings) -> Store:
    """The store with the boot image in it; closed again when that image is refused.

    Warns when the data folder has the key of a hub that ran before, and yet nothing in its database.
    """
    ran_before = settings.store != "memory" and has_key(settings.data)
    served = {"servers": str(settings.servers.resolve()), "boot": settings.boot}
    store = open_store(settings.store, settings.data, served)
    try:
        if ran_before and store.names.get("boot") is None:
            log.warning(
                "the data folder %s has the key of a hub that ran before, but its database is empty: variables, history"
                " and changed servers of that hub are missing. To have them back, stop this hub and put the database"
                " back from a backup",
                settings.data,
            )
        image, where = boot.load_image(settings.boot, store)
        boot.import_image(store, image, where, who="start", why=f"boot image {settings.boot}")
    except BaseException:
        store.close()
        raise
    return store
