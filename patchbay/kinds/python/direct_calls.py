"""Calls of quick functions on the thread that asks for them, which saves two hand-offs between threads.

A function of an inline definition is called directly when it cannot wait for anything outside Python (`blocking.py`)
and its last `MIN_QUICK_CALLS` calls on a runner thread were quick and said nothing before their end. All others go to
runner threads, as does a function from the moment on that one of its direct calls takes longer than `SLOW_SECONDS`.
A watchdog looks at the direct calls: it raises `Stopped` in one that is past its deadline, cancelled, or left over when
the hub ends. A direct call gives no Pause; its answer is never streamed.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextvars import Context
from typing import Any
from weakref import WeakSet

from patchbay.activation import PAUSE, Call, Events, described
from patchbay.errors import ToolFailed
from patchbay.events import Event
from patchbay.kinds.python.blocking import may_block
from patchbay.kinds.python.definitions import Definition
from patchbay.kinds.python.functions import call_function, emit_value, events_of_value
from patchbay.kinds.python.runner_threads import RunnerCall, Stopped

MIN_QUICK_CALLS = 32
"""Quick calls in a row after which a function is called directly."""

QUICK_SECONDS, SLOW_SECONDS = 0.01, 0.1
"""How long a quick call takes at most; from when on a direct call counts as slow."""

PENALTY_CALLS = 1000
"""Calls that a function has to make on runner threads, more than the others, after it was slow."""

MAX_DIRECT_CALLS = 2
"""Direct calls of one function at a time: so many threads of the web server it may hold at most."""

MIN_LEFT_SECONDS = 0.25
"""Seconds that a call has to have left: the watchdog ends it up to TICK_SECONDS after its deadline."""

TICK_SECONDS, AGAIN_SECONDS = 0.05, 1.0
"""Seconds between two looks of the watchdog; between two `Stopped` in one call that catches them."""

MAX_IDLE_TICKS = 40
"""Looks without a direct call after which the watchdog sleeps."""


class Place:
    """Room for one direct call: what runs there, since when, and on which thread.

    `interrupting` is true while the watchdog decides; `raised` is when it last raised `Stopped` in the thread, or 0.
    """

    __slots__ = ("__weakref__", "begun", "call", "history", "interrupting", "raised", "thread", "watched")

    def __init__(self, history: FunctionHistory) -> None:
        self.history = history
        self.call: Call | None = None
        self.begun = 0.0
        self.thread = 0
        self.interrupting = False
        self.raised = 0.0
        self.watched = False

    def leave(self) -> None:
        """The call on this thread has ended. No `Stopped` comes after this."""
        self.call = None
        if self.interrupting or self.raised:
            self._settle()

    def interrupt(self, call: Call, now: float) -> None:
        """Raise `Stopped` in the thread of this call, unless it has ended or was interrupted a moment ago."""
        self.interrupting = True
        try:
            if self.call is call and now - self.raised > AGAIN_SECONDS:
                self.raised = now
                _raise_in(self.thread, Stopped)
        finally:
            self.interrupting = False

    def _settle(self) -> None:
        """Wait until the watchdog has decided, and take back a `Stopped` that has not come yet."""
        while self.interrupting:
            time.sleep(0.001)
        _raise_in(self.thread, None)
        self.raised = 0.0


class FunctionHistory:
    """How quick the calls of one function were, and the places for its direct calls."""

    def __init__(self, may_be_direct: bool) -> None:
        self.places = [Place(self) for _ in range(MAX_DIRECT_CALLS)] if may_be_direct else []
        self.quick_calls = 0

    def note(self, seconds: float, job: RunnerCall) -> None:
        """Count a call that has ended on a runner thread."""
        if job.room is not None or job.loop is not None:
            self.quick_calls = -PENALTY_CALLS
        elif seconds <= QUICK_SECONDS or self.quick_calls < 0:
            self.quick_calls += 1
        else:
            self.quick_calls = 0

    def enter(self, call: Call) -> Place | None:
        """A place for a direct call on this thread; None when it has to go to a runner thread."""
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
    """The thread that ends direct calls that are over their time. It runs while there are any."""

    def __init__(self) -> None:
        self._places: WeakSet[Place] = WeakSet()
        self._awake = False
        self._begun = 0
        self._lock = threading.Lock()

    def wake(self, place: Place) -> None:
        """A direct call begins at this place."""
        self._begun += 1
        if not (self._awake and place.watched):
            self._start(place)

    def _start(self, place: Place) -> None:
        with self._lock:
            place.watched = True
            self._places.add(place)
            if self._awake:
                return
            self._awake = True
            threading.Thread(target=self._watch, name="watchdog of direct calls", daemon=True).start()

    def _watch(self) -> None:
        idle, seen = 0, -1
        while True:
            time.sleep(TICK_SECONDS)
            with self._lock:
                busy = [place for place in self._places if place.call is not None]
                idle, seen = (0, self._begun) if busy or seen != self._begun else (idle + 1, seen)
                if idle > MAX_IDLE_TICKS:
                    self._awake = False
            for place in busy:
                self._look(place, place.call)
            if idle > MAX_IDLE_TICKS and not self._goes_on():
                return

    def _goes_on(self) -> bool:
        """Whether a call began while this thread decided to end, and no other watches it."""
        with self._lock:
            if self._awake or not any(place.call is not None for place in self._places):
                return False
            self._awake = True
            return True

    def _look(self, place: Place, call: Call | None) -> None:
        if call is None:
            return
        now = time.monotonic()
        if now - place.begun > SLOW_SECONDS:
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
        """The events of a call. Raises what the function raises, and ToolFailed."""
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
            yield PAUSE  # `activate` looks at once why the call was interrupted
            raise ToolFailed("the call was interrupted")
        elif isinstance(outcome, _Unfinished):
            place.history.quick_calls = -PENALTY_CALLS
            value = outcome.value
            yield from self._definition.pool.run(lambda job: emit_value(value, call, job), call)
        else:
            raise outcome

    def _timed(self, call: Call, job: RunnerCall) -> list[Event]:
        """On a runner thread: the call, and how long it took."""
        begun = time.monotonic()
        value = call_function(self._definition, call, job)
        events = emit_value(value, call, job)
        took = time.monotonic() - begun
        name = call.target.get("function", "main")
        history = self._histories.get(name)
        if history is None:
            history = self._histories[name] = FunctionHistory(self._may_be_direct(name))
        history.note(took, job)
        return events

    def _may_be_direct(self, name: str) -> bool:
        function = self._definition.function(name)
        return function.is_plain and not may_block(function.call)


class _Unfinished:
    """What a function returned that has to be waited for: the rest is done on a runner thread."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _outcome(place: Place, definition: Definition, call: Call) -> list[Event] | _Unfinished | Exception | None:
    """How a direct call ends: its last events, what it raised, what is left to do, or None when it was interrupted."""
    try:
        return _guarded(place, definition, call)
    except Stopped:  # it came when the call had just ended
        place.leave()
        return None


def _guarded(place: Place, definition: Definition, call: Call) -> list[Event] | _Unfinished | Exception | None:
    try:
        place.call = call  # `Stopped` may come from here on
        return Context().run(_call, definition, call)
    except Stopped:
        return None
    except Exception as problem:
        return problem
    except BaseException as problem:
        return ToolFailed(f"the tool ended itself: {described(problem)}")
    finally:
        place.leave()


def _call(definition: Definition, call: Call) -> list[Event] | _Unfinished:
    value = call_function(definition, call, None)
    if not isinstance(value, str) and isinstance(value, (Awaitable, AsyncIterator, Iterator)):
        return _Unfinished(value)
    return list(events_of_value(value, call))


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raise an exception in a thread at its next Python instruction; None takes back one that has not come yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(kind) if kind is not None else None
    )
