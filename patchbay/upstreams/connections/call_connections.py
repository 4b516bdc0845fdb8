"""The connections of one mount beside its standing connection: for sessions, and for calls that may not share one.

A session of the hub has one connection for all its calls, and with it one process or one session of the server, whose
state belongs to the client. It lives until the session ends, is not used for the mount's idle time, or makes room for
another one at the mount's limit. Calls of a principal without a session share one too.

Before 2026-07-28 a client declares in the handshake which questions it can answer, and a question of a program does not
name its call. So a call without a session whose caller can answer questions has a connection for itself while it runs:
a question reaches only the caller it is for. A connection whose call was abandoned is not given to another caller: the
server may still work on the call. Connections of one principal never serve another. Where each caller has its own
credential, and with it processes or sessions that no other caller uses, one principal has at most half of the places.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from patchbay.background import run_in_background
from patchbay.caller_accounts.credentials import CallerCredential
from patchbay.client.errors import describe_briefly
from patchbay.errors import PatchbayError, ToolFailed

if TYPE_CHECKING:
    from patchbay.client.connection.connection import Connection

log = logging.getLogger(__name__)

FURTHER_IDLE_SECONDS = 60.0
"""Seconds after which an idle connection for single calls is closed, when others of the same callers are open."""

MAX_REMEMBERED_ENDS = 1024
"""Ended sessions of the server that are remembered, to tell their clients."""


class Key(NamedTuple):
    """Who uses a connection. Calls of equal keys share one, unless a call needs one for itself (`is_exclusive`).

    `session` is the session of the hub, or the connection of its client, empty without one. `sign_in` is the id of the
    principal's own credential, empty where the hub's is used. `questions` are those that the caller can
    answer, `client` is the one whose roots the server may ask for, and `roots` names its present roots: only for a
    caller without a session, else empty. `is_for_page` is for calls of scripts whose pages show the questions.
    """

    principal: str
    session: str = ""
    sign_in: str = ""
    questions: frozenset[str] = frozenset()
    client: str = ""
    roots: str = ""
    is_for_page: bool = False

    @property
    def is_exclusive(self) -> bool:
        """Whether a call uses a connection alone."""
        return not self.session and bool(self.questions)


@dataclass(eq=False)
class CallConnection:
    """One connection, opening or open. `questions` and `client` are those of the caller that it was opened for; the
    extension for apps counts among the questions.

    `credential` is the principal's own, None where the hub's is used. `may_continue` says whether the caller that used
    it last may still use the server.
    `roots` names the roots of which the server knows, `has_roots` says that it had the time to ask for them,
    `is_refused_roots` that it asked before a call could be asked, and `expects_roots` that it asks for them by itself;
    `bringing_roots` is held by the call that brings them. `running` is the number of calls. One that `is_ending` gets
    no further call, for `ending_reason`.
    """

    key: Key
    questions: frozenset[str]
    client: str = ""
    roots: str = ""
    credential: CallerCredential | None = field(default=None, repr=False)
    may_continue: Callable[[], bool] = field(default=lambda: True, repr=False)
    has_roots: bool = False
    is_refused_roots: bool = False
    expects_roots: bool = False
    bringing_roots: threading.Lock = field(default_factory=threading.Lock)
    running: int = 0
    is_ending: bool = False
    ending_reason: str = ""
    is_new: bool = True
    opening: Future[Connection] = field(default_factory=Future)
    connection: Connection | None = None
    idle_since: float = 0.0

    @property
    def ending_key(self) -> Key:
        """Whom its end is told: who uses it, whatever the next credential is that takes the place of this one."""
        is_renewed = self.credential is not None and self.credential.is_renewed
        return self.key._replace(sign_in="") if is_renewed else self.key

    @property
    def is_gone(self) -> bool:
        """Whether it could not be opened, or either side has ended it."""
        if self.connection is not None:
            return self.connection.closed
        return self.opening.done() and self.opening.exception() is not None

    def describe_end(self) -> str:
        """Return why it was ended, by either side; empty where that is not known."""
        if self.ending_reason:
            return self.ending_reason
        if self.connection is None or not self.connection.closed:
            return ""
        return f"because {describe_briefly(self.connection.end_reason.message)}"


class CallConnections:
    """The connections of one mount. Thread-safe.

    `opener` opens one; it may take long, and raises PatchbayError. There are at most `limit`, and beside them as many
    that `renew` replaced and whose calls still run; one is closed after `idle_seconds` without a call. `on_closed` is
    called after one with the credential of a caller was closed.
    """

    def __init__(
        self,
        opener: Callable[[CallConnection], Connection],
        limit: int,
        idle_seconds: float,
        on_closed: Callable[[], None] = lambda: None,
    ) -> None:
        self._open = opener
        self._on_closed = on_closed
        self._limit = limit
        self._idle_seconds = idle_seconds
        self._known: dict[Key, list[CallConnection]] = defaultdict(list)
        self._ends: OrderedDict[Key, str] = OrderedDict()
        self._count = 0
        self._replaced = set[CallConnection]()
        """Those that `renew` ended, until they are closed."""
        self._is_closed = False
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """How many there are."""
        return self._count

    @property
    def has_replaced(self) -> bool:
        """Whether one that `renew` ended is still open."""
        return bool(self._replaced)

    def has(self, key: Key) -> bool:
        """Whether there is a connection that calls of this key share."""
        return any(not one.is_gone for one in [*self._known.get(key, ())])

    def list_accounts(self) -> set[str]:
        """Return the accounts of callers whose credentials are used now, by digest."""
        with self._lock:
            return {one.credential.account for one in self._iterate() if one.credential is not None}

    def list_open(self) -> list[Connection]:
        """Return those that are open."""
        with self._lock:
            every = [*self._iterate()]
        return [one.connection for one in every if one.connection is not None and not one.connection.closed]

    def acquire(
        self,
        key: Key,
        questions: frozenset[str],
        client: str = "",
        roots: str = "",
        credential: CallerCredential | None = None,
        may_continue: Callable[[], bool] = lambda: True,
    ) -> CallConnection:
        """Return a connection for one call, which may still be opening. Raises ToolFailed at the maximum.

        `questions`, `client`, `roots` and `credential` are used when it is opened. `may_continue` says later whether
        the caller may still use the server.
        """
        with self._lock:
            found = self._find_usable(key)
            if found is not None:
                found.running += 1
                found.may_continue = may_continue
                return found
            reserved = CallConnection(key, questions, client, roots, credential, may_continue, running=1)
            dead = [one for one in self._known.get(key, ()) if one.is_gone and not one.running]
            earlier = self._find_earlier(reserved)
            for one in earlier:
                one.is_ending = True
            dead += [one for one in earlier if not one.running]
            self._forget(dead)
            evicted = self._make_room(key, len(dead))
            self._count += 1
            self._known[key].append(reserved)
        self._end(dead)
        if earlier:
            self._remember_end(reserved.ending_key, "because your client sent another access token")
        if evicted is not None:
            self._end([evicted], f"because {self._limit} others were in use, the session_limit of this server")
        run_in_background("opening an upstream", self._open_in_thread, reserved)
        return reserved

    def take_end_reason(self, reserved: CallConnection) -> str:
        """Return why the last connection of these callers was ended, once, to the call that opened the next one."""
        if not reserved.is_new:
            return ""
        reserved.is_new = False
        with self._lock:
            return self._ends.pop(reserved.ending_key, "")

    def give_back(self, reserved: CallConnection, clean: bool) -> None:
        """Return a connection after its call; `clean` means that the server works on nothing of it any more."""
        if reserved.connection is not None:
            self._return(reserved, clean)
        else:
            reserved.opening.add_done_callback(lambda _: self._return(reserved, clean))

    def end_session(self, session: str) -> bool:
        """Close the connections of an ended session, each when its calls are over; return whether there were any."""
        with self._lock:
            ended = [one for one in self._iterate() if one.key.session == session]
            for one in ended:
                one.is_ending = True
            idle = [one for one in ended if not one.running]
            self._forget(idle)
        self._end(idle)
        return bool(ended)

    def renew(self, reason: str) -> None:
        """Close all connections, each when its calls are over; the next calls open new ones."""
        with self._lock:
            ended = [*self._iterate()]
            for one in ended:
                one.is_ending, one.ending_reason = True, reason
            self._replaced.update(ended)
            idle = [one for one in ended if not one.running]
            self._forget(idle)
        self._end(idle)

    def end_credentials(self, is_current: Callable[[Key], bool], reason: str) -> None:
        """Close at once the connections with a credential that is not current any more; their calls end with them."""
        with self._lock:
            every = [one for one in self._iterate() if one.key.sign_in]
        ended = [one for one in every if not is_current(one.key)]
        with self._lock:
            ended = [one for one in ended if one in self._known.get(one.key, ())]
            for one in ended:
                one.is_ending, one.ending_reason = True, reason
            self._forget(ended)
        self._end(ended)

    def end_callers(self, reason: str) -> None:
        """Close the connections with a credential whose callers may no longer use the server.

        One with a running call is closed after it: a call of a removed caller ends by itself, and another client of the
        same principal may use the connection too.
        """
        with self._lock:
            every = [one for one in self._iterate() if one.key.sign_in]
        ended = [one for one in every if not one.may_continue()]
        with self._lock:
            ended = [one for one in ended if one in self._known.get(one.key, ())]
            for one in ended:
                one.is_ending, one.ending_reason = True, reason
            idle = [one for one in ended if not one.running]
            self._forget(idle)
        self._end(idle)

    def reap(self, idle_seconds: float | None = None) -> None:
        """Close the connections that have been idle for this many seconds; by default, for those of the mount."""
        seconds = self._idle_seconds if idle_seconds is None else idle_seconds
        with self._lock:
            old = [*self._iterate_idle(seconds)]
            self._forget(old)
        self._end(old, f"after {seconds / 60:g} minutes without a call")

    def close(self) -> None:
        """Close the idle connections now, and each other one when its call is over."""
        with self._lock:
            self._is_closed = True
        self.reap(0)

    # the caller of these methods holds the lock

    def _iterate(self) -> Iterator[CallConnection]:
        return (one for connections in self._known.values() for one in connections)

    def _iterate_idle(self, seconds: float) -> Iterator[CallConnection]:
        now = time.monotonic()
        for connections in self._known.values():
            for number, one in enumerate(connections):
                limit = min(seconds, FURTHER_IDLE_SECONDS) if number else seconds
                if not one.running and one.idle_since <= now - limit:
                    yield one

    def _make_room(self, key: Key, dead: int) -> CallConnection | None:
        """Take the connection that makes room for one more, None where there is room. Raises ToolFailed without one."""
        share = (self._limit + 1) // 2
        if key.sign_in and sum(1 for one in self._iterate() if one.key.principal == key.principal) >= share:
            evicted = self._pop_longest_idle(key.principal)
            if evicted is None:
                raise ToolFailed(
                    f"your own calls use {share} of the {self._limit} places of this server (session_limit), the most"
                    " for one caller; try again when one has ended"
                )
            return evicted
        # Those that end after a change of a secret are not usable: the next call needs another one at once.
        uncounted = dead + min(len(self._replaced), self._limit)
        if self._count < self._limit + uncounted:
            return None
        evicted = self._pop_longest_idle()
        if evicted is None:
            many = "1 session uses" if self._limit == 1 else f"{self._limit} sessions use"
            raise ToolFailed(f"{many} this server at the moment, which is its session_limit; try again later")
        return evicted

    def _find_earlier(self, reserved: CallConnection) -> list[CallConnection]:
        """Find the connections of a session with credentials in whose place that of a new connection is."""
        if not reserved.key.session or reserved.ending_key == reserved.key:
            return []
        return [one for one in self._iterate() if one.ending_key == reserved.ending_key]

    def _find_usable(self, key: Key) -> CallConnection | None:
        for one in self._known.get(key, ()):
            if not (one.is_gone or one.is_ending or (key.is_exclusive and one.running)):
                return one
        return None

    def _pop_longest_idle(self, principal: str = "") -> CallConnection | None:
        """Take the connection that has been idle for the longest time, of one principal if it is named, to close it."""
        idle = (one for one in self._iterate_idle(0) if principal in ("", one.key.principal))
        oldest = min(idle, key=lambda one: one.idle_since, default=None)
        if oldest is not None:
            self._forget([oldest])
        return oldest

    def _forget(self, connections: Iterable[CallConnection]) -> None:
        """Remove connections from the known ones; the caller ends them."""
        for one in connections:
            known = self._known[one.key]
            known.remove(one)
            if not known:
                del self._known[one.key]

    # the caller of these methods does not hold the lock

    def _open_in_thread(self, reserved: CallConnection) -> None:
        try:
            reserved.connection = self._open(reserved)
            reserved.opening.set_result(reserved.connection)
        except PatchbayError as problem:
            reserved.opening.set_exception(problem)
        except BaseException as problem:
            reserved.opening.set_exception(problem)
            raise

    def _return(self, reserved: CallConnection, clean: bool) -> None:
        is_abandoned = reserved.key.is_exclusive and not clean
        with self._lock:
            reserved.running -= 1
            reserved.idle_since = time.monotonic()
            if not (is_abandoned or reserved.is_ending or reserved.is_gone or self._is_closed):
                return
            if reserved.running or reserved not in self._known.get(reserved.key, ()):
                return
            self._forget([reserved])
        self._end([reserved])

    def _end(self, connections: Iterable[CallConnection], why: str = "") -> None:
        for reserved in connections:
            reason = why or reserved.describe_end()
            if reason and not reserved.key.is_exclusive:
                self._remember_end(reserved.ending_key, reason)
            # On its own thread: a program may end slowly, and the caller has its answer already.
            run_in_background("closing an upstream", self._close, reserved)

    def _remember_end(self, key: Key, why: str) -> None:
        with self._lock:
            self._ends[key] = why
            while len(self._ends) > MAX_REMEMBERED_ENDS:
                self._ends.popitem(last=False)

    def _close(self, reserved: CallConnection) -> None:
        try:
            if reserved.opening.exception() is None:  # one that still opens is awaited
                reserved.opening.result().close()
        finally:
            with self._lock:
                self._count -= 1
                self._replaced.discard(reserved)
            if reserved.key.sign_in:
                self._on_closed()
