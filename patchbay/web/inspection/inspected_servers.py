"""Inspects servers without mounting them.

An inspected server is a mount in memory only: it has the connection, the lists, the questions and the limits of a
mount, but no name in the store. Only the operator can use it. Each worker connects it when needed and closes it after
IDLE_SECONDS without use, so workers share no state for it. Rules: at most MAX_INSPECTED_SERVERS at a time; a server
that does not answer is closed at once; programs start only if the setting `inspect` allows it.
Source: OWASP, Server-Side Request Forgery Prevention.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import uuid4

from patchbay import __version__
from patchbay.access.principals import LOCAL_OPERATOR, Principal
from patchbay.background import run_in_background
from patchbay.catalogue.building.build import BuildContext, configured_server
from patchbay.catalogue.servers.rows import ServerRow
from patchbay.catalogue.servers.server import Server
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.targets import Era, Local, Stdio, Target
from patchbay.client.errors import Unreachable
from patchbay.config import Configs
from patchbay.errors import ConfigError, PatchbayError, Refused, UnknownServer
from patchbay.kind import CONFIGURATION_KIND
from patchbay.protocol.dispatch import Dispatcher
from patchbay.settings import Settings
from patchbay.stores.memory import MemoryStore
from patchbay.upstreams.configuration import Mount, mount_of
from patchbay.upstreams.connections.standing_connection import StandingConnection
from patchbay.upstreams.connections.standing_connections import StandingConnections
from patchbay.upstreams.lists import snapshots
from patchbay.upstreams.standing import MountContext

NAME = "inspect"
"""The name of an inspected server in records and messages; no server of a hub can have this name."""

MAX_ADDRESS_CHARACTERS = 2000
"""Limit on the characters of an address."""

MAX_INSPECTED_SERVERS = 8
IDLE_SECONDS = 300.0
"""Seconds without use after which an inspected server is closed."""

FIRST_ANSWER_SECONDS = 20.0
"""Limit on the wait for the first answer of a server."""

REMEMBERED = 256
"""Limit on the endpoints whose address is stored."""

WHERE = "the address"


@dataclass(frozen=True, slots=True)
class InspectionTarget:
    """The server to inspect. `public` says that a URL may lead to public addresses only."""

    address: str
    era: Era = "auto"
    public: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the configuration of such a mount."""
        return {"kind": "upstream", "address": self.address} | ({} if self.era == "auto" else {"era": self.era})


@dataclass(slots=True)
class _InspectedServer:
    connections: StandingConnections
    store: MemoryStore
    mount: Mount
    used: float = field(default_factory=time.monotonic)
    built: tuple[object, Server] | None = None


