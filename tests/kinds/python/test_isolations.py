"""Properties of every Python function, in the hub process and in a worker process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent
from typing import Any

import pytest

from patchbay import activation
from patchbay.activation import Handler, activate
from patchbay.cid import cid_of
from patchbay.errors import MissingCapability, ProtocolError
from patchbay.events import (
    Ask,
    Content,
    Data,
    Detach,
    Done,
    Event,
    Failed,
    Log,
    Pause,
    Progress,
    Question,
    Text,
    ToolUse,
)
from patchbay.kinds.registry import Handlers
from tests.hubs import shared_hosts
from tests.kinds.calls import SmallHub, call_of, events, next_event
from tests.waiting import BOUND, until

Make = Callable[[str], Handler]


@pytest.fixture(params=["inline", "process"])
def make(request: pytest.FixtureRequest) -> Make:
    """Return a function that makes the handler of a Python definition."""
    handlers = Handlers(shared_hosts(), request.param)

    def made(source: str) -> Handler:
        data = dedent(source).encode()
        handler = handlers("python", data, cid_of(data), "tool")
        assert handler is not None
        return handler

    return made


GIVEN: list[tuple[str, dict[str, Any], list[Event]]] = [
    (
        "def main(message): return message",
        {"message": "Grüße, 世界 😀 \u202e\u0000"},
        [Text("Grüße, 世界 😀 \u202e\u0000")],
    ),
    (
        "def main(value): return {'value': value}",
        {"value": [1, None, {"a": [2.5]}]},
        [Data({"value": [1, None, {"a": [2.5]}]})],
    ),
    ("def main(): return None", {}, []),
    ("def main(): return 2 ** 70", {}, [Data(2**70)]),
    ("def main(): return {'output': '<p>', 'content_type': 'text/html'}", {}, [Text("<p>")]),
    (
        "def main(): return b'\\x89PNG\\r\\n\\x1a\\n'",
        {},
        [Content({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"})],
    ),
    (
        "def main(): return [{'type': 'text', 'text': 'a'}, b'ID3']",
        {},
        [Content({"type": "text", "text": "a"}), Content({"type": "audio", "data": "SUQz", "mimeType": "audio/mpeg"})],
    ),
    (
        "import datetime as d\ndef main(day: d.date): return day + d.timedelta(1)",
        {"day": "2026-02-28"},
        [Data("2026-03-01")],
    ),
    ("def main():\n    yield 'a'\n    yield {'n': 1}\n    return 'z'", {}, [Text("a"), Data({"n": 1}), Text("z")]),
    ("async def main():\n    for n in range(3): yield str(n)", {}, [Text("0"), Text("1"), Text("2")]),
    ("import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    return 'done'", {}, [Text("done")]),
    ("def main(): return map(str, range(3))", {}, [Text("0"), Text("1"), Text("2")]),
    (
        "def main(context):\n    context.progress(1, 2, 'half')\n    context.log({'a': 1}, 'warning', 'me')",
        {},
        [Progress(1, 2, "half"), Log("warning", {"a": 1}, "me")],
    ),
    (
        "def main(context): return [context.server, dict(context.meta), context.cancelled, context.left() > 1]",
        {},
        [Data(["tool", {}, False, True])],
    ),
]

FAILING: list[tuple[str, dict[str, Any], str]] = [
    ("def main():\n    raise ValueError('no such colour')", {}, "ValueError: no such colour"),
    ("def main():\n    raise ValueError", {}, "ValueError"),
    ("class Odd(Exception): ...\ndef main():\n    raise Odd('torn')", {}, "Odd: torn"),
    ("def main(a, b): ...", {"a": 1}, "missing argument 'b' of main"),
    ("def main(): ...", {"z": 1}, "unexpected argument 'z'; main takes no arguments"),
    ("def main(context): ...", {"context": 1}, "unexpected argument 'context'; main takes no arguments"),
    ("def main(n: list[int]): ...\ndef main(when: __import__('datetime').date): ...", {"when": "x"}, "argument 'when'"),
    ("def other(): ...", {}, "tool has no function 'main'"),
    ("def main(:", {}, "tool cannot be loaded: SyntaxError: invalid syntax (line 1)"),
    ("1/0", {}, "tool cannot be loaded: ZeroDivisionError: division by zero (line 1)"),
    ("import nowhere_to_be_found", {}, "tool cannot be loaded: ModuleNotFoundError"),
    ("import sys\ndef main(): sys.exit(3)", {}, "the tool ended itself: SystemExit: 3"),
    ("def main(): raise KeyboardInterrupt", {}, "the tool ended itself: KeyboardInterrupt"),
    ("def main(): return main()", {}, "RecursionError: maximum recursion depth exceeded"),
    ("def main(): return object()", {}, "the tool returned a value of type object that has no JSON form"),
    ("def main(context): context.log('x', 'loud')", {}, "no log level 'loud'"),
    ("def main(context): context.read('cid://x')", {}, "reading cid://x needs a hub"),
    (
        "from patchbay.errors import ToolFailed as F\nclass Mine(F): ...\ndef main(): raise Mine('so', {1: object()})",
        {},
        "so",
    ),
    ("def main(): return {'output': 'gone', 'content_type': 'text/plain', 'status': 404}", {}, "gone"),
]


@pytest.mark.parametrize(("source", "arguments", "expected"), GIVEN)
def test_a_function_gives_the_same_events(
    make: Make, source: str, arguments: dict[str, Any], expected: list[Event]
) -> None:
    """T5.1, T5.7, T5.8, T13.3 to T13.7."""
    assert events(make(source), call_of(arguments)) == [*expected, Done()]


@pytest.mark.parametrize(("source", "arguments", "message"), FAILING)
def test_a_function_fails_with_the_same_words(make: Make, source: str, arguments: dict[str, Any], message: str) -> None:
    """T5.2, T5.5."""
    (failed,) = events(make(source), call_of(arguments))
    assert isinstance(failed, Failed)
    assert failed.message.startswith(message)
    assert failed.error is None


def test_a_masked_failure_keeps_its_message_to_itself(make: Make) -> None:
    source = "def main(): raise ValueError('secret')"
    assert list(activate(make(source), call_of(), mask=True))[-1] == Failed("the tool failed")


def test_an_error_of_the_protocol_keeps_its_code_and_data(make: Make) -> None:
    source = "from patchbay.errors import ProtocolError\ndef main(): raise ProtocolError('no', -1, {'a': [1]})"
    (failed,) = events(make(source), call_of())
    assert isinstance(failed, Failed) and isinstance(failed.error, ProtocolError)
    assert (failed.message, failed.error.code, failed.error.data) == ("no", -1, {"a": [1]})


def test_events_before_a_failure_are_kept(make: Make) -> None:
    source = "def main():\n    yield 'a'\n    raise RuntimeError('torn')"
    assert events(make(source), call_of()) == [Text("a"), Failed("RuntimeError: torn")]


def test_a_long_stream_arrives_whole_and_in_order(make: Make) -> None:
    found = events(make("def main():\n    for n in range(3000): yield str(n) * 20"), call_of())
    assert found == [*(Text(str(n) * 20) for n in range(3000)), Done()]


def test_large_arguments_and_results_pass(make: Make) -> None:
    large = "ä" * 2_000_000
    assert events(make("def main(a): return a"), call_of({"a": large})) == [Text(large), Done()]


def test_a_silent_tool_pauses(make: Make) -> None:
    source = "import time\ndef main():\n    time.sleep(0.4)\n    return 'x'"
    assert list(activate(make(source), call_of())) == [Pause(), Text("x"), Done()]


ASKING = """
def main(context):
    first = context.elicit("Name?", {"type": "object", "properties": {}})
    second = context.roots(key="mine")
    return [first["action"], second]
