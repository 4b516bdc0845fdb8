"""Quick functions on the calling thread: when they run there, and how they are ended."""

from __future__ import annotations

import threading
import time

import pytest

from patchbay.activation import Call, CancelFlag, Events, activate
from patchbay.cid import cid_of
from patchbay.events import Data, Done, Event, Failed, Text
from patchbay.kinds.python import direct_calls
from patchbay.kinds.python.definitions import Definition
from patchbay.kinds.python.direct_calls import MAX_DIRECT_CALLS, MIN_QUICK_CALLS, DirectCalls, FunctionHistory
from patchbay.threads.interrupts import Stopped, raise_in
from tests.kinds.calls import call_of
from tests.waiting import until

LOOP = "def main(n=0):\n    while n:\n        n += 1\n    return 'x'"


class Inline:
    """A definition as the hub runs it inside. `close_pool` removes its runner threads."""

    def __init__(self, source: str) -> None:
        self.definition = Definition(source.encode(), cid_of(source.encode()), "tool")
        self.calls = DirectCalls(self.definition)

    def events(self, call: Call) -> list[Event]:
        return list(activate(self.calls.run, call))

    def warm(self) -> Inline:
        """Make enough quick calls for the function to count as quick, on a busy machine too."""
        until(lambda: bool(self.events(call_of())) and self.history.quick_calls >= MIN_QUICK_CALLS)
        return self

    @property
    def history(self) -> FunctionHistory:
        return self.calls._histories["main"]

    def close_pool(self) -> Inline:
        self.definition.pool.limit = 0
        self.definition.pool.idle.clear()
        self.definition.pool._runners.clear()
        return self


def test_a_quick_function_runs_on_the_calling_thread() -> None:
    tool = Inline(LOOP).warm().close_pool()
    assert tool.events(call_of()) == [Text("x"), Done()]


@pytest.mark.parametrize(
    "source",
    [
        "import time\ndef main(): return time.sleep(0)",
        "def main(context): return 'x'",
        "from datetime import date\ndef main(day: date = date(2020, 1, 1)): return 'x'",
    ],
)
def test_any_other_function_stays_on_runner_threads(source: str) -> None:
    """X2: a function that may wait, emit or use its own values blocks no thread of the web server."""
    tool = Inline(source).warm().close_pool()
    (failed,) = tool.events(call_of())
    assert isinstance(failed, Failed)
    assert "is busy" in failed.message


def test_the_watchdog_ends_a_call_at_its_deadline_and_then_the_function_counts_as_slow() -> None:
    """T12.5: on the calling thread too, the timeout is named."""
    tool = Inline(LOOP).warm().close_pool()
    (failed,) = tool.events(call_of({"n": 1}, left=0.5))
    assert isinstance(failed, Failed)
    assert failed.message.startswith("timed out after")
    assert tool.history.quick_calls < 0
    assert len(tool.history.places) == 2


