"""A jq expression of a toolset runs without an end, takes all memory, or looks for what is not its input.

The operator writes the expressions; what a mounted server or a caller sends decides how much work they are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from patchbay.processes.jq_processes import (
    MAX_PROCESSES,
    ExpressionFailed,
    ExpressionInvalid,
    ExpressionStopped,
    JqProcesses,
)
from patchbay.shaping import results
from tests.hubs import Hub
from tests.kinds.toolset.sets import INLINE, hub_with, listed, problems, toolset
from tests.waiting import BOUND

ECHO = 'def echo(value: dict) -> dict:\n    """Give it back."""\n    return value\n'
BOMBS = {
    "endless": "if .go then last(range(1e12)) else 1 end",
    "array": "if .go then [range(1e12)] else 1 end",
    "recursion": "def f: [f]; if .go then f else 1 end",
    "text": 'if .go then (.n // "a") * 1e9 else 1 end',
    "large": 'if .go then (.n // "abcdefgh") * 2e6 else 1 end',
    "deep": "if .go then reduce range(100000) as $i (0; [.]) else 1 end",
    "crash": "if .go then reduce range(3000000) as $i (0; [.]) | length else 1 end",
    "regex": 'if .go then "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab" | test("^(a+)+$") else 1 end',
}
"""Each one does no harm before a call says so, so that its entry is listed."""

LOOKS = {
    "$ENV": b"{}",
    "env": b"{}",
    "$ENV.HOME": b"null",
    "input_filename": b"null",
    "get_search_list": b"[]",
    '"/etc/passwd" | modulemeta': b"{}",
    "[debug]": b"[null]",
    "[stderr]": b"[null]",
    "try input catch .": b'"break"',
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    tools = {name: {"from": "any.echo", "result": text} for name, text in BOMBS.items()}
    files = {
        "any.py": ECHO,
        "any.mcp.json": INLINE,
        "release.json": toolset(tools={**tools, "good": {"from": "any.echo", "result": ".n"}}),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "JqProcesses", partial(JqProcesses, cpu_seconds=1))  # half of what a usual hub allows
        found = hub_with(tmp_path_factory.mktemp("bombs"), files).as_operator()
        yield found
        found.close()


@pytest.fixture(scope="module")
def processes() -> Iterator[JqProcesses]:
    found = JqProcesses(2)
    yield found
    found.close()


@pytest.mark.parametrize("name", BOMBS)
def test_an_expression_that_takes_too_much_fails_alone_and_the_hub_goes_on(hub: Hub, name: str) -> None:
    assert hub.call("release", name, {"value": {}}).text == "1"
    answer = hub.call("release", name, {"value": {"go": True}})
    assert answer.result["isError"] and "the jq expression" in answer.text and len(answer.text) < 1000
    assert hub.call("release", "good", {"value": {"n": 7}}).text == "7"


def test_many_endless_expressions_end_and_a_good_one_gets_its_turn(hub: Hub) -> None:
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda: texts.append(hub.call("release", "endless", {"value": {"go": True}}).text))
        for _ in range(MAX_PROCESSES + 1)
    ]
    for one in threads:
        one.start()
    assert hub.call("release", "good", {"value": {"n": 7}}).text == "7"
    for one in threads:
        one.join(BOUND)
    assert len(texts) == MAX_PROCESSES + 1 and all("the jq expression" in one for one in texts)


@pytest.mark.parametrize("expression", LOOKS)
def test_an_expression_sees_nothing_of_the_hub(processes: JqProcesses, expression: str) -> None:
    assert processes.run(expression, b"null", BOUND) == LOOKS[expression]


FILES = ['import "/etc/passwd" as $d; $d', 'include "a"; .', 'import "a" as a {search: "/"}; .', "$__prog_args"]


@pytest.mark.parametrize("expression", [*FILES, "1) | (2", ") | $ENV | (", "1 # )\n) | (1"])
def test_an_expression_reads_no_file_and_does_not_leave_its_place(processes: JqProcesses, expression: str) -> None:
    with pytest.raises(ExpressionInvalid):
        processes.run(expression, b"null", BOUND)


def test_an_expression_over_several_values_gets_one_only(processes: JqProcesses) -> None:
    with pytest.raises(ExpressionFailed):
        processes.run("[., input]", b"1", BOUND)
    assert processes.run(".", b"2", BOUND) == b"2"


def test_an_expression_ends_with_the_call_that_needs_it(processes: JqProcesses) -> None:
    is_over, is_running = threading.Event(), threading.Event()

    def watch() -> bool:
        is_running.set()
        return is_over.is_set()

    found: list[Exception] = []

    def run() -> None:
        try:
            processes.run("last(range(1e12))", b"null", BOUND, watch)
        except ExpressionStopped as problem:
            found.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    assert is_running.wait(BOUND)
    is_over.set()
    thread.join(BOUND)
    assert [str(one) for one in found] == ["its call has ended"]


def test_a_caller_with_endless_expressions_leaves_a_process_to_another_caller() -> None:
    processes = JqProcesses(2)
    is_over, is_running = threading.Event(), threading.Event()

    def watch() -> bool:
        is_running.set()
        return is_over.is_set()

    def run() -> None:
        with suppress(ExpressionStopped):
            processes.run("last(range(1e12))", b"null", BOUND, watch, "ann")

    thread = threading.Thread(target=run)
    try:
        assert processes.run(".", b"7", BOUND, caller="ben") == b"7"  # its process is idle from now on
        thread.start()
        assert is_running.wait(BOUND)
        assert processes.run(".", b"7", BOUND, caller="ben") == b"7"
        with pytest.raises(ExpressionStopped, match="it takes too long"):
            processes.run(".", b"7", 0.05, caller="ann")
        assert processes.run(".", b"7", BOUND, caller="ben") == b"7"
        assert thread.is_alive()
    finally:
        is_over.set()
        processes.close()
        thread.join(BOUND)


def test_an_expression_that_never_ends_for_the_schema_of_its_origin_is_not_listed(tmp_path: Path) -> None:
    count = 'def count() -> int:\n    """Count."""\n    return 1\n'
    tools = {"a": {"from": "any.count", "result": "def f: f; f"}, "b": "any.count"}
    files = {"any.py": count, "any.mcp.json": INLINE, "release.json": toolset(tools=tools)}
    hub = hub_with(tmp_path, files).as_operator()
    assert set(listed(hub)) == {"b"}
    assert "it takes more than 2 s of processor time" in problems(hub)["tools.a.result"]
    hub.close()
