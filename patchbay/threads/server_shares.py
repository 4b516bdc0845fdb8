"""Shares the threads of a worker among servers, so that callers that wait for one server leave threads for all others.

A call holds a thread until it ends, also while it waits for the upstream of a mount or for a process of a tool. So a
server may have at most `FREE_FACTOR` times as many calls at the same time as there are free places: one slow server
gets two thirds of the places, two get two fifths each, and some stay free however many there are (dynamic thresholds).
A server whose calls end quickly may have more for a moment, because it frees them at once, but never all.

A call that waits for an upstream may leave its thread (`Pause.mailbox`): it rests, and does not count among those that
hold one. Resting calls have places of their own, which are shared in the same way.

A call without a place waits for a short time; then it is refused, in words that name the server and the seconds after
which to come back. Limits for each principal are in `patchbay/access/quotas.py`.
Sources: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM Transactions
on Networking 6 (2), 1998; RFC 9110, section 10.2.3 (Retry-After); CWE-400.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from patchbay.activation import CallPlace
from patchbay.errors import OverQuota
from patchbay.events import Mailbox

FREE_FACTOR = 2
"""A server may have so many calls for each free place."""

MAX_RESTING = 2048
"""Limit on the calls of a worker that wait without a thread."""

QUICK_SECONDS = 0.1
"""Calls are quick when one ended within this time, and fewer than half of those that run are older."""

PATIENCE_SECONDS, POLL_SECONDS = 0.25, 0.005
"""Limit on the wait of a call for a place; seconds between two looks."""

MAX_WAITING = 24
"""Limit on the calls that wait for a place of servers that are not quick."""

MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 1, 10
"""Limits on the seconds after which a refused caller may come back: as long as the oldest call has run."""

MAX_KNOWN_SERVERS = 4096
"""Servers from which on those without a running call are forgotten."""

BeginCall = Callable[[Any, str, bool], CallPlace | None]


class RunningCalls:
    """The calls of one server: the time of the beginning by the id of the place; `ended` is when one ended.

    `begun` are those that hold a thread, `resting` those that hold none.
    """

    __slots__ = ("begun", "ended", "resting")

    def __init__(self) -> None:
        self.begun: dict[int, float] = {}
        self.resting: dict[int, float] = {}
        self.ended = -math.inf

    def are_quick(self) -> bool:
        """Whether most of the calls that run now may be expected to end at once."""
        begun = [*self.begun.values()]
        before = time.monotonic() - QUICK_SECONDS
        return self.ended > before and 2 * sum(one < before for one in begun) < len(begun)

    def oldest_seconds(self) -> float:
        """Return for how long the oldest call has run."""
        return time.monotonic() - min([*self.begun.values(), *self.resting.values()], default=math.inf)


class ServerPlace:
    """A call that has a place until `release`, which every thread may call, and more than once.

    `counted` is its place in the quotas. To release takes no lock: the garbage collector may do it in any thread.
    """

    __slots__ = ("_all", "_calls", "_counted", "_is_released", "_resting", "delay")

    def __init__(self, places: set[int], resting: set[int], calls: RunningCalls) -> None:
        self.delay = 0.0
        self._all = places
        self._resting = resting
        self._calls = calls
        self._counted: CallPlace | None = None
        self._is_released = False
        me = id(self)
        places.add(me)
        calls.begun[me] = time.monotonic()

    def count(self, counted: CallPlace) -> None:
        """Release `counted`, the place in the quotas, together with this one."""
        self._counted, self.delay = counted, counted.delay

    def while_waiting(self, mailbox: Mailbox) -> Mailbox:
        """Return a mailbox whose reader rests while it waits without a thread."""
        return RestingMailbox(self, mailbox)

    def rest(self) -> None:
        """Note that the call leaves its thread."""
        begun = self._calls.begun.pop(id(self), None)
        if begun is not None:
            self._calls.resting[id(self)] = begun
            self._resting.add(id(self))
            self._all.discard(id(self))

    def go_on(self) -> None:
        """Note that the call gets a thread again."""
        begun = self._calls.resting.pop(id(self), None)
        if begun is not None:
            self._calls.begun[id(self)] = begun
            self._all.add(id(self))
            self._resting.discard(id(self))

    def release(self) -> None:
        """Leave the place to another call."""
        if self._is_released:
            return
        calls, me = self._calls, id(self)
        if calls.begun.pop(me, None) is None and calls.resting.pop(me, None) is None:
            return
        self._is_released = True
        self._all.discard(me)
        self._resting.discard(me)
        calls.ended = time.monotonic()
        if self._counted is not None:
            self._counted.release()

    def __del__(self) -> None:
        # The events of a call that were never read have no end.
        self.release()


class ThreadPlace(Protocol):
    """A place among those that hold a thread. It is given up while its call, or its request, waits without one."""

    def rest(self) -> None:
        """Leave the place."""
        ...

    def go_on(self) -> None:
        """Take the place again."""
        ...


class RestingMailbox:
    """The mailbox that a call waits for. A reader that is called back has left the thread of the call until then."""

    def __init__(self, place: ThreadPlace, mailbox: Mailbox) -> None:
        self._place = place
        self._mailbox = mailbox

    @property
    def closed(self) -> bool:
        return self._mailbox.closed

    def wait(self, timeout: float) -> None:
        """Wait with the thread of the call."""
        self._mailbox.wait(timeout)

    def call_when_ready(self, callback: Callable[[], None]) -> bool:
        """Let the call rest until it is called back."""

        def go_on() -> None:
            self._place.go_on()
            callback()

        self._place.rest()
        if self._mailbox.call_when_ready(go_on):
            return True
        self._place.go_on()
        return False

    def cancel_call(self) -> bool:
        """Let the call go on."""
        is_cancelled = self._mailbox.cancel_call()
        if is_cancelled:
            self._place.go_on()
        return is_cancelled


class ServerShares:
    """The places of one worker for calls: three quarters of its `threads`; the others are for everything else.

    `begin_counted` counts a call against the quotas. Safe to use from many threads; without a lock, so that calls that
    begin in the same moment may take a few places more.
    """

    def __init__(self, threads: int, begin_counted: BeginCall) -> None:
        self._begin_counted = begin_counted
        self._most = max(1, threads * 3 // 4)
        self._most_quick = self._most * 7 // 8
        self._places: set[int] = set()
        self._resting: set[int] = set()
        self._servers: dict[str, RunningCalls] = {}
        self._waiting = 0
        self._lock = threading.Lock()

    def begin_call(self, sender: Any, server: str, is_nested: bool = False) -> CallPlace | None:
        """Give a call a place until it is released. Raises OverQuota.

        A nested call, of a tool by a tool, runs on the thread of its caller, so it needs no place of its own.
        """
        if is_nested:
            return self._begin_counted(sender, server, is_nested)
        calls = self._servers.get(server) or self._add_server(server)
        if not self._has_room(calls):
            self._wait_for_room(server, calls)
        place = ServerPlace(self._places, self._resting, calls)
        try:
            counted = self._begin_counted(sender, server, is_nested)
        except BaseException:
            place.release()
            raise
        if counted is not None:
            place.count(counted)
        return place

    def _add_server(self, server: str) -> RunningCalls:
        with self._lock:
            if len(self._servers) >= MAX_KNOWN_SERVERS:
                self._servers = {name: calls for name, calls in self._servers.items() if calls.begun or calls.resting}
            return self._servers.setdefault(server, RunningCalls())

    def _has_room(self, calls: RunningCalls) -> bool:
        resting = len(calls.resting)
        if resting and resting >= FREE_FACTOR * (MAX_RESTING - len(self._resting)):
            return False
        running, free = len(calls.begun), self._most - len(self._places)
        if not running or running < FREE_FACTOR * free:
            return True
        return running < self._most_quick and free > 0 and calls.are_quick()

    def _wait_for_room(self, server: str, calls: RunningCalls) -> None:
        """Wait until a server may have one more call. Raises OverQuota."""
        until, never = time.monotonic() + PATIENCE_SECONDS, threading.Event()
        with self._lock:
            is_refused = self._waiting >= MAX_WAITING and not calls.are_quick()
            self._waiting += not is_refused
        if is_refused:
            raise _busy(server, calls)
        try:
            while not self._has_room(calls):
                if time.monotonic() >= until:
                    raise _busy(server, calls)
                never.wait(POLL_SECONDS)
        finally:
            with self._lock:
                self._waiting -= 1


def _busy(server: str, calls: RunningCalls) -> OverQuota:
    seconds = math.ceil(min(max(calls.oldest_seconds(), MIN_RETRY_SECONDS), MAX_RETRY_SECONDS))
    unit = "second" if seconds == 1 else "seconds"
    resting = f", {len(calls.resting)} more wait for an answer" if calls.resting else ""
    return OverQuota(
        f"{server} is busy: {len(calls.begun)} of its calls run at the same time{resting}, and the other places are for"
        f" other servers (setting threads); try again in {seconds} {unit}",
        seconds,
    )
