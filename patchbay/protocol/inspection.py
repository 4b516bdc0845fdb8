"""InspectedServers: servers that are looked at without being plugged in.

A guest is a mount that is kept in memory only: it has the connection, the lists, the questions and the limits of a
mount, and no name in the store. It is reached when it is asked for, by the operator alone, and forgotten when nobody
has asked for a while, so that a hub with several workers needs nothing in common for it.
Rules: at most MOST at a time; one that does not answer is forgotten at once; a program is started only where the
setting `inspect` says so.
Sources: issue 7 part 5; THREATS 1.7 (SSRF, stdio launch); DESIGN section 11.
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
from patchbay.catalogue.build import BuildContext, configured_server
from patchbay.catalogue.rows import ServerRow
from patchbay.catalogue.servers import Server
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.targets import Era, Local, Stdio, Target
from patchbay.client.errors import Unreachable
from patchbay.config import Configs
from patchbay.errors import ConfigError, PatchbayError, Refused, UnknownServer
from patchbay.kind import CONFIGURATION_KIND
from patchbay.kinds.mount import snapshots
from patchbay.kinds.mount.configuration import Mount, mount_of
from patchbay.kinds.mount.standing_connection import MountContext, StandingConnection
from patchbay.kinds.mount.standing_connections import StandingConnections
from patchbay.protocol.dispatch import Dispatcher
from patchbay.settings import Settings
from patchbay.stores.memory import MemoryStore

NAME = "inspect"
"""What a guest is called in records and sentences; no server of a hub can have this name."""

MAX_ADDRESS_CHARACTERS = 2000
"""Characters of an address."""

MAX_INSPECTED_SERVERS = 8
IDLE_SECONDS = 300.0
"""Seconds after which a guest is forgotten that nobody asks for."""

FIRST_ANSWER_SECONDS = 20.0
"""Seconds that somebody waits for a server to answer for the first time."""

REMEMBERED = 256
"""Endpoints whose address is remembered."""

WHERE = "the address"


@dataclass(frozen=True, slots=True)
class InspectionTarget:
    """Which server somebody wants to look at. `public` says that a URL may lead to public addresses only."""

    address: str
    era: Era = "auto"
    public: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """As the configuration of a mount, which is what a file of one would say."""
        return {"kind": "upstream", "address": self.address} | ({} if self.era == "auto" else {"era": self.era})


@dataclass(slots=True)
class _Guest:
    keepers: StandingConnections
    store: MemoryStore
    mount: Mount
    used: float = field(default_factory=time.monotonic)
    built: tuple[object, Server] | None = None


class InspectedServers:
    """The guests of one hub in one process. Safe to use from many threads."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._allowed = settings.inspect
        self._timeout = settings.timeout
        self._environ = environ
        self._hub = uuid4().hex
        self._known: OrderedDict[InspectionTarget, _Guest] = OrderedDict()
        self._lock = threading.Lock()
        self._sweeper: threading.Timer | None = None

    def reach(self, wanted: InspectionTarget) -> Target:
        """How it would be reached; nothing is. Raises Refused (403), ConfigError for an address that cannot be."""
        if self._allowed == "off":
            raise Refused("this hub inspects no other servers (setting inspect)")
        if len(wanted.address) > MAX_ADDRESS_CHARACTERS:
            raise ConfigError(WHERE, "", f"expected at most {MAX_ADDRESS_CHARACTERS} characters")
        parsed = parse_address(wanted.address)
        if isinstance(parsed.target, Local):
            raise ConfigError(WHERE, "", f"expected another server; {parsed.target.label} is one of this hub")
        mount = self._mount(wanted)
        # A program is refused before anything else is said of it, whether a variable of it is set or not.
        if isinstance(parsed.target, Stdio):
            self._check_program()
        found = mount.reach(self._environ)
        if isinstance(found, Stdio):
            self._check_program()
        return found

    def described(self, wanted: InspectionTarget) -> str:
        """The address for people: no secret, and variables by their names."""
        return parse_address(wanted.address).target.label

    def server(self, wanted: InspectionTarget) -> Server:
        """The server, which is reached if it is not yet. Raises what `reach` raises, Unreachable with the reason."""
        self.reach(wanted)
        guest = self._guest(wanted)
        keeper = guest.keepers.of(guest.mount)
        if not keeper.settled.wait(FIRST_ANSWER_SECONDS):
            raise Unreachable(
                f"it has not answered within {FIRST_ANSWER_SECONDS:.0f} s; it is still being reached, so look again"
            )
        if keeper.connection is None:
            problem = _problem(keeper)
            self._forget(wanted, guest)
            raise problem
        return self._built(wanted, guest)

    def _built(self, wanted: InspectionTarget, guest: _Guest) -> Server:
        """The server as its lists are now; made again when they are others."""
        lists, built = snapshots.names(guest.store).get(NAME), guest.built
        if built is None or built[0] != lists:
            row = ServerRow(NAME, CONFIGURATION_KIND, "", origin="an address")
            fields = wanted.fields | {"public": wanted.public}
            shop = BuildContext(guest.store.blobs, Configs(guest.store.blobs), self._timeout, keepers=guest.keepers)
            built = guest.built = lists, configured_server(row, guest.mount.digest, fields, shop)
        return built[1]

    def close(self) -> None:
        """Forget all of them; waits for the end of what was started."""
        with self._lock:
            guests, self._known = list(self._known.values()), OrderedDict()
            if self._sweeper is not None:
                self._sweeper.cancel()
        for guest in guests:
            guest.keepers.close()

    def _mount(self, wanted: InspectionTarget) -> Mount:
        return mount_of(NAME, wanted.fields | {"public": wanted.public}, WHERE)

    def _check_program(self) -> None:
        if self._allowed != "programs":
            raise Refused(
                "this address starts a program on the hub's machine, which this page may not do;"
                " start the hub with --inspect programs to allow it, or inspect it from a terminal there"
            )

    def _guest(self, wanted: InspectionTarget) -> _Guest:
        with self._lock:
            guest = self._known.get(wanted)
            if guest is None:
                store, mount = MemoryStore(), self._mount(wanted)
                keepers = StandingConnections(MountContext(store, self._environ, self._hub, __version__, _nobody))
                guest = self._known[wanted] = _Guest(keepers, store, mount)
                keepers.keep([mount])
            guest.used = time.monotonic()
            self._known.move_to_end(wanted)
            gone = [self._known.popitem(last=False)[1] for _ in range(len(self._known) - MAX_INSPECTED_SERVERS)]
            self._arm()
        _end(gone)
        return guest

    def _forget(self, wanted: InspectionTarget, guest: _Guest) -> None:
        with self._lock:
            if self._known.get(wanted) is guest:
                del self._known[wanted]
        _end([guest])

    def _arm(self) -> None:
        if self._sweeper is None and self._known:
            self._sweeper = threading.Timer(IDLE_SECONDS / 2, self._sweep)
            self._sweeper.daemon = True
            self._sweeper.start()

    def _sweep(self) -> None:
        old = time.monotonic() - IDLE_SECONDS
        with self._lock:
            self._sweeper = None
            idle = [wanted for wanted, guest in self._known.items() if guest.used < old]
            gone = [self._known.pop(wanted) for wanted in idle]
            self._arm()
        _end(gone)


