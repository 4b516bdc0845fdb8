"""Python functions as tools: arguments, results, streams, and how they are stopped."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from patchbay.activation import Call, activate
from patchbay.errors import MissingCapability
from patchbay.events import Content, Data, Done, Event, Failed, Pause, Text
from patchbay.kinds.registry import handler_for
from patchbay.views.fold import fold
from tests.kinds.calls import call_of, events, python
from tests.waiting import until

KEEP = "def main(value): return {'value': value}"


def result(source: str, arguments: dict[str, Any] | None = None, **more: Any) -> list[Event]:
    return events(python(source), call_of(arguments, **more))


def runners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("runner of")]


def test_text_comes_back_as_text() -> None:
    """T5.7: text content type; T5.1: echo returns the message."""
    assert result("def main(message): return message", {"message": "hi"}) == [Text("hi"), Done()]


def test_bytes_come_back_as_base64() -> None:
    """T5.8: bytes become an image item or an embedded blob."""
    (image, _) = result(r"def main(): return b'\x89PNG\r\n\x1a\n'")
    assert image == Content({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"})
    (blob, _) = result("def main(): return b'abc'")
    assert isinstance(blob, Content)
    assert blob.block["resource"]["blob"] == "YWJj"


def test_a_raising_tool_fails_with_type_and_message_and_no_trace() -> None:
    """T5.5: raising tool -> isError and message."""
    source = "def main():\n    raise ValueError('no such colour')"
    assert result(source) == [Failed("ValueError: no such colour")]
    assert fold(result(source))["isError"] is True


def test_arguments_may_be_empty_and_optional_arguments_default() -> None:
    """T13.1: `{}` arguments; T5.3: optional arguments default."""
    assert result("def main(a='x', *, b=2): return [a, b]", {}) == [Data(["x", 2]), Done()]


@pytest.mark.parametrize(
    "value",
    [
        "Grüße, 世界 😀 \u202e\u0000",
        {"deep": {"er": [{"x": [1, {"y": None}]}]}},
        [1, "two", [3.5], {}],
        None,
        {"a": None, "b": [None]},
        True,
    ],
)
def test_any_json_argument_arrives_and_returns_unchanged(value: Any) -> None:
    """T13.3: Unicode; T13.5: nested JSON; T13.6: arrays; T13.7: nulls."""
    assert result(KEEP, {"value": value}) == [Data({"value": value}), Done()]


def test_a_missing_or_unexpected_argument_is_named() -> None:
    """T5.2: missing required argument."""
    assert result("def main(a, b): ...", {"a": 1}) == [Failed("missing argument 'b' of main")]
    assert result("def main(a): ...", {"a": 1, "z": 2}) == [Failed("unexpected argument 'z'; main takes a")]
    assert result("def main(): ...", {"z": 2}) == [Failed("unexpected argument 'z'; main takes no arguments")]


def test_context_cannot_be_given_from_outside() -> None:
    found = result("def main(context): return 'x'", {"context": {"evil": True}})
    assert found == [Failed("unexpected argument 'context'; main takes no arguments")]


def test_the_target_names_the_function() -> None:
    source = "def main(): return 'main'\ndef other(): return 'other'"
    assert result(source, target={"function": "other"})[0] == Text("other")
    assert result(source, target={})[0] == Text("main")
    assert result(source, target={"function": "absent"}) == [Failed("tool has no function 'absent'")]


def test_a_transform_is_called_like_any_function() -> None:
    """VWR-19: generate_tools(server_name, context) -> list."""
    source = "def generate_tools(server_name, context): return [{'name': server_name, 'of': context.server}]"
    found = result(source, {"server_name": "jq"}, target={"function": "generate_tools"})
    assert found == [Data([{"name": "jq", "of": "tool"}]), Done()]


def test_a_generator_streams_what_it_yields_and_then_what_it_returns() -> None:
    source = """
    def main():
        yield "a"
        yield {"n": 1}
        return "z"
    """
    assert result(source) == [Text("a"), Data({"n": 1}), Text("z"), Done()]


def test_a_yielded_value_goes_out_before_the_next_one_is_made() -> None:
    source = """
    import threading
    gate = threading.Event()
    def main():
        yield "first"
        assert gate.wait(20)
        yield "second"
    def open_gate():
        gate.set()
    """
    handler = python(source)
    running = activate(handler, call_of())
    assert next(running) == Text("first")
    assert events(handler, call_of(target={"function": "open_gate"})) == [Done()]
    assert [event for event in running if event != Pause()] == [Text("second"), Done()]


def test_any_iterator_streams() -> None:
    assert result("def main(): return map(str, range(3))") == [Text("0"), Text("1"), Text("2"), Done()]


def test_async_functions_and_generators_run() -> None:
    source = """
    import asyncio
    async def main():
        await asyncio.sleep(0)
        return "done"
    async def stream():
        for n in range(3):
            await asyncio.sleep(0)
            yield str(n)
    class Ready:
        def __await__(self):
            return iter(())
    def awaitable():
        return Ready()
    """
    assert result(source) == [Text("done"), Done()]
    assert result(source, target={"function": "stream"}) == [Text("0"), Text("1"), Text("2"), Done()]
    assert result(source, target={"function": "awaitable"}) == [Done()]


def test_a_failure_in_the_middle_of_a_stream_keeps_what_came_before() -> None:
    source = """
    async def main():
        yield "a"
        raise RuntimeError("torn")
    """
    assert result(source) == [Text("a"), Failed("RuntimeError: torn")]


def test_a_long_stream_arrives_whole_and_in_order() -> None:
    found = result("def main():\n    for n in range(5000): yield str(n)")
    assert found == [*(Text(str(n)) for n in range(5000)), Done()]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_producer_waits_for_a_slow_reader(kind: str) -> None:
    """A bounded number of events is pending; the rest is not made yet."""
    source = f"""
    made = []
    {kind} main():
        for n in range(2000):
            made.append(n)
            yield str(n)
    def count():
        return len(made)
    """
    handler = python(source)

    def made() -> int:
        first = events(handler, call_of(target={"function": "count"}))[0]
        assert isinstance(first, Data)
        return int(first.value)

    running = activate(handler, call_of())
    next(running)
    until(lambda: made() > 250)
    assert made() < 300
    running.close()
    until(lambda: not any(runner.name == "runner of never" for runner in runners()))


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import time; time.sleep(1.0)",
        "import threading; threading.Event().wait(1.0)",
    ],
)
def test_a_hanging_function_is_timed_out_and_its_thread_ends(body: str) -> None:
    """T12.5: the timeout is named, for a busy loop and for a sleeping tool."""
    before = set(runners())
    (failed,) = result(f"def main():\n    {body}\n    {body}", left=0.3)
    assert isinstance(failed, Failed)
    assert failed.message.startswith("timed out after")
    until(lambda: set(runners()) <= before)


def test_a_tool_that_catches_exceptions_is_stopped_nevertheless() -> None:
    """T12.5: `except Exception` does not keep a tool running."""
    source = """
    def main():
        while True:
            try:
                sum(range(100))
            except Exception:
                pass
    """
    before = set(runners())
    assert isinstance(result(source, left=0.3)[0], Failed)
    until(lambda: set(runners()) <= before)


@pytest.mark.parametrize("body", ["await asyncio.sleep(3600)", "while True: sum(range(9))"])
def test_an_async_function_is_stopped_with_its_cleanup(body: str) -> None:
    """T12.5: for async functions, waiting and busy ones."""
    source = f"""
    import asyncio
    cleaned = []
    async def main():
        try:
            {body}
        finally:
            cleaned.append(1)
    def count():
        return len(cleaned)
    """
    handler, before = python(source), set(runners())
    (failed,) = events(handler, call_of(left=0.3))
    assert isinstance(failed, Failed)
    until(lambda: set(runners()) <= before)
    assert events(handler, call_of(target={"function": "count"}))[0] == Data(1)


@pytest.mark.parametrize(
    "source", ["def main():\n    while True: yield 'x'", "async def main():\n    while True: yield 'x'"]
)
def test_closing_the_stream_ends_the_function(source: str) -> None:
    """X-19: a disconnected reader stops the tool, also one that waits to emit."""
    before = set(runners())
    running = activate(python(source), call_of())
    for _ in range(3):
        next(running)
    running.close()
    until(lambda: set(runners()) <= before)


def test_a_closed_generator_runs_its_cleanup() -> None:
    source = """
    closed = []
    def main():
        try:
            while True:
                yield "x"
        finally:
            closed.append(1)
    def count():
        return len(closed)
    """
    handler = python(source)
    running = activate(handler, call_of())
    next(running)
    running.close()
    until(lambda: events(handler, call_of(target={"function": "count"}))[0] == Data(1))


def test_a_cancelled_call_ends_with_the_reason() -> None:
    """X-19: the flag is noticed at the next Pause at the latest."""
    before = set(runners())
    call = call_of()
    running = activate(python("def main():\n    while True: pass"), call)
    assert next(running) == Pause()
    call.cancelled.set("user pressed stop")
    assert list(running) == [Failed("cancelled: user pressed stop")]
    until(lambda: set(runners()) <= before)


def test_a_silent_tool_pauses() -> None:
    source = "import threading\ndef main():\n    threading.Event().wait(0.4)\n    return 'x'"
    assert list(activate(python(source), call_of())) == [Pause(), Text("x"), Done()]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import sys; sys.exit(3)", "the tool ended itself: SystemExit: 3"),
        ("raise KeyboardInterrupt", "the tool ended itself: KeyboardInterrupt"),
        ("import asyncio; raise asyncio.CancelledError", "the tool ended itself: CancelledError"),
        ("raise GeneratorExit", "the tool ended itself: GeneratorExit"),
        ("raise StopIteration", "RuntimeError: generator raised StopIteration"),
        ("return main()", "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_however_a_tool_ends_the_runner_survives(body: str, words: str) -> None:
    handler = python(f"def main():\n    {body}\ndef fine(): return 'ok'")
    (failed,) = events(handler, call_of())
    assert isinstance(failed, Failed)
    assert failed.message.startswith(words)
    assert events(handler, call_of(target={"function": "fine"})) == [Text("ok"), Done()]


def test_a_value_without_a_json_form_fails_with_a_sentence() -> None:
    (failed,) = result("def main(): return {'a': float('nan')}")
    assert isinstance(failed, Failed)
    assert "NaN" in failed.message


def test_a_missing_capability_raised_in_a_tool_stays_an_error() -> None:
    source = """
    from patchbay.errors import MissingCapability
    def main(): raise MissingCapability({"roots": {}})
    """
    (failed,) = result(source)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, MissingCapability)


def test_calls_at_the_same_time_run_at_the_same_time() -> None:
    """T13.4: concurrent requests."""
    handler = python(
        "import threading\nbarrier = threading.Barrier(8)\ndef main(n):\n    barrier.wait(20)\n    return n"
    )
    found: list[list[Event]] = []
    threads = [threading.Thread(target=lambda n=n: found.append(events(handler, call_of({"n": n})))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(repr(one) for one in found) == [repr([Data(n), Done()]) for n in range(8)]


def test_a_call_does_not_see_context_variables_of_the_call_before() -> None:
    source = """
    import decimal
    def main(digits=None):
        if digits: decimal.getcontext().prec = digits
        return decimal.getcontext().prec
    """
    handler = python(source)
    assert events(handler, call_of({"digits": 5}))[0] == Data(5)
    assert events(handler, call_of())[0] == Data(28)


def test_sequential_calls_share_one_thread() -> None:
    handler = python("import threading\ndef main(): return threading.get_ident()")
    assert len({repr(events(handler, call_of())) for _ in range(20)}) == 1


def test_a_finished_call_keeps_nothing_alive() -> None:
    source = """
    import weakref
    class Big: pass
    made = []
    def main():
        big = Big()
        made.append(weakref.ref(big))
        return iter([str(id(big))])
    def living():
        return sum(ref() is not None for ref in made)
    """
    handler = python(source)
    events(handler, call_of())
    gc.collect()
    assert events(handler, call_of(target={"function": "living"}))[0] == Data(0)


def test_there_is_a_handler_for_each_kind_that_runs_something() -> None:
    assert handler_for("static", b"", "", "x") is None
    python_one, shell_one = (
        handler_for("python", b"def main(): return 'p'", "cid-p", "x"),
        handler_for("shell", b"echo s", "", "x"),
    )
    assert python_one is not None
    assert shell_one is not None
    assert events(python_one, call_of())[0] == Text("p")
    assert events(shell_one, Call("x", {}, {}, call_of().deadline))[0] == Text("s\n")