"""


def test_questions_are_answered_through_the_stream(make: Make) -> None:
    running = activate(make(ASKING), call_of(capabilities={"elicitation": {}, "roots": {}}))
    params = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    assert next_event(running) == Ask({"ask-1": Question("elicitation/create", params)})
    assert running.send({"ask-1": {"action": "accept"}}) == Ask({"mine": Question("roots/list", {})})
    assert running.send({"mine": {"roots": [{"uri": "file:///a"}]}}) == Data(["accept", [{"uri": "file:///a"}]])
    assert list(running) == [Done()]


def test_a_question_without_a_client_capability_is_an_error(make: Make) -> None:
    (failed,) = events(make(ASKING), call_of())
    assert isinstance(failed, Failed) and isinstance(failed.error, MissingCapability)
    assert failed.error.required == {"elicitation": {}}


def test_an_unanswered_question_fails_the_call(make: Make) -> None:
    running = activate(make(ASKING), call_of(capabilities={"elicitation": {}}))
    next(running)
    assert list(running) == [Failed("the caller did not answer 'ask-1'")]


def test_a_call_that_is_detached_has_its_new_deadline(make: Make) -> None:
    call = call_of()
    running = activate(make("def main(context):\n    context.background()\n    return context.left() > 1000"), call)
    assert next_event(running) == Detach(False)
    call.deadline += 10_000
    assert list(running) == [Data(True), Done()]


HUB = """
from patchbay.errors import ResourceNotFound
def main(context):
    context.state["a"] = {"n": 1}
    context.state["b"] = 2
    del context.state["b"]
    try:
        context.state["b"]
    except KeyError:
        yield "no b"
    try:
        del context.state["b"]
    except KeyError:
        yield "still no b"
    yield [dict(context.state), len(context.state), "a" in context.state]
    yield context.read("variable://x")["text"]
    try:
        context.read("variable://y")
    except ResourceNotFound as problem:
        yield problem.uri
    yield context.call("other", "greet", name="Ada")["content"][0]["text"]
    context.changed("tools")
    context.updated("a://b")
