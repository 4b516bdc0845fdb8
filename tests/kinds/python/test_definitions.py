"""Definitions as modules: loaded once per CID, at the first call, completely or not at all."""

from __future__ import annotations

import sys
import threading
import weakref
from textwrap import dedent

import pytest

from patchbay.cid import cid_of
from patchbay.events import Data, Done, Event, Failed, Text
from patchbay.kinds.python.definitions import definition_of
from patchbay.kinds.python.direct_calls import python_handler
from tests.kinds.calls import call_of, events, python
from tests.waiting import until


def test_a_definition_is_run_once_per_cid_however_many_servers_and_calls_share_it() -> None:
    source = "# run once\nruns = []\nruns.append(1)\ndef main(): runs.append(1) ; return len(runs)"
    first, second = python(source, "a"), python(source, "b")
    threads = [threading.Thread(target=events, args=(handler, call_of())) for handler in (first, second) * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert events(first, call_of())[0] == Data(1 + 16 + 1)


def test_another_cid_is_another_module() -> None:
    assert events(python("n = []\ndef main(): n.append(1); return len(n)"), call_of())[0] == Data(1)
    assert events(python("n = []\ndef main(): n.append(1); return len(n) "), call_of())[0] == Data(1)


def test_nothing_runs_before_the_first_call() -> None:
    python("raise RuntimeError('too early')")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import json\n\nraise KeyError('gone')", "KeyError: 'gone' (line 3)"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all' (line 1)"),
        ("x = 1\ndef main(:\n  pass", "SyntaxError: invalid syntax (line 2)"),
        ("\ndef f():\n    return 1 / 0\nf()", "ZeroDivisionError: division by zero (line 3)"),
        ("import json\njson.loads('x')", "JSONDecodeError: Expecting value: line 1 column 1 (char 0) (line 2)"),
    ],
)
def test_an_import_error_names_type_message_and_line(source: str, words: str) -> None:
    (failed,) = events(python(source, "hello"), call_of())
    assert isinstance(failed, Failed)
    assert failed.message.startswith(f"hello cannot be loaded: {words}")


def test_a_source_with_a_null_byte_is_reported() -> None:
    """Python raises a ValueError or a SyntaxError, by its version."""
    (failed,) = events(python("a = 1\x00", "hello"), call_of())
    assert isinstance(failed, Failed)
    assert failed.message.startswith("hello cannot be loaded: ")
    assert "source code string cannot contain null bytes" in failed.message


def test_a_source_that_is_not_utf8_is_reported() -> None:
    (failed,) = events(python_handler(b"x = '\xff'", "cid-of-bad-bytes", "hello"), call_of())
    assert isinstance(failed, Failed)
    assert failed.message.startswith("hello cannot be loaded: SyntaxError")


def test_a_failed_import_leaves_nothing_behind_and_is_tried_again() -> None:
    source = """
    import sys
    sys.patchbay_tries = getattr(sys, "patchbay_tries", 0) + 1
    if sys.patchbay_tries < 2:
        raise OSError("not yet")
    def main(): return "now"
    """
    handler, name = python(source), f"definition_{cid_of(dedent(source).encode())}"
    (failed,) = events(handler, call_of())
    assert isinstance(failed, Failed)
    assert name not in sys.modules
    assert events(handler, call_of()) == [Text("now"), Done()]
    del sys.patchbay_tries  # type: ignore[attr-defined]


def test_an_import_that_hangs_is_timed_out_with_every_waiting_call() -> None:
    """T12.5: the deadline holds for the import, too."""
    source = "while True: pass\n# hangs"
    handler = python(source)
    found: list[list[Event]] = []
    threads = [threading.Thread(target=lambda: found.append(events(handler, call_of(left=0.4)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert all(isinstance(only, Failed) and only.message.startswith("timed out") for (only,) in found)
    assert len(found) == 2
    pool = definition_of(source.encode(), cid_of(source.encode()), "tool").pool
    until(lambda: not any(runner.thread.is_alive() for runner in pool._runners))


def test_dataclasses_and_future_annotations_work_as_in_any_module() -> None:
    source = """
    from __future__ import annotations
    import dataclasses, pickle
    @dataclasses.dataclass
    class Point:
        x: int
        y: list[int] = dataclasses.field(default_factory=list)
    def main(point: Point) -> Point:
        assert isinstance(point, Point)
        return pickle.loads(pickle.dumps(point))
    """
    assert events(python(source), call_of({"point": {"x": 1}}))[0] == Data({"x": 1, "y": []})


def test_a_definition_that_is_forgotten_leaves_sys_modules() -> None:
    source = b"def main(): return 'x'"
    definition_of.__globals__["_definition"].cache_clear()
    events(python_handler(source, "a-cid-to-forget", "t"), call_of())
    assert "definition_a-cid-to-forget" in sys.modules
    definition_of.__globals__["_definition"].cache_clear()
    until(lambda: "definition_a-cid-to-forget" not in sys.modules)


def test_a_definition_that_is_forgotten_leaves_the_module_of_its_successor() -> None:
    """Issue 12, item 19: the same CID is loaded again while a call still holds the first definition."""
    source = b"def main(): return 'x'"
    name = "definition_a-cid-loaded-twice"
    first = definition_of(source, "a-cid-loaded-twice", "t")
    first.load()
    definition_of.__globals__["_definition"].cache_clear()
    second = definition_of(source, "a-cid-loaded-twice", "t")
    second.load()
    module = sys.modules[name]
    gone = weakref.ref(first)
    del first
    until(lambda: gone() is None)
    assert sys.modules[name] is module


def test_a_function_is_pure_if_it_takes_json_and_uses_nothing_outside_python() -> None:
    source = """
    import os
    def add(a: int, b: int) -> int: return a + b
    def pid(): return os.getpid()
    def later(day: "datetime.date"): return str(day)
    def asks(context): return context.principal
    import datetime
    """
    data = dedent(source).encode()
    found = definition_of(data, cid_of(data), "tool")
    assert {name: found.is_pure(name) for name in ("add", "pid", "later", "asks")} == {
        **{"add": True, "pid": False},
        **{"later": False, "asks": False},
    }