class InspectedServers:
    """The inspected servers of one hub in one process. Safe to use from many threads."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._allowed = settings.inspect
        self._timeout = settings.timeout
        self._environ = environ
        self._hub = uuid4().hex
        self._known: OrderedDict[InspectionTarget, _InspectedServer] = OrderedDict()
        self._lock = threading.Lock()
        self._sweeper: threading.Timer | None = None

    def reach(self, wanted: InspectionTarget) -> Target:
        """Return how the hub would connect, without connecting. Raises Refused (403), ConfigError for a bad address."""
        if self._allowed == "off":
            raise Refused("this hub inspects no other servers (setting inspect)")
        if len(wanted.address) > MAX_ADDRESS_CHARACTERS:
            raise ConfigError(WHERE, "", f"expected at most {MAX_ADDRESS_CHARACTERS} characters")
        parsed = parse_address(wanted.address)
        if isinstance(parsed.target, Local):
            raise ConfigError(WHERE, "", f"expected another server; {parsed.target.label} is one of this hub")
        mount = self._mount(wanted)
        # Refuse a program before any other message about it, such as one about a missing variable.
        if isinstance(parsed.target, Stdio):
            self._check_program()
        found = mount.reach(self._environ)
        if isinstance(found, Stdio):
            self._check_program()
        return found

    def described(self, wanted: InspectionTarget) -> str:
        """Return the address for people: without secrets, with the names of variables."""
        return parse_address(wanted.address).target.label

    def server(self, wanted: InspectionTarget) -> Server:
        """Return the server; connect if needed. Raises the errors of `reach`, and Unreachable with the reason."""
        self.reach(wanted)
        inspected = self._open(wanted)
        standing = inspected.connections.of(inspected.mount)
        if not standing.state_known.wait(FIRST_ANSWER_SECONDS):
            raise Unreachable(
                f"it has not answered within {FIRST_ANSWER_SECONDS:.0f} s; it is still being reached, so look again"
            )
        if standing.connection is None:
            problem = _problem(standing)
            self._forget(wanted, inspected)
            raise problem
        return self._built(wanted, inspected)

    def _built(self, wanted: InspectionTarget, inspected: _InspectedServer) -> Server:
        """Return the server with its present lists; build it again after a change of the lists."""
        lists, built = snapshots.stored_cids(inspected.store).get(NAME), inspected.built
        if built is None or built[0] != lists:
            row = ServerRow(NAME, CONFIGURATION_KIND, "", origin="an address")
            fields = wanted.fields | {"public": wanted.public}
            blobs = inspected.store.blobs
            context = BuildContext(blobs, Configs(blobs), self._timeout, connections=inspected.connections)
            built = inspected.built = lists, configured_server(row, inspected.mount.digest, fields, context)
        return built[1]

    def close(self) -> None:
        """Close all inspected servers, and wait for their programs to end."""
        with self._lock:
            inspected_servers, self._known = list(self._known.values()), OrderedDict()
            if self._sweeper is not None:
                self._sweeper.cancel()
        for inspected in inspected_servers:
            inspected.connections.close()

    def _mount(self, wanted: InspectionTarget) -> Mount:
        return mount_of(NAME, wanted.fields | {"public": wanted.public}, WHERE)

    def _check_program(self) -> None:
        if self._allowed != "programs":
            raise Refused(
                "this address starts a program on the hub's machine, which this page may not do;"
                " start the hub with --inspect programs to allow it, or inspect it from a terminal there"
            )

    def _open(self, wanted: InspectionTarget) -> _InspectedServer:
        with self._lock:
            inspected = self._known.get(wanted)
            if inspected is None:
                store, mount = MemoryStore(), self._mount(wanted)
                connections = StandingConnections(
                    MountContext(store, self._environ, self._hub, __version__, _ignore_change)
                )
                inspected = self._known[wanted] = _InspectedServer(connections, store, mount)
                connections.keep([mount])
            inspected.used = time.monotonic()
            self._known.move_to_end(wanted)
            gone = [self._known.popitem(last=False)[1] for _ in range(len(self._known) - MAX_INSPECTED_SERVERS)]
            self._arm()
        _end(gone)
        return inspected

    def _forget(self, wanted: InspectionTarget, inspected: _InspectedServer) -> None:
        with self._lock:
            if self._known.get(wanted) is inspected:
                del self._known[wanted]
        _end([inspected])

    def _arm(self) -> None:
        if self._sweeper is None and self._known:
            self._sweeper = threading.Timer(IDLE_SECONDS / 2, self._sweep)
            self._sweeper.daemon = True
            self._sweeper.start()

    def _sweep(self) -> None:
        old = time.monotonic() - IDLE_SECONDS
        with self._lock:
            self._sweeper = None
            idle = [wanted for wanted, inspected in self._known.items() if inspected.used < old]
            gone = [self._known.pop(wanted) for wanted in idle]
            self._arm()
        _end(gone)


def _ignore_change() -> None:
    """Ignore a change of the lists of an inspected server, because each use reads them again."""


def _end(inspected_servers: list[_InspectedServer]) -> None:
    """Close servers without waiting."""
    for inspected in inspected_servers:
        run_in_background("end of inspection", inspected.connections.close)


def _problem(standing: StandingConnection) -> PatchbayError:
    """Return the reason why a server does not answer, without secrets."""
    return Unreachable(standing.health.reason or standing.health.sentence)


class InspectionDispatcher(Dispatcher):
    """A dispatcher for inspected servers; it shares everything else with the dispatcher of the hub."""

    def __init__(self, hub: Dispatcher, inspected_servers: InspectedServers) -> None:
        super().__init__(hub.services)
        self.places, self.streams, self.cancellations = hub.places, hub.streams, hub.cancellations
        self._inspected_servers = inspected_servers
        self._wanted: OrderedDict[str, InspectionTarget] = OrderedDict()
        self._lock = threading.Lock()

    def endpoint(self, wanted: InspectionTarget) -> str:
        """Return the endpoint name of an inspected server; sessions are bound to it."""
        name = f"{NAME}/{sha256(repr(wanted).encode('utf-8', 'replace')).hexdigest()[:32]}"
        with self._lock:
            self._wanted[name] = wanted
            self._wanted.move_to_end(name)
            while len(self._wanted) > REMEMBERED:
                self._wanted.popitem(last=False)
        return name

    def server(self, endpoint: str, sender: Principal = LOCAL_OPERATOR, operator: bool = False) -> Server:
        """Return the inspected server of an endpoint, which only the operator can reach.

        Raises the errors of `InspectedServers.server`, and UnknownServer for an endpoint not used recently.
        """
        wanted = self._wanted.get(endpoint)
        if wanted is None:
            raise UnknownServer("this server is not being inspected any more; load its page again")
        return self._inspected_servers.server(wanted)
