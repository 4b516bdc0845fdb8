"""The local hub in the process of a command, for addresses like `/mcp/echo`."""

from __future__ import annotations

import threading

from patchbay.access.principals import LOCAL_OPERATOR
from patchbay.assembly import assemble
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.needed_servers import NeededServers
from patchbay.client.addresses.targets import Local
from patchbay.jsonrpc import Exchange
from patchbay.messages.callers import TransportInfo, is_owner
from patchbay.protocol.dispatch import Dispatcher
from patchbay.settings import Settings


class LocalHub:
    """A hub with these settings, opened at first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._dispatcher: Dispatcher | None = None
        self._lock = threading.Lock()

    def exchange(self, target: Local) -> Exchange:
        """Open an exchange with a server of this hub. Raises UnknownServer, ConfigError, ContentError."""
        name = target.endpoint.partition("@")[0]
        with self._lock:
            if self._dispatcher is None:
                needed = NeededServers([name] if name else None)
                self._dispatcher = assemble(self._settings, lambda: float("inf"), needed=needed)
            self._begin(self._dispatcher.services.catalogue, name)
            self._dispatcher.server(target.endpoint, LOCAL_OPERATOR, operator=True)
            name = "command line"
            wire = TransportInfo(
                target.endpoint, sender=LOCAL_OPERATOR, connection=name, operator=True, shows_raised=is_owner
            )
            return self._dispatcher.exchange(wire)

    def _begin(self, catalogue: Catalogue, name: str) -> None:
        """Begin a server, or all for the address of all servers."""
        for each in [name] if name else [server.name for server in catalogue.all()]:
            catalogue.begin(each)

    def close(self) -> None:
        """Close the hub and end its processes."""
        with self._lock:
            if self._dispatcher is None:
                return
            dispatcher, self._dispatcher = self._dispatcher, None
        close_hub(dispatcher)


def close_hub(dispatcher: Dispatcher) -> None:
    """Write the records of a hub, close it, and end its processes."""
    services = dispatcher.services
    services.activity.close()
    services.worker_pool.close()
    services.catalogue.close()
    services.catalogue.store.close()
