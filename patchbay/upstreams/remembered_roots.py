"""The roots that clients of this hub gave, remembered for questions of mounted servers before 2026-07-28.

Roots belong to one client of one principal and are given to no other. They are forgotten when the client says that they
changed, and after ROOTS_SECONDS. Each process has its own memory, which ends with it.

Source: MCP specification 2025-11-25, client/roots.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.activation import Call
from patchbay.jsonrpc import dump_json
from patchbay.store import Bus, Subscription
from patchbay.topics import ROOTS_CHANGED

ROOTS_SECONDS = 600.0
"""Seconds after which a client is asked again."""

MAX_CLIENTS = 1024
"""Clients whose roots are remembered; the one that was used longest ago makes room."""

MAX_ROOTS_BYTES = 64 * 1024
"""Bytes of the roots of one client, as JSON; larger ones are not remembered."""

Answer = Mapping[str, Any]


@dataclass(slots=True)
class _Memory:
    """`generation` differs whenever the roots may differ; `answer` is None before the first answer."""

    generation: int
    answer: Answer | None = None
    expires: float = 0.0


class RememberedRoots:
    """The answers to `roots/list` by principal and client (`Call.client`). Thread-safe."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: OrderedDict[tuple[str, str], _Memory] = OrderedDict()
        self._generations = itertools.count(1)
        self._changes: Subscription | None = None
        self._dropped = 0
        self._lock = threading.Lock()

    def find(self, principal: str, client: str) -> Answer | None:
        """Return the answer of a client, None if it has to be asked."""
        with self._lock:
            self._forget_changed()
            known = self._known.get((principal, client))
            if known is None or time.monotonic() >= known.expires:
                return None
            self._known.move_to_end((principal, client))
            return known.answer

    def remember(self, call: Call, answer: Answer, generation: str) -> None:
        """Remember the answer of the client of a call; a client without a name is asked each time.

        `generation` is the name that `name_generation` returned before the client was asked. An answer is not
        remembered if the client has reported a change since then: the answer may be the older one of the two.
        """
        if not call.client or len(dump_json(answer)) > MAX_ROOTS_BYTES:
            return
        with self._lock:
            self._forget_changed()
            known = self._get_memory(call.principal, call.client)
            if generation != f"{call.client}/{known.generation}":
                return
            if known.answer is not None and known.answer != answer:
                known.generation = next(self._generations)
            known.answer, known.expires = answer, time.monotonic() + ROOTS_SECONDS

    def name_generation(self, principal: str, client: str) -> str:
        """Return a name that changes with the roots of a client, so that a server does not use older ones."""
        with self._lock:
            self._forget_changed()
            return f"{client}/{self._get_memory(principal, client).generation}" if client else ""

    def _get_memory(self, principal: str, client: str) -> _Memory:
        if self._changes is None:
            self._changes = self._bus.subscribe([ROOTS_CHANGED])
        key = (principal, client)
        if key not in self._known:
            self._known[key] = _Memory(next(self._generations))
            while len(self._known) > MAX_CLIENTS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _forget_changed(self) -> None:
        """Forget the roots of the clients that have reported a change; of all clients, if reports were dropped.

        The caller holds the lock.
        """
        if self._changes is None:
            return
        if self._changes.dropped != self._dropped:
            self._dropped = self._changes.dropped
            self._known.clear()
        while (got := self._changes.get(0)) is not None:
            client = got[1].decode("utf-8", "replace")
            for key in [key for key in self._known if key[1] == client]:
                del self._known[key]
