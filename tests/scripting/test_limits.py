"""Each limit of a run ends the run, and its failure names the limit and the line."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from patchbay.activation import Call, Events
from patchbay.descriptors import Descriptor
from patchbay.events import Question
from patchbay.scripting.calls import PlannedCall, ScriptCalls
from patchbay.scripting.limits import Budget, RunLimits
from patchbay.scripting.modules import ScriptTool
from tests.hubs import Hub
from tests.scripting.hubs import failure, script, scripted_hub, value
from tests.waiting import BOUND

SMALL: dict[str, Any] = {
    "running_seconds": 0.5,
    "wall_seconds": 8.0,
    "memory_mib": 16,
    "calls": 5,
    "argument_bytes": 4000,
    "result_bytes": 1000,
    "value_bytes": 4000,
}
SMALL |= {"output_bytes": 2000}


HANG = '''
import threading


def hang(context) -> str:
    """Work without an end."""
    while True:
        threading.Event().wait(0.05)
        context.progress(1)
'''

CAUGHT = """for one in range(3):
    try:
        await git.fail(size=600)
    except RuntimeError:
        pass"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = scripted_hub(tmp_path_factory.mktemp("limits"), **SMALL)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("code", "place", "limit"),
    [
        ("import git\nawait git.close(number=1)\nwhile True:\n    pass", "after the call of line 2", "running_seconds"),
        ("while True:\n    pass", "before its first call", "running_seconds"),
        ("x = 10 ** 100000\nwhile True:\n    x = x * x", "before its first call", "running_seconds"),
        ("x = []\nwhile True:\n    x.append(bytes(1000000))", "line 3", "memory_mib"),
        ("while True:\n    print('a' * 100)", "before its first call", "output_bytes"),
        ("import git\nfor one in range(10):\n    await git.close(number=one)", "line 3", "calls"),
        ("import git\nawait git.large(size=10)\nawait git.large(size=2000)", "line 3", "result_bytes"),
        ("import git\nawait git.note(what='a' * 3000)\nawait git.note(what='a' * 3000)", "line 3", "argument_bytes"),
        ("import git\n\nawait git.note(what=[[]] * 200)", "line 3", "argument_bytes"),
        (f"import git\n{CAUGHT}", "line 4", "result_bytes"),
        ("import asyncio\n\nawait asyncio.sleep(100)", "line 3", "wall_seconds"),
        ("import time\n\ntime.sleep(100)", "line 3", "wall_seconds"),
        ("import asyncio\nfor one in range(3000):\n    await asyncio.sleep(0)", "line 3", "suspensions"),
        ("def call(n):\n    return call(n + 1)\n\ncall(0)", "line 2", "recursion"),
    ],
)
def test_a_limit_ends_the_run_and_is_named_with_its_line(hub: Hub, code: str, place: str, limit: str) -> None:
    said = failure(script(hub, "git", code))
    assert f"(limit {limit}" in said, said
    assert f"{place}: " in said, said


def test_what_was_printed_and_called_before_the_end_is_told(hub: Hub) -> None:
    answer = script(hub, "git", "import git\nprint('begun')\nawait git.close(number=1)\nwhile True:\n    pass")
    assert answer.result["content"][0]["text"] == "begun\n"
    assert failure(answer).endswith("1 call was made: git.close (line 3)")


def test_a_limit_cannot_be_caught(hub: Hub) -> None:
    caught = "    try:\n        await git.close(number=one)\n    except BaseException:\n        pass"
    code = f"import git\nfor one in range(10):\n{caught}"
    assert "(limit calls)" in failure(script(hub, "git", code))
    endless = "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass"
    assert "(limit running_seconds)" in failure(script(hub, "git", endless))


def test_a_call_that_hangs_ends_with_the_run(tmp_path: Path) -> None:
    files = {"hang.py": HANG, "hang.mcp.json": '{"isolation": "inline", "listing": {"scripts": "also"}}'}
    found = scripted_hub(tmp_path, files, wall_seconds=1.0)
    begun = time.monotonic()
    assert "(limit wall_seconds)" in failure(script(found, "hang", "import hang\nawait hang.hang()"))
    assert time.monotonic() - begun < 30
    found.close()


def test_a_good_script_runs_after_each_bad_one(hub: Hub) -> None:
    for code in ("while True:\n    pass", "x = []\nwhile True:\n    x.append(bytes(1000000))", "1 / 0"):
        failure(script(hub, "git", code))
        assert value(script(hub, "git", "1 + 1")) == 2


@pytest.mark.parametrize("code", ["'a' * 5000", "[1] * 200", "{'a' * 5000: 1}", "[[]] * 200", "10 ** 1300000"])
def test_a_value_has_a_bounded_size(hub: Hub, code: str) -> None:
    said = failure(script(hub, "git", code))
    assert said.startswith("the value of the script cannot be returned: it "), said
    assert "4000 bytes (limit value_bytes)" in said, said


def test_a_run_keeps_no_arguments_of_calls_that_are_over() -> None:
    call, budget = Call("git", {}, {}, time.monotonic() + BOUND), Budget(RunLimits())
    tool = ScriptTool("git", Descriptor("tool", "note", {"name": "note", "inputSchema": {}}, {}), "note")
    calls = ScriptCalls(call, budget, lambda tool, arguments, approval: Answered(arguments))
    for id in range(3):
        calls.plan(id, PlannedCall("git.note", 1, tool, {"what": "a" * 1000}))
    answers: dict[int, dict[str, Any]] = {}
    while len(answers) < 3:
        list(calls.settle())
        answers |= calls.take_answers()
    assert [one["return_value"] for one in answers.values()] == ["1000 characters"] * 3
    assert [one.arguments for one in calls.made] == [{}] * 3


class Answered:
    """A call that ends at once."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.result: Mapping[str, Any] = {"content": [{"type": "text", "text": f"{len(arguments['what'])} characters"}]}
        self.line = self.number = 0
        self.written: dict[str, Any] | None = None
        self.answers: Mapping[str, Any] = {}
        self.asked: Mapping[str, Question] = {}
        self.account: tuple[str, str] | None = None

    def find_question(self) -> None:
        return None

    def events(self) -> Events:
        yield from ()
