"""Calls of an inline definition; those of quick functions run on the calling thread, which saves two hand-offs.

A function of an inline definition is called directly when it cannot wait for anything outside Python (`blocking.py`)
and its last `MIN_QUICK_CALLS` calls on a runner thread were quick and emitted nothing before their end. All others run
on runner threads, and so does a function after one of its direct calls took longer than `SLOW_SECONDS`. A watchdog
checks the direct calls: it raises `Stopped` in one that is past its deadline, cancelled, or still running when the hub
ends. A direct call yields no Pause; its answer is never streamed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextvars import Context
from functools import partial
from typing import Any
from weakref import WeakSet

from patchbay.activation import PAUSE, Call, Events, Handler, ended_itself
from patchbay.background import BackgroundLoop
from patchbay.errors import ToolFailed
from patchbay.events import Event
from patchbay.kinds.python.definitions import Definition, definition_of
from patchbay.kinds.python.functions import attaching, call_function, emit_value, list_events, run_function
from patchbay.raised.exceptions import attach_raised
from patchbay.threads.interrupts import Stopped, raise_in
from patchbay.threads.runner_threads import RunnerCall

MIN_QUICK_CALLS = 32
"""Number of quick calls in a row after which a function is called directly."""

QUICK_SECONDS, SLOW_SECONDS = 0.01, 0.1
"""Maximum seconds of a quick call; age from which the watchdog measures the work of a direct call."""

WORK_SECONDS = 0.03
"""Processor time, measured from then on, that makes a direct call slow; waiting for a processor does not."""

PENALTY_CALLS = 1000
"""Additional calls that a slow function must make on runner threads."""

MAX_DIRECT_CALLS = 2
"""Maximum direct calls of one function at a time, and thereby threads of the web server that it occupies."""

MIN_LEFT_SECONDS = 0.25
"""Seconds that a call must have left: the watchdog ends it up to TICK_SECONDS after its deadline."""

TICK_SECONDS, AGAIN_SECONDS = 0.05, 1.0
"""Seconds between two checks of the watchdog; between two `Stopped` in one call that catches them."""

MAX_IDLE_TICKS = 40
"""Checks without a direct call after which the watchdog ends."""


class CallSlot:
    """A slot for one direct call: the call, its start, and its thread.

    `interrupting` is true while the watchdog decides; `raised` is when it last raised `Stopped` in the thread, or 0.
    `measured` is the call's beginning and the processor time of its thread at the first look that found it old.
    """

    __slots__ = ("__weakref__", "begun", "call", "history", "interrupting", "measured", "raised", "thread", "watched")

    def __init__(self, history: FunctionHistory) -> None:
        self.history = history
        self.call: Call | None = None
        self.begun = 0.0
        self.thread = 0
        self.interrupting = False
        self.raised = 0.0
        self.watched = False
        self.measured = (0.0, 0.0)

    def leave(self) -> None:
        """End the call on this thread. No `Stopped` comes after this."""
        self.call = None
        if self.interrupting or self.raised:
            self._settle()

    def interrupt(self, call: Call, now: float) -> None:
        """Raise `Stopped` in the thread of this call, unless it has ended or was interrupted a moment ago."""
        self.interrupting = True
        try:
            if self.call is call and now - self.raised > AGAIN_SECONDS:
                self.raised = now
                raise_in(self.thread, Stopped)
        finally:
            self.interrupting = False

    def is_slow(self, call: Call) -> bool:
        """Whether this call is old and its thread works on it. Its thread does not end meanwhile."""
        self.interrupting = True
        try:
            if self.call is not call:
                return False
            spent = _processor_seconds(self.thread)
            if self.measured[0] != self.begun:
                self.measured = (self.begun, spent)
            return spent - self.measured[1] > WORK_SECONDS
        finally:
            self.interrupting = False

    def _settle(self) -> None:
        """Wait until the watchdog has decided, and cancel a pending `Stopped`."""
        while self.interrupting:
            time.sleep(0.001)
        raise_in(self.thread, None)
        self.raised = 0.0


class FunctionHistory:
    """The speed of one function's calls, and the slots of its direct calls."""

    def __init__(self, may_be_direct: bool) -> None:
        self.places = [CallSlot(self) for _ in range(MAX_DIRECT_CALLS)] if may_be_direct else []
        self.quick_calls = 0

    def note(self, seconds: float, job: RunnerCall) -> None:
        """Count a call that has ended on a runner thread."""
        if job.room is not None or job.loop is not None:
            self.quick_calls = -PENALTY_CALLS
        elif seconds <= QUICK_SECONDS or self.quick_calls < 0:
            self.quick_calls += 1
        else:
            self.quick_calls = 0

    def enter(self, call: Call) -> CallSlot | None:
        """Return a slot for a direct call on this thread; None when the call must go to a runner thread."""
        if self.quick_calls < MIN_QUICK_CALLS:
            return None
        now = time.monotonic()
        if call.deadline - now < MIN_LEFT_SECONDS:
            return None
        try:
            place = self.places.pop()
        except IndexError:
            return None
        place.begun = now
        place.thread = threading.get_ident()
        WATCHDOG.wake(place)
        return place


