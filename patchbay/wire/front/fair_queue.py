"""Shares the threads of a worker among senders: each sender has a queue of its own, and a few turns at a time.

While one sender alone is active, its requests begin at once. While others are active too, a sender has at most
`MAX_TURNS` requests that began within the last `TURN_SECONDS`; its further ones wait in its queue, which costs nothing.
A request that lasts longer, such as a call of a slow tool, gives its turn to the next one. When the requests of a
sender have used `SLICE_SECONDS` of processor time, its queue rests for `REST_FACTOR` times as long, so that a flood
leaves most of the processor to the others. A request is never refused here.

The sender is known before the request is read: by its token, the cookie of its session, or its address. A sender with
many wrong tokens gets no further: the hub limits these by address.
Source: RFC 970 (fair queueing).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from functools import partial

from werkzeug.http import parse_cookie

from patchbay.access.authentication import token_in
from patchbay.access.session_cookies import find_session_cookie, operator_cookie_name
from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.front.request_threads import RequestThreads, Work, run_logged
from patchbay.wire.requests.rsgi import Headers, Scope, address

NO_PROXIES = TrustedProxies(())

MAX_TURNS = 2
"""Requests of one sender that begin at a time, while others are active."""

TURN_SECONDS = 0.01
"""A request keeps its turn for so long; after that it waits for something, as far as the queue is concerned."""

SLICE_SECONDS = 0.002
"""Processor time that the requests of a sender use before its queue rests, while others are active."""

REST_FACTOR = 4.0
"""Seconds of rest for each second of processor time."""

OTHERS_SECONDS = 0.5
"""Other senders are active when one of them sent a request within this time."""

TICK_SECONDS = 0.004
"""Seconds between two looks at the queues, while a request waits in one."""


def find_sender(
    scope: Scope, headers: Headers, port: int, proxies: TrustedProxies = NO_PROXIES, prefix: str = ""
) -> str:
    """Return the sender of a request before it is read: its token, its session, or its address.

    Only the proof counts: a sender that varies the rest of these headers remains one sender. `port` and
    `prefix` are those of the hub, which decide the names of its cookies; `proxies` name the address of their client.
    All lines of a header count, as in the environ; of a request with several Authorization lines, which is refused, no
    token counts.
    """
    authorization = headers.get_all("authorization")
    if len(authorization) == 1 and (token := token_in(authorization[0])):
        return token
    cookies = parse_cookie(";".join(headers.get_all("cookie")))
    operator = (cookies.get(operator_cookie_name(port, over_tls, prefix), "") for over_tls in (True, False))
    session = find_session_cookie(cookies, port, prefix) or next(filter(None, operator), "")
    return session or proxies.find_client(address(scope.client)[0], ",".join(headers.get_all("x-forwarded-for")))


class _Sender:
    """The requests of one sender: those that wait, when each turn began, and the processor time since its last rest."""

    __slots__ = ("queue", "rests_until", "turns", "used")

    def __init__(self) -> None:
        self.queue: deque[Work] = deque()
        self.turns: dict[object, float] = {}
        self.used = 0.0
        self.rests_until = 0.0


class FairQueue:
    """The requests of one worker on `threads`. Safe to use from many threads; `loop` looks at requests that wait."""

    def __init__(self, threads: RequestThreads, loop: EventLoop) -> None:
        self._threads = threads
        self._loop = loop
        self._lock = threading.Lock()
        self._senders: dict[str, _Sender] = {}
        self._latest = ""
        self._latest_at = self._other_at = -OTHERS_SECONDS
        self._ticks = False

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        with self._lock:
            return sum(len(sender.queue) for sender in self._senders.values())

    def run(self, name: str, work: Work) -> None:
        """Run the work of a sender's request on the threads: now, or when the sender has a turn."""
        now = time.monotonic()
        if name != self._latest:
            self._latest, self._other_at = name, self._latest_at
        self._latest_at = now
        if now - self._other_at >= OTHERS_SECONDS:
            self._threads.run(work)
            return
        turn = object()
        with self._lock:
            sender = self._senders.get(name)
            if sender is None:
                sender = self._senders[name] = _Sender()
            if sender.queue or len(sender.turns) >= MAX_TURNS:
                sender.queue.append(work)
                self._tick_soon()
                return
            sender.turns[turn] = now
        self._threads.run(partial(self._run_turns, name, sender, turn, work))

    def _run_turns(self, name: str, sender: _Sender, turn: object, work: Work) -> None:
        """Run work, and then the waiting requests of its sender, on this thread."""
        waiting: Work | None = work
        while waiting is not None:
            begun = time.thread_time()
            run_logged(waiting)
            now, used = time.monotonic(), time.thread_time() - begun
            with self._lock:
                sender.turns.pop(turn, None)
                sender.used += used
                waiting = self._begin_next(name, sender, turn, now)
                # A later request of the sender has a new object when this one was removed while a long request ran.
                if self._senders.get(name) is sender and not sender.queue and not sender.turns:
                    del self._senders[name]

    def _begin_next(self, name: str, sender: _Sender, turn: object, now: float) -> Work | None:
        """Begin a turn with the first waiting request; None without one, and for a sender without a turn now."""
        if not sender.queue or len(sender.turns) >= MAX_TURNS:
            return None
        if self._is_shared(name, now):
            if sender.used >= SLICE_SECONDS:
                sender.rests_until, sender.used = now + sender.used * REST_FACTOR, 0.0
            if sender.rests_until > now:
                return None
        sender.turns[turn] = now
        return sender.queue.popleft()

    def _is_shared(self, name: str, now: float) -> bool:
        """Whether another sender is active."""
        return now - (self._other_at if name == self._latest else self._latest_at) < OTHERS_SECONDS

    def _tick_soon(self) -> None:
        """Have the loop look at the queues soon. The caller holds the lock."""
        if not self._ticks:
            self._ticks = True
            self._loop.call(self._tick_later)

    def _tick_later(self) -> None:
        asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        """On the loop: end long turns, and begin waiting requests on further threads."""
        now, begun = time.monotonic(), []
        with self._lock:
            for name, sender in self._senders.items():
                if not sender.queue:
                    continue
                long = [turn for turn, at in sender.turns.items() if now - at >= TURN_SECONDS]
                for turn in long:
                    del sender.turns[turn]
                    sender.used += SLICE_SECONDS  # the request works elsewhere, for example in a process of a tool
                while (work := self._begin_next(name, sender, turn := object(), now)) is not None:
                    begun.append(partial(self._run_turns, name, sender, turn, work))
            self._ticks = any(sender.queue for sender in self._senders.values())
            if self._ticks:
                self._tick_later()
        for work in begun:
            self._threads.start(work)
