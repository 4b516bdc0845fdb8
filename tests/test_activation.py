"""One run of one call: the one ending, the deadline, the cancellation, the answers."""

from __future__ import annotations

import threading
import time
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.activation import (
    FIRST_PAUSE_SECONDS,
    NEXT_PAUSE,
    PAUSE,
    Call,
    CancelFlag,
    Cancelled,
    Events,
    Handler,
    activate,
    described,
    pauses,
    share_time_limits,
)
from patchbay.errors import MissingCapability, ReadOnly, ResourceNotFound, ToolFailed
from patchbay.events import Ask, Detach, Done, Event, Failed, Log, Progress, Question, Text


def call_of(left: float = 20.0, **more: Any) -> Call:
    return Call("tool", {}, {}, time.monotonic() + left, **more)


def saying(*events: Event) -> Any:
    def handle(call: Call) -> Events:
        yield from events

    return handle


def raising(problem: BaseException, *events: Event) -> Any:
    def handle(call: Call) -> Events:
        yield from events
        raise problem

    return handle


plain = st.one_of(
    st.text().map(Text),
    st.just(PAUSE),
    st.builds(Log, st.just("info"), st.text()),
    st.integers(0, 9).map(Progress),
)
endings = st.one_of(st.just(None), st.just(Done()), st.text().map(Failed), st.text().map(ToolFailed))


@given(st.lists(plain), endings)
def test_every_activation_has_exactly_one_ending_and_it_comes_last(
    said: list[Event], end: Done | Failed | ToolFailed | None
) -> None:
    """SUB-C6: whatever a handler does, the grammar holds."""
    handler = raising(end, *said) if isinstance(end, ToolFailed) else saying(*said, *([end] if end else []))
    seen = list(activate(handler, call_of()))
    assert [isinstance(event, (Done, Failed)) for event in seen] == [False] * (len(seen) - 1) + [True]
    assert [event for event in seen if isinstance(event, Text)] == [event for event in said if isinstance(event, Text)]


def test_events_after_the_last_event_of_a_handler_are_ignored() -> None:
    assert list(activate(saying(Text("a"), Done(), Text("b")), call_of())) == [Text("a"), Done()]


def test_a_raised_exception_is_reported_by_type_and_message_after_the_partial_output() -> None:
    """T5.5: a raising tool fails with its message; its earlier output stays."""
    seen = list(activate(raising(ValueError("no such colour"), Text("so far")), call_of()))
    assert seen == [Text("so far"), Failed("ValueError: no such colour")]


def test_mask_hides_the_message_of_an_accident_but_not_of_a_refusal() -> None:
    assert list(activate(raising(ValueError("secret")), call_of(), mask=True)) == [Failed("the tool failed")]
    assert list(activate(raising(ToolFailed("too big")), call_of(), mask=True)) == [Failed("too big")]


def test_a_missing_capability_is_kept_as_the_error_of_the_ending() -> None:
    problem = MissingCapability({"sampling": {}})
    assert list(activate(raising(problem), call_of())) == [Failed(problem.message, problem)]


def test_another_error_of_the_hub_is_the_tools_failure() -> None:
    assert list(activate(raising(ReadOnly("not here")), call_of())) == [Failed("not here")]


def test_a_missing_resource_says_so_to_those_who_read_one() -> None:
    (event,) = activate(raising(ResourceNotFound("cid://x")), call_of())
    assert isinstance(event, Failed) and event.message == "no such resource: cid://x"
    assert isinstance(event.error, ResourceNotFound)


def test_a_handler_that_pauses_past_its_deadline_is_timed_out() -> None:
    """T12.5: the failure names the timeout."""
    seen = list(activate(saying(PAUSE, PAUSE), call_of(left=0.0)))
    assert len(seen) == 1
    assert isinstance(seen[0], Failed)
    assert seen[0].message.startswith("timed out after")


def test_a_cancelled_call_ends_at_the_next_event_with_the_reason() -> None:
    """X-19: cancellation reaches every handler through its own events."""
    call = call_of()
    running = activate(saying(Text("a"), PAUSE, Text("b")), call)
    assert next(running) == Text("a")
    call.cancelled.set("no longer needed")
    assert list(running) == [Failed("cancelled: no longer needed")]