def test_a_call_that_waits_for_a_processor_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN 10: a busy machine does not take the quick way from a quick function."""
    monkeypatch.setattr(direct_calls, "_processor_seconds", lambda _: 1.0)
    tool = Inline(LOOP).warm().close_pool()
    (failed,) = tool.events(call_of({"n": 1}, left=0.5))
    assert isinstance(failed, Failed)
    assert tool.history.quick_calls >= MIN_QUICK_CALLS


def test_the_watchdog_ends_a_call_that_is_cancelled() -> None:
    """X-19: cancellation reaches a call on the calling thread."""
    tool, flag = Inline(LOOP).warm().close_pool(), CancelFlag()
    call = call_of({"n": 1})
    call.cancelled = flag
    threading.Timer(0.2, flag.set, ["enough"]).start()
    assert tool.events(call) == [Failed("cancelled: enough")]


def test_a_call_that_is_running_directly_leaves_the_others_to_runner_threads() -> None:
    """X2: a function occupies two calling threads at most."""
    tool = Inline(LOOP).warm()
    flags = [CancelFlag() for _ in range(4)]
    endings: list[list[Event]] = []

    def run(flag: CancelFlag) -> None:
        call = call_of({"n": 1}, left=60)
        call.cancelled = flag
        endings.append(tool.events(call))

    threads = [threading.Thread(target=run, args=(flag,)) for flag in flags]
    for thread in threads:
        thread.start()
    pool, places = tool.definition.pool, tool.history.places
    # Fewer run directly when a thread begins so late that the first call is known to be slow.
    until(
        lambda: sum(runner.job is not None for runner in pool._runners) == len(threads) - MAX_DIRECT_CALLS + len(places)
    )
    for flag in flags:
        flag.set("enough")
    for thread in threads:
        thread.join(60)
    assert [ending[-1] for ending in endings] == [Failed("cancelled: enough")] * 4


def test_a_call_with_little_time_left_goes_to_a_runner_thread() -> None:
    tool = Inline(LOOP).warm().close_pool()
    (failed,) = tool.events(call_of(left=0.1))
    assert isinstance(failed, Failed)


def test_a_function_that_returns_an_iterator_once_streams_it() -> None:
    """SUB-C4: a yielded value goes out before the next one is made."""
    tool = Inline("def main(n=0): return map(str, range(n)) if n else 'x'").warm()
    assert tool.events(call_of({"n": 2})) == [Text("0"), Text("1"), Done()]
    assert tool.history.quick_calls < 0


@pytest.mark.parametrize(
    ("body", "said"),
    [("return 1 // n", Failed("ZeroDivisionError: integer division or modulo by zero")), ("return [n]", Data([0]))],
)
def test_a_direct_call_ends_as_one_on_a_runner_thread_does(body: str, said: Event) -> None:
    tool = Inline(f"def main(n=1):\n    {body}").warm().close_pool()
    assert tool.events(call_of({"n": 0}))[0] == said


def test_an_interruption_never_reaches_code_after_the_call() -> None:
    """X-19: `Stopped` comes inside the call or not at all, whenever the watchdog decides."""
    tool = Inline(LOOP).warm().close_pool()
    places, over, leaks = list(tool.history.places), threading.Event(), list[BaseException]()

    def interrupt() -> None:
        while not over.is_set():
            for place in places:
                call = place.call
                if call is not None:
                    place.interrupt(call, time.monotonic())

    def run() -> None:
        try:
            for _ in range(1000):
                tool.history.quick_calls = MIN_QUICK_CALLS
                tool.events(call_of())
                sum(range(50))
        except BaseException as problem:
            leaks.append(problem)

    breaker, runner = threading.Thread(target=interrupt), threading.Thread(target=run)
    breaker.start()
    runner.start()
    runner.join(60)
    over.set()
    breaker.join(60)
    assert leaks == []
    assert not issubclass(Stopped, Exception)
    assert len(tool.history.places) == 2


def test_a_call_that_ends_while_the_watchdog_decides_takes_the_interruption_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X-19: the call returns only after the watchdog has decided; no `Stopped` is pending then."""
    tool = Inline(LOOP).warm().close_pool()
    place = tool.history.places[-1]

    def decide() -> None:
        until(lambda: place.call is None)
        raise_in(place.thread, Stopped)
        place.raised = time.monotonic()
        place.interrupting = False

    decider = threading.Thread(target=decide)

    def call_function(*_: object) -> list[Event]:
        place.interrupting = True
        decider.start()
        return [Text("x"), Done()]

    monkeypatch.setattr(direct_calls, "_call", call_function)
    ended = tool.events(call_of())
    decider.join(60)
    assert isinstance(ended[-1], (Done, Failed))
    assert sum(range(1000)) == 499500


def test_closing_the_events_after_a_direct_call_gives_its_place_back() -> None:
    tool = Inline(LOOP).warm()
    running: Events = activate(tool.calls.run, call_of())
    next(running)
    running.close()
    assert len(tool.history.places) == 2
