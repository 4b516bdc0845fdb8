"""Connections for calls that may not share one: each belongs to one call while it runs.

Before 2026-07-28 a client declares in the handshake which questions it can answer, and a question of the server need
not name its call. So a caller that can answer questions gets a connection that declares them and that no other call
uses meanwhile: a question reaches only the caller it is for. Connections of one principal never serve another. A
connection whose call was abandoned is not used again: the server may still work on the call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchbay.errors import PatchbayError, ToolFailed

if TYPE_CHECKING:
    from patchbay.client.connection.connection import Connection

log = logging.getLogger(__name__)

MAX_CONNECTIONS_PER_MOUNT = 32
"""Maximum connections of one mount at a time."""

IDLE_SECONDS = 60.0
"""Seconds after which an idle connection is closed."""


@dataclass(frozen=True, slots=True)
class Key:
    """The principal of a connection, and the questions that its caller can answer.

    `sign_in` is the id of the principal's own tokens, empty where the hub's credentials are used. `client` is the one
    whose roots the server may ask for, and `roots` names its present roots; both are empty without.
    """

    principal: str
    questions: frozenset[str]
    sign_in: str = ""
    client: str = ""
    roots: str = ""


@dataclass
class CallConnection:
    """One connection, opening or open."""

    key: Key
    opening: Future[Connection] = field(default_factory=Future)
    idle_since: float = 0.0


class CallConnections:
    """The connections of one mount. `opener` opens one; it may take long, and raises PatchbayError."""

    def __init__(self, opener: Callable[[Key], Connection]) -> None:
        self._open = opener
        self._idle: dict[Key, list[CallConnection]] = defaultdict(list)
        self._count = 0
        self._ended = False
        self._lock = threading.Lock()

    def acquire(self, key: Key) -> CallConnection:
        """Return an idle connection for one call, else one that is being opened. Raises ToolFailed at the maximum."""
        with self._lock:
            while self._idle[key]:
                reserved = self._idle[key].pop()
                if not reserved.opening.result().closed:
                    return reserved
                self._count -= 1
            evicted = self._pop_oldest() if self._count >= MAX_CONNECTIONS_PER_MOUNT else None
            if self._count >= MAX_CONNECTIONS_PER_MOUNT and evicted is None:
                raise ToolFailed(
                    f"{MAX_CONNECTIONS_PER_MOUNT} calls that may ask their callers are running there already;"
                    " try again later"
                )
            self._count += 1
        if evicted is not None:
            self._end([evicted])
        reserved = CallConnection(key)
        threading.Thread(target=self._open_in_thread, args=(reserved,), name="opening an upstream", daemon=True).start()
        return reserved

    def _pop_oldest(self) -> CallConnection | None:
        """Take the connection that has been idle for the longest time, to close it. The caller holds the lock."""
        idle = [reserved for connections in self._idle.values() for reserved in connections]
        if not idle:
            return None
        oldest = min(idle, key=lambda reserved: reserved.idle_since)
        self._idle[oldest.key].remove(oldest)
        return oldest

    def _open_in_thread(self, reserved: CallConnection) -> None:
        try:
            reserved.opening.set_result(self._open(reserved.key))
        except PatchbayError as problem:
            self._release()
            reserved.opening.set_exception(problem)
        except BaseException as problem:
            self._release()
            reserved.opening.set_exception(problem)
            raise

    def give_back(self, reserved: CallConnection, clean: bool) -> None:
        """Return a connection after its call; `clean` means that the server works on nothing of it any more."""
        reserved.opening.add_done_callback(lambda opening: self._return(reserved, clean))

    def _return(self, reserved: CallConnection, clean: bool) -> None:
        if reserved.opening.exception() is not None:
            return
        usable = clean and not reserved.opening.result().closed
        with self._lock:
            usable = usable and not self._ended
            if usable:
                reserved.idle_since = time.monotonic()
                self._idle[reserved.key].append(reserved)
        if not usable:
            self._end([reserved])

    def reap(self, older: float = IDLE_SECONDS) -> None:
        """Close the connections that have been idle for this many seconds."""
        limit = time.monotonic() - older
        with self._lock:
            old = [
                reserved
                for connections in self._idle.values()
                for reserved in connections
                if reserved.idle_since <= limit
            ]
            for key, connections in list(self._idle.items()):
                self._idle[key] = [reserved for reserved in connections if reserved.idle_since > limit]
                if not self._idle[key]:
                    del self._idle[key]
        self._end(old)

    def close(self) -> None:
        """Close the idle connections now, and each other one when its call is over."""
        with self._lock:
            self._ended = True
        self.reap(0)

    def _end(self, connections: Iterable[CallConnection]) -> None:
        for reserved in connections:
            # On its own thread: a program may end slowly, and the caller has its answer already.
            threading.Thread(target=self._close, args=(reserved,), name="closing an upstream", daemon=True).start()

    def _close(self, reserved: CallConnection) -> None:
        try:
            reserved.opening.result().close()
        finally:
            self._release()

    def _release(self) -> None:
        with self._lock:
            self._count -= 1
