"""The servers of a data folder for commands: as its running hub sees them, otherwise as the store has them.

Without a running hub, the servers folder is read as at the start of a hub. Mounted servers show their last known
lists: no mounted program starts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from patchbay import __version__, boot
from patchbay.access.hub_key import has_key, hub_id, load_key
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.needed_servers import NeededServers
from patchbay.catalogue.servers.rows import name_problem
from patchbay.catalogue.servers.server import Server
from patchbay.catalogue.watching.settling import ending_of, is_temporary
from patchbay.catalogue.watching.unserved_files import list_unserved_files
from patchbay.cli.data_store import opened_store
from patchbay.cli.local_files import read_only_settings
from patchbay.cli.running_hub import RunningHub
from patchbay.cli.terminal.progress_display import Display
from patchbay.errors import UnknownServer
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.kinds.registry import Handlers
from patchbay.pins.records import default_changes
from patchbay.settings import Settings, whole_environment
from patchbay.store import Store
from patchbay.suggestions import describe_unknown_name, find_similar_names
from patchbay.topics import BOOT
from patchbay.upstreams.connections.standing_connections import StandingConnections
from patchbay.upstreams.standing import MountContext
from patchbay.web.site.data import describe_server, summarize_server

_ADDRESS = re.compile(r"(?:https?://[^/]+)?[/@]?(?:mcp/)?([^/]+)(?:/.*)?")
"""The forms of an address in which the name of a server is taken for it: `/mcp/git`, `git/log`, a URL."""

MAX_NAMED_SERVERS = 10
"""Servers that the error about an unknown name lists, at most."""


def list_servers(settings: Settings, hub: RunningHub | None) -> list[dict[str, Any]]:
    """Return the summary of each server, by name; `hub` is the running one. Raises Unreachable, ContentError."""
    if hub is not None:
        return [summary for _, summary in sorted(hub.servers().items())]
    with opened_catalogue(settings) as catalogue:
        return [summarize_server(server, settings) for server in sorted(catalogue.all(), key=lambda one: one.name)]


def list_names(settings: Settings, hub: RunningHub | None) -> list[str]:
    """Return the names of all servers, in order. Raises what `list_servers` raises."""
    if hub is not None:
        return sorted(hub.servers())
    with opened_catalogue(settings, needed=NeededServers(())) as catalogue:
        return sorted(server.name for server in catalogue.all())


def list_unserved(settings: Settings) -> dict[str, str]:
    """Return the files of the servers folder that are no servers, because of their names, each with the reason."""
    try:
        names = sorted(one.name for one in settings.servers.iterdir() if one.is_file() and not is_temporary(one.name))
    except OSError:
        return {}
    # A file with configurations of a client may have any name.
    stems = {name: name.removesuffix(ending_of(name)) for name in names if not name.endswith(".json")}
    problems = {name: name_problem(stem) for name, stem in stems.items()}
    return list_unserved_files(settings.servers, {name: why for name, why in problems.items() if why is not None})


def read_server(settings: Settings, hub: RunningHub | None, name: str) -> dict[str, Any]:
    """Return all values of one server. Raises UnknownServer with similar names, and what `list_servers` raises."""
    if hub is not None:
        found = hub.server(name)
        if found is None:
            raise unknown_name(name, list(hub.servers()))
        return found
    with opened_catalogue(settings, needed=NeededServers([name])) as catalogue:
        return describe_server(find_server(catalogue, name), settings)


def read_listing_problems(settings: Settings, hub: RunningHub | None) -> list[str]:
    """Return what is wrong with the variable `listing`. Raises Unreachable, ContentError."""
    if hub is not None:
        found = hub.get("/variables/listing.json")
        return list(found.get("problems", ())) if found is not None else []
    with opened_catalogue(settings) as catalogue:
        return [f"{one.where}: {one.reason}" for one in catalogue.listing_problems()]


def find_server(catalogue: Catalogue, name: str) -> Server:
    """Return a server, also a broken or disabled one. Raises UnknownServer with similar names."""
    found = catalogue.find_any(name)
    if found is None:
        raise unknown_name(name, [server.name for server in catalogue.all()])
    return found


def check_name(settings: Settings, name: str) -> None:
    """Do as `check_known`, without a running hub."""
    with opened_catalogue(settings, needed=NeededServers(())) as catalogue:
        find_server(catalogue, name)


def check_known(hub: RunningHub, name: str) -> dict[str, Any]:
    """Return the summary of a server of a running hub. Raises UnknownServer with similar names."""
    servers = hub.servers()
    if name not in servers:
        raise unknown_name(name, list(servers))
    return servers[name]


def unknown_name(name: str, known: list[str]) -> UnknownServer:
    """Return the error for a name without a server; an address of a server gets another hint than a wrong name."""
    found = _ADDRESS.fullmatch(name)
    if found is not None and found[1] in known:
        return UnknownServer(f"expected the name of a server, not its address {name}: write {found[1]}")
    close = find_similar_names(name, known)
    if not close and len(known) > MAX_NAMED_SERVERS:
        return UnknownServer(f"there is no server {name!r}; `patchbay list` shows all {len(known)}")
    stop = "" if close else "."
    return UnknownServer(f"{describe_unknown_name(name, known, 'server')}{stop} `patchbay list` shows all")


@contextmanager
def opened_catalogue(
    settings: Settings, is_change: bool = False, needed: NeededServers | None = None
) -> Iterator[Catalogue]:
    """Load the servers of the store and of the servers folder, without connections to mounted servers.

    The transforms of servers that are not `needed` do not run, so that their lists are incomplete; the default is all.
    A data folder that no hub has used stays as it is, unless the block changes it. Raises ReadOnly for a change of a
    hub that was booted read-only.
    """
    used = settings if is_change else read_only_settings(settings)
    with ExitStack() as stack:
        stack.enter_context(Display().waiting("reading the servers"))
        logging.disable(logging.WARNING)  # the command itself says which servers are broken
        stack.callback(logging.disable, logging.NOTSET)
        store = stack.enter_context(opened_store(used, is_change=is_change))
        if store.names.get(BOOT) is None:
            image, where = boot.load_image(used.boot, store)
            is_default = used.boot == boot.DEFAULT_IMAGE
            boot.import_image(store, image, where, "start", f"boot image {used.boot}", is_default)
        worker_pool = WorkerPool(used.hosts)
        stack.callback(worker_pool.close)
        handlers = Handlers(worker_pool, used.isolation, used.memory, used.folder_of, used.writes)
        connections = _make_connections(store, used)
        catalogue = Catalogue(store, used, handlers=handlers, connections=connections, needed=needed)
        stack.callback(catalogue.close)
        catalogue.read_folder()
        yield catalogue


def _make_connections(store: Store, settings: Settings) -> StandingConnections:
    """Return the place for connections to mounted servers; a catalogue that is not started opens none."""
    key = load_key(settings.data if settings.store != "memory" and has_key(settings.data) else None)
    context = MountContext(
        store, whole_environment(), hub_id(key), __version__, lambda: None, default_changes(settings.mode)
    )
    return StandingConnections(context)