def test_closing_the_activation_cancels_the_call_and_closes_the_handler() -> None:
    closed: list[bool] = []

    def handle(call: Call) -> Events:
        try:
            yield Text("a")
            yield Text("b")
        finally:
            closed.append(bool(call.cancelled))

    call = call_of()
    running = activate(handle, call)
    next(running)
    running.close()
    assert closed == [True]
    assert call.cancelled.reason == "the caller disconnected"


def test_the_end_of_an_activation_inside_another_one_cancels_nothing() -> None:
    call = call_of()
    inner = activate(lambda given: iter_events(Text("a")), call)
    assert list(activate(lambda given: inner, call)) == [Text("a"), Done()]
    assert list(activate(lambda given: activate(lambda one: iter_events(Done()), given), call)) == [Done()]
    assert not call.cancelled


def test_a_changed_call_keeps_every_field_but_those_that_are_named() -> None:
    changed: dict[str, Any] = {
        "server": "b",
        "target": {"f": 1},
        "arguments": {"a": 1},
        "capabilities": {"c": 1},
        "chain": ("x",),
        "shown": "s.t",
    }
    values = {field.name: object() for field in fields(Call)}
    call = Call(**values)  # type: ignore[arg-type]
    copied = call.changed(**changed)
    assert {name: getattr(copied, name) for name in values} == values | changed
    assert {name: getattr(call, name) for name in values} == values


def iter_events(*events: Event) -> Events:
    yield from events


def test_an_answer_reaches_the_handler_even_when_it_is_empty() -> None:
    def handle(call: Call) -> Events:
        answer = yield Ask({"name": Question("roots/list", {})})
        yield Text(repr(answer))

    running = activate(handle, call_of())
    assert isinstance(next(running), Ask)
    assert running.send({}) == Text("{}")
    assert list(running) == [Done()]


def test_progress_that_does_not_grow_is_left_out() -> None:
    steps = (Progress(1), Progress(1), Progress(0.5), Progress(2), Progress(2, message="nearly"))
    assert list(activate(saying(*steps), call_of())) == [steps[0], steps[3], Done()]


def test_the_first_silence_is_short_the_later_ones_longer() -> None:
    waits = pauses(call_of(left=100))
    assert [next(waits), next(waits), next(waits)] == [FIRST_PAUSE_SECONDS, NEXT_PAUSE, NEXT_PAUSE]


def test_no_silence_is_longer_than_the_deadline_allows() -> None:
    assert 0 < next(pauses(call_of(left=0.1))) <= 0.1
    assert next(pauses(call_of(left=0))) == 0.001


def test_a_cancel_flag_wakes_who_waits_and_keeps_its_first_reason() -> None:
    flag = CancelFlag()
    assert not flag
    assert not flag.wait(0.001)
    thread = threading.Thread(target=flag.set, args=("first",))
    thread.start()
    assert flag.wait(20)
    thread.join()
    flag.set("second")
    assert flag
    assert flag.reason == "first"


def test_a_flag_set_before_anyone_waits_wakes_at_once() -> None:
    flag = CancelFlag()
    flag.set()
    assert flag.wait(20)


def test_time_left_is_never_negative() -> None:
    assert call_of(left=-5).left() == 0.0
    assert 0 < call_of(left=5).left() <= 5


def test_an_exception_is_described_without_its_trace() -> None:
    assert described(KeyError("x")) == "KeyError: 'x'"
    assert described(ValueError()) == "ValueError"


def test_a_handler_that_raises_cancelled_itself_fails_with_its_words() -> None:
    assert list(activate(raising(Cancelled("stopped by hand")), call_of())) == [Failed("stopped by hand")]


def test_an_interrupt_passes_through_and_closes_the_handler() -> None:
    with pytest.raises(KeyboardInterrupt):
        list(activate(raising(KeyboardInterrupt()), call_of()))


class Mute(Exception):
    """One of an author's own that cannot be shown."""

    def __str__(self) -> str:
        return str(self.args[7])


def test_an_exception_without_a_message_is_reported_by_its_name() -> None:
    assert list(activate(raising(Mute("x")), call_of())) == [Failed("Mute")]


def test_a_failure_may_be_made_of_another_exception() -> None:
    assert list(activate(raising(ToolFailed(ValueError("no"))), call_of())) == [Failed("no")]  # type: ignore[arg-type]


def test_progress_gives_a_call_its_limit_without_progress_again() -> None:
    """The deadline is over when the progress comes; the next silence is measured from there."""
    call = call_of(-1, progress_seconds=20.0, extra_seconds=100.0)
    events = list(activate(saying(Progress(1), PAUSE, Text("done")), call))
    assert events[-1] == Done() and 70 < call.extra_seconds < 80 and call.has_progress
    assert 0 < call.left() <= 20