def _nobody() -> None:
    """Nobody is told when the lists of a guest are others: they are read anew with each look."""


def _end(guests: list[_Guest]) -> None:
    """End them without waiting for it."""
    for guest in guests:
        threading.Thread(target=guest.keepers.close, name="guest leaves", daemon=True).start()


def _problem(keeper: StandingConnection) -> PatchbayError:
    """Why it does not answer; secrets have been taken out of the reason."""
    return Unreachable(keeper.health.reason or keeper.health.sentence)


class InspectionDispatcher(Dispatcher):
    """A dispatcher whose servers are guests; everything else it shares with the hub's own."""

    def __init__(self, hub: Dispatcher, guests: InspectedServers) -> None:
        super().__init__(hub.desk)
        self.places, self.streams, self.cancellations = hub.places, hub.streams, hub.cancellations
        self._guests = guests
        self._wanted: OrderedDict[str, InspectionTarget] = OrderedDict()
        self._lock = threading.Lock()

    def endpoint(self, wanted: InspectionTarget) -> str:
        """What a guest is called on the wire: sessions are bound to it."""
        name = f"{NAME}/{sha256(repr(wanted).encode('utf-8', 'replace')).hexdigest()[:32]}"
        with self._lock:
            self._wanted[name] = wanted
            self._wanted.move_to_end(name)
            while len(self._wanted) > REMEMBERED:
                self._wanted.popitem(last=False)
        return name

    def server(self, endpoint: str, operator: bool = False) -> Server:
        """The guest of an endpoint, which is the operator's in any case.

        Raises what `InspectedServers.server` raises, UnknownServer for one not named of late.
        """
        wanted = self._wanted.get(endpoint)
        if wanted is None:
            raise UnknownServer("this server is not being inspected any more; load its page again")
        return self._guests.server(wanted)