"""


def test_the_hub_is_there(make: Make) -> None:
    hub = SmallHub(resources={"variable://x": {"uri": "variable://x", "text": "content"}})
    hub.servers["other"] = make("def greet(name): return 'Hello, ' + name")
    assert events(make(HUB), call_of(hub=hub)) == [
        *(Text("no b"), Text("still no b"), Data([{"a": {"n": 1}}, 1, True])),
        *(Text("content"), Text("variable://y"), ToolUse("other.greet", {"name": "Ada"}), Text("Hello, Ada"), Done()),
    ]
    assert hub.states == {"tool": {"a": {"n": 1}}}
    assert hub.announced == [("changed", "tool", "tools"), ("updated", "tool", "a://b")]


def test_a_redirect_is_followed_in_the_hub(make: Make) -> None:
    """T13.8."""
    hub = SmallHub(resources={"cid://abc": {"uri": "cid://abc", "text": "there"}})
    assert events(make("def main(): return {'redirect': '/cid/abc'}"), call_of(hub=hub)) == [Text("there"), Done()]


def test_a_cycle_of_redirects_is_refused(make: Make) -> None:
    hub = SmallHub()
    hub.servers["tool"] = make("def tool(): return {'redirect': '/tool'}\n\ndef main(): return tool()")
    (failed,) = events(hub.servers["tool"], call_of(hub=hub))
    assert isinstance(failed, Failed) and "more than 5 redirects: server://tool/tool -> " in failed.message


HANGING = [
    "while True: pass",
    "import time; time.sleep(0.9)",
    "import threading; threading.Event().wait(0.9)",
    "import asyncio; asyncio.run(asyncio.sleep(0.9))",
]


@pytest.mark.parametrize("body", HANGING)
def test_a_hanging_function_is_timed_out(make: Make, body: str) -> None:
    """T12.5: the timeout is named."""
    (failed,) = events(make(f"def main():\n    {body}\n    {body}"), call_of(left=0.3))
    assert isinstance(failed, Failed)
    assert failed.message.startswith("timed out after")


def test_a_cancelled_call_ends_with_the_reason(make: Make) -> None:
    """X-19."""
    call = call_of()
    running = activate(make("def main():\n    while True: pass"), call)
    assert next(running) == Pause()
    call.cancelled.set("user pressed stop")
    assert list(running) == [Failed("cancelled: user pressed stop")]


def test_a_cancelled_call_ends_before_the_next_pause(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 50, item 21: the cancellation was seen at the next pause, up to two seconds later."""
    monkeypatch.setattr(activation, "NEXT_PAUSE", 3600.0)
    call = call_of()
    running = activate(make("def main():\n    while True: pass"), call)
    assert next(running) == Pause()
    setting = threading.Timer(0.05, call.cancelled.set, ["user pressed stop"])
    setting.start()
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(list, running).result(BOUND) == [Failed("cancelled: user pressed stop")]


CLEANING = {
    "def": "try:\n        while True: yield 'x'\n    finally: context.state['cleaned'] = True",
    "async def": "try:\n        while True: yield 'x'\n    finally: context.state['cleaned'] = True",
}


@pytest.mark.parametrize("kind", CLEANING)
def test_a_stream_that_is_closed_runs_its_cleanup_which_may_use_the_hub(make: Make, kind: str) -> None:
    """X-19: a disconnected reader stops the tool, also one that waits to emit."""
    hub = SmallHub()
    running = activate(make(f"{kind} main(context):\n    {CLEANING[kind]}"), call_of(hub=hub))
    for _ in range(3):
        next(running)
    running.close()
    until(lambda: hub.states == {"tool": {"cleaned": True}})


def test_except_exception_does_not_catch_the_end_of_a_call(make: Make) -> None:
    source = """
    import time
    def main(context):
        try:
            while True:
                try:
                    time.sleep(0.01)
                except Exception:
                    pass
        finally:
            context.state["left"] = True
    """
    hub = SmallHub()
    assert isinstance(events(make(source), call_of(left=0.3, hub=hub))[0], Failed)
    until(lambda: hub.states == {"tool": {"left": True}})