def test_progress_that_does_not_increase_gives_no_time() -> None:
    """MCP, basic/utilities/progress: the value increases with each notification."""
    call = call_of(20, progress_seconds=20.0, extra_seconds=100.0)

    def handle(call: Call) -> Events:
        yield Progress(2)
        call.deadline = time.monotonic() - 1
        yield Progress(2)
        yield PAUSE

    *_, last = activate(handle, call)
    assert isinstance(last, Failed) and last.message.endswith(": it reported no progress for 20 s")


def test_a_call_with_progress_ends_at_its_limit_in_all() -> None:
    call = call_of(-5, progress_seconds=20.0, extra_seconds=3.0)
    *_, last = activate(saying(Progress(1), PAUSE, Text("done")), call)
    assert isinstance(last, Failed) and last.message.endswith("its limit in all (progress_timeout)")


def test_progress_never_shortens_a_longer_deadline() -> None:
    """Such as that of a task, or of a call that waited for an approval."""
    call = call_of(3600, progress_seconds=20.0, extra_seconds=100.0)
    before = call.deadline
    list(activate(saying(Progress(1)), call))
    assert (call.deadline, call.extra_seconds) == (before, 100.0)


def shared(outer: Call, handler: Handler) -> Events:
    """The events of a call of a toolset, whose origin runs this handler."""
    inner = outer.changed(server="origin", chain=("origin.main",), shown="tool.main")
    return activate(lambda call: share_time_limits(call, inner, activate(handler, inner)), outer)


def test_more_time_for_a_call_of_a_toolset_holds_for_its_origin() -> None:
    call, left = call_of(20), list[float]()

    def handle(inner: Call) -> Events:
        yield Detach()
        left.append(inner.left())

    for event in shared(call, handle):
        if isinstance(event, Detach):
            call.deadline += 3600
    assert left[0] > 3000


def test_more_time_for_an_origin_while_it_waits_for_a_person_holds_for_the_call_of_the_toolset() -> None:
    call = call_of(-1)

    def handle(inner: Call) -> Events:
        inner.deadline += 600
        yield PAUSE
        yield Text("signed in")

    assert list(shared(call, handle)) == [PAUSE, Text("signed in"), Done()]
    assert call.left() > 500


def test_progress_of_an_origin_gives_the_call_of_the_toolset_its_limit_again_once() -> None:
    call = call_of(-1, progress_seconds=20.0, extra_seconds=100.0)
    assert list(shared(call, saying(Progress(1), PAUSE, Text("done"))))[-1] == Done()
    assert 70 < call.extra_seconds < 80 and call.has_progress and 0 < call.left() <= 20


def test_an_answer_and_the_end_reach_an_origin_through_shared_time_limits() -> None:
    got = list[Any]()

    def handle(inner: Call) -> Events:
        try:
            got.append((yield Ask({})))
            yield Text("more")
        finally:
            got.append("closed")

    events = shared(call_of(20), handle)
    next(events)
    assert events.send({"name": "Ann"}) == Text("more")
    events.close()
    assert got == [{"name": "Ann"}, "closed"]


def test_a_call_inside_another_one_ends_with_it_also_with_progress() -> None:
    outer, call = call_of(20), call_of(30, progress_seconds=30.0, extra_seconds=100.0)
    call.end_by(outer.deadline)
    assert (call.deadline, call.extra_seconds) == (outer.deadline, 0.0)
    later = call_of(20, progress_seconds=20.0, extra_seconds=100.0)
    later.end_by(later.deadline + 40)
    assert later.extra_seconds == pytest.approx(40.0)


def test_a_handler_that_raises_before_its_first_event_fails_the_call() -> None:
    """A handler may be a plain function, which raises when it is called."""

    def handler(call: Call) -> Events:
        raise ToolFailed("it is not available now")

    assert list(activate(handler, call_of())) == [Failed("it is not available now")]


def test_an_inner_activation_leaves_the_limits_after_an_event_to_the_outer_one() -> None:
    def handler(call: Call) -> Events:
        yield Text("a")
        yield Text("b")
        yield PAUSE

    late = call_of(left=0.0)
    assert [type(event) for event in activate(handler, late, is_inner=True)] == [Text, Text, Failed]
    assert [type(event) for event in activate(handler, late)] == [Text, Failed]