class Watchdog:
    """The thread that ends direct calls after their deadline. It runs while there are any."""

    def __init__(self) -> None:
        self._places: WeakSet[CallSlot] = WeakSet()
        self._awake = False
        self._begun = 0
        self._idle, self._seen = 0, -1
        self._lock = threading.Lock()
        failure = "a direct call could not be watched"
        self._loop = BackgroundLoop(
            "watchdog of direct calls", self._watch, failure, retry_seconds=TICK_SECONDS, first_after=TICK_SECONDS
        )

    def wake(self, place: CallSlot) -> None:
        """Watch a direct call that begins in this slot."""
        self._begun += 1
        if not (self._awake and place.watched):
            self._start(place)

    def _start(self, place: CallSlot) -> None:
        with self._lock:
            place.watched = True
            self._places.add(place)
            if self._awake:
                return
            self._awake = True
            self._loop.start()

    def _watch(self) -> float | None:
        """Check the calls that run; return the seconds until the next check, None after a while without calls."""
        with self._lock:
            busy = [place for place in self._places if place.call is not None]
            if busy or self._seen != self._begun:
                self._idle, self._seen = 0, self._begun
            else:
                self._idle += 1
            is_idle = self._idle > MAX_IDLE_TICKS
            if is_idle:
                self._awake = False
        for place in busy:
            self._check_call(place, place.call)
        return None if is_idle and not self._goes_on() else TICK_SECONDS

    def _goes_on(self) -> bool:
        """Whether a call began while this thread decided to end, and no other thread watches it."""
        with self._lock:
            if self._awake or not any(place.call is not None for place in self._places):
                return False
            self._awake = True
            return True

    def _check_call(self, place: CallSlot, call: Call | None) -> None:
        if call is None:
            return
        now = time.monotonic()
        if now - place.begun > SLOW_SECONDS and place.is_slow(call):
            place.history.quick_calls = -PENALTY_CALLS
        if call.cancelled or now >= call.deadline or (call.hub is not None and call.hub.over()):
            place.interrupt(call, now)


WATCHDOG = Watchdog()


class DirectCalls:
    """The calls of one inline definition: directly where that is safe, else on a runner thread."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._histories: dict[str, FunctionHistory] = {}

    def run(self, call: Call) -> Events:
        """Yield the events of a call. Raises the function's errors, and ToolFailed."""
        history = self._histories.get(call.target.get("function", "main"))
        place = history.enter(call) if history is not None else None
        if place is None:
            yield from self._definition.pool.run(lambda job: self._timed(call, job), call)
            return
        outcome = _outcome(place, self._definition, call)
        place.history.places.append(place)
        if isinstance(outcome, list):
            yield from outcome
        elif outcome is None:
            yield PAUSE  # `activate` then checks why the call was interrupted
            raise ToolFailed("the call was interrupted")
        elif isinstance(outcome, _Unfinished):
            place.history.quick_calls = -PENALTY_CALLS
            value = outcome.value
            finish = partial(attaching, self._definition, emit_value, value, call)
            yield from self._definition.pool.run(finish, call)
        else:
            raise outcome

    def _timed(self, call: Call, job: RunnerCall) -> list[Event]:
        """Run the call on a runner thread and measure it."""
        begun = time.monotonic()
        events = attaching(self._definition, run_function, self._definition, call, job)
        took = time.monotonic() - begun
        name = call.target.get("function", "main")
        history = self._histories.get(name)
        if history is None:
            history = self._histories[name] = FunctionHistory(self._definition.is_pure(name))
        history.note(took, job)
        return events


class _Unfinished:
    """The result of a function that must be awaited or iterated, on a runner thread."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _outcome(place: CallSlot, definition: Definition, call: Call) -> list[Event] | _Unfinished | Exception | None:
    """Return the end of a direct call: its events, its exception, an unfinished value, or None when interrupted."""
    try:
        return _guarded(place, definition, call)
    except Stopped:  # it was raised just after the end of the call
        place.leave()
        return None


def _guarded(place: CallSlot, definition: Definition, call: Call) -> list[Event] | _Unfinished | Exception | None:
    try:
        place.call = call  # `Stopped` may come from here on
        return Context().run(_call, definition, call)
    except Stopped:
        return None
    except Exception as problem:
        attach_raised(problem, definition.find_raised(problem))
        return problem
    except BaseException as problem:
        attach_raised(problem, definition.find_raised(problem))
        return ended_itself(problem)
    finally:
        place.leave()


def _call(definition: Definition, call: Call) -> list[Event] | _Unfinished:
    value = call_function(definition, call, None)
    if not isinstance(value, str) and isinstance(value, (Awaitable, AsyncIterator, Iterator)):
        return _Unfinished(value)
    return list_events(value, call)


def _processor_seconds(thread: int) -> float:
    """Return the processor time of a live thread in seconds; the monotonic time where the system has no such clock."""
    if sys.platform == "darwin" or sys.platform == "win32":
        return time.monotonic()
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


def python_handler(source: bytes, cid: str, name: str) -> Handler:
    """Return the handler of the functions of an inline definition. The first call compiles the definition.

    `target["function"]` names the function; arguments are passed by keyword. A crash ends the hub process.

    The handler raises the function's errors, and ToolFailed when the definition cannot be loaded, the arguments do not
    fit, or all threads are busy.
    """
    return DirectCalls(definition_of(source, cid, name)).run
