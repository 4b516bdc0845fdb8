"""One request being answered, and the desk that answers: what every method function gets."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbay.activation import CancelFlag
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers import Server
from patchbay.jsonrpc import Id, Request
from patchbay.protocol.asks import States
from patchbay.protocol.callers import Caller
from patchbay.protocol.lists import Lists
from patchbay.protocol.sessions import Sessions
from patchbay.protocol.subscriptions import Listeners
from patchbay.protocol.tasks import Tasks
from patchbay.settings import Settings


class Running:
    """Requests being answered that their owner (`Caller.owner`) can cancel by id, type-exact (SUB-C11)."""

    def __init__(self) -> None:
        self._flags: dict[tuple[str, type, Id], CancelFlag] = {}
        self._lock = threading.Lock()

    def add(self, owner: str, id: Id, flag: CancelFlag) -> None:
        with self._lock:
            self._flags[owner, type(id), id] = flag

    def remove(self, owner: str, id: Id, flag: CancelFlag) -> None:
        """Forget a request that is over; another one that took its id meanwhile stays."""
        with self._lock:
            if self._flags.get((owner, type(id), id)) is flag:
                del self._flags[owner, type(id), id]

    def cancel(self, owner: str, id: Any, reason: str) -> bool:
        """Cancel one request; whether there was one. An unknown id is ignored, as the specification asks."""
        with self._lock:
            flag = self._flags.get((owner, type(id), id)) if isinstance(id, (str, int)) else None
        if flag is not None:
            flag.set(reason)
        return flag is not None

    def cancel_all(self, owner: str, reason: str) -> None:
        """Cancel every request of a session or connection."""
        with self._lock:
            flags = [flag for (whose, _, _), flag in self._flags.items() if whose == owner]
        for flag in flags:
            flag.set(reason)


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts that methods work with."""

    catalogue: Catalogue
    settings: Settings
    sessions: Sessions
    lists: Lists
    listeners: Listeners
    states: States
    running: Running
    tasks: Tasks


@dataclass(frozen=True, slots=True)
class Turn:
    """One request, its terms, its server, and whether its answer is still wanted."""

    desk: Desk
    request: Request
    caller: Caller
    server: Server
    cancelled: CancelFlag = field(default_factory=CancelFlag)

    @property
    def params(self) -> Mapping[str, Any]:
        return self.request.params
