"""What the code of an author raises reaches the operator with the lines of that code alone (issue 47 item 5)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.activity.records import Filter
from patchbay.raised.exceptions import MAX_FRAMES, CodeLine, Raised, RaisedException
from patchbay.raised.forms import format_raised, read_raised
from tests.hubs import Hub

HELPER = "def broken(:\n    pass\n"

SOURCE = '''"""Functions that fail in every way."""

import importlib.util
import json
import sys

from patchbay import ToolFailed


def greet(name: str) -> str:
    """Raise in a function that it calls."""
    return _first(name)


def _first(name):
    return name[0].upper() + None


def chained() -> str:
    """Raise from another exception."""
    try:
        return {}["Ann"]
    except KeyError as problem:
        raise ValueError("nobody has this name") from problem


def handled() -> str:
    """Raise while another exception is handled."""
    try:
        return {}["Ann"]
    except KeyError:
        raise ValueError("nobody has this name")


def grouped() -> str:
    """Raise a group."""
    found = []
    for text in ("x", "y"):
        try:
            int(text)
        except ValueError as problem:
            found.append(problem)
    raise ExceptionGroup("two", found)


def inside() -> dict:
    """Raise in the standard library."""
    return json.loads("{")


async def later() -> str:
    """Raise in a coroutine."""
    raise RuntimeError("later")


def some() -> str:
    """Raise in a generator."""
    yield "one"
    raise RuntimeError("after one")


async def more() -> str:
    """Raise in an async generator."""
    yield "one"
    raise RuntimeError("after one more")


def deep(number: int = 0) -> str:
    """Call itself without an end."""
    return deep(number + 1)


def leaves() -> str:
    """End the process."""
    sys.exit(3)


def on_purpose() -> str:
    """Fail with a message for the caller."""
    raise ToolFailed("there is no such city")


def imports() -> str:
    """Import a helper that cannot be read."""
    import sys
    sys.path.insert(0, FOLDER)
    import helper_of_a_test
    return helper_of_a_test.broken()


def read_plan() -> str:
    """Fill a resource."""
    raise LookupError("no plan")


def ask_plan(what: str) -> str:
    """Fill a prompt."""
    raise LookupError("no question")


def complete_plan(value: str, arguments: dict) -> list[str]:
    """Complete an argument."""
    raise LookupError("no suggestion")
'''

CONFIGURATION = {
    "auto_discover": True,
    "resources": {"plan": {"uri": "plan://now", "function": "read_plan"}},
    "prompts": {"ask": {"function": "ask_plan", "arguments": [{"name": "what"}]}},
    "completions": {"ask": {"what": {"function": "complete_plan"}}},
}


def line_of(text: str) -> int:
    """The number of the line of the source with this text."""
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line)


@pytest.fixture(scope="module", params=["inline", "process"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp(f"raised-{request.param}")
    (folder / "helper_of_a_test.py").write_text(HELPER)
    source = SOURCE + f"\n\nFOLDER = {str(folder)!r}\n"
    files = {"plans.py": source, "plans.mcp.json": json.dumps(CONFIGURATION | {"isolation": request.param})}
    hub = Hub(folder, files, protections="off").as_operator()
    yield hub
    hub.close()


def raised_by(hub: Hub, tool: str, **arguments: Any) -> Raised:
    """What the operator gets about a call that failed."""
    result = hub.call("plans", tool, arguments, "2026-07-28").result
    assert result["isError"] is True
    return read_raised(result)


@pytest.mark.parametrize(
    ("tool", "error", "frames"),
    [
        ("greet", "TypeError", ["return _first(name)", "return name[0].upper() + None"]),
        ("inside", "JSONDecodeError", ['return json.loads("{")']),
        ("later", "RuntimeError: later", ['raise RuntimeError("later")']),
        ("some", "RuntimeError: after one", ['raise RuntimeError("after one")']),
        ("more", "RuntimeError: after one more", ['raise RuntimeError("after one more")']),
        ("leaves", "SystemExit: 3", ["sys.exit(3)"]),
    ],
)
def test_the_operator_gets_the_lines_of_the_authors_code_alone(
    hub: Hub, tool: str, error: str, frames: list[str]
) -> None:
    arguments = {"name": "ann"} if tool == "greet" else {}
    [one] = raised_by(hub, tool, **arguments)
    assert one.error.startswith(error)
    assert [each.text for each in one.frames] == frames
    assert [(each.file, each.line) for each in one.frames] == [("plans.py", line_of(text)) for text in frames]
    assert one.frames[0].function == tool


@pytest.mark.parametrize(("tool", "relation"), [("chained", "caused by"), ("handled", "raised while handling")])
def test_an_exception_brings_the_one_that_caused_it(hub: Hub, tool: str, relation: str) -> None:
    first, cause = raised_by(hub, tool)
    assert (first.error, first.relation) == ("ValueError: nobody has this name", "")
    assert (cause.error, cause.relation) == ("KeyError: 'Ann'", relation)
    assert cause.frames[-1].text == 'return {}["Ann"]'


def test_a_group_brings_its_members(hub: Hub) -> None:
    group, *members = raised_by(hub, "grouped")
    assert group.error.startswith("ExceptionGroup: two")
    assert [one.relation for one in members] == ["in the group", "in the group"]
    assert [one.frames[-1].text for one in members] == ["int(text)", "int(text)"]


def test_an_endless_recursion_keeps_a_bounded_number_of_frames(hub: Hub) -> None:
    [one] = raised_by(hub, "deep")
    assert len(one.frames) == MAX_FRAMES
    assert len(format_raised((one,))) == 3, "equal frames are one line"


def test_a_syntax_error_of_an_imported_file_names_that_file_and_its_line(hub: Hub) -> None:
    [one] = raised_by(hub, "imports")
    assert one.error.startswith("SyntaxError")
    assert Path(one.frames[-1].file).name == "helper_of_a_test.py"
    assert (one.frames[-1].line, one.frames[-1].text) == (1, "def broken(:")
    assert one.frames[0].text == "import helper_of_a_test"


def test_a_failure_with_a_message_for_the_caller_has_no_frames(hub: Hub) -> None:
    assert raised_by(hub, "on_purpose") == ()


@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        ("resources/read", {"uri": "plan://now"}, 'raise LookupError("no plan")'),
        ("prompts/get", {"name": "ask", "arguments": {"what": "x"}}, 'raise LookupError("no question")'),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "what", "value": ""}},
            'raise LookupError("no suggestion")',
        ),
    ],
)
def test_functions_of_resources_prompts_and_completions_tell_their_lines_too(
    hub: Hub, method: str, params: dict[str, Any], text: str
) -> None:
    [one] = read_raised(hub.modern("plans", method, params).error["data"])
    assert (one.frames[-1].line, one.frames[-1].text) == (line_of(text), text)


def test_the_record_has_it_whoever_called(hub: Hub) -> None:
    hub.client.environ_base.pop("HTTP_AUTHORIZATION")
    try:
        result = hub.call("plans", "greet", {"name": "bob"}, "2026-07-28").result
    finally:
        hub.as_operator()
    assert read_raised(result) == ()
    hub.activity.flush()
    [record] = hub.activity.recent(Filter(server="plans", tool="greet"), 1).records
    [frame] = hub.client.get(f"/activity/{record.id}.json").json["raised"][0]["frames"][1:]  # type: ignore[index]
    assert frame["text"] == "return name[0].upper() + None"
    assert frame["line"] == line_of("return name[0].upper() + None")
    page = hub.client.get(f"/activity/{record.id}", headers={"Accept": "text/html"}).text
    assert "return name[0].upper() + None" in page
    assert f'href="/servers/plans/edit#L{line_of("return name[0].upper() + None")}"' in page


def test_the_log_of_the_hub_has_it_once_without_frames_of_the_hub(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "patchbay"):
        raised_by(hub, "chained")
    [entry] = [each for each in caplog.records if "nobody has this name" in each.getMessage()]
    assert entry.exc_info is None
    assert f"plans.py, line {line_of('nobody has this name')}, in chained" in entry.getMessage()
    assert "patchbay/kinds" not in entry.getMessage() and "Traceback" not in entry.getMessage()


def test_a_definition_that_fails_while_it_is_loaded_tells_its_line(tmp_path: Path) -> None:
    for isolation in ("inline", "process"):
        files = {"late.py": "TABLE = {}['x']\n\n\ndef show() -> str:\n    return TABLE\n"}
        hub = Hub(tmp_path / isolation, files, isolation=isolation).as_operator()
        try:
            [one] = read_raised(hub.call("late", "show", {}, "2026-07-28").result)
        finally:
            hub.close()
        assert (one.error, one.frames) == ("KeyError: 'x'", (CodeLine("late.py", 1, "", "TABLE = {}['x']"),))


def test_mask_errors_hides_the_message_from_callers_and_not_from_the_operator(tmp_path: Path) -> None:
    files = {
        "keeps.py": 'def fail() -> str:\n    raise ValueError("the password is x")\n',
        "keeps.mcp.json": json.dumps({"auto_discover": True, "mask_errors": True}),
    }
    hub = Hub(tmp_path, files)
    try:
        masked = hub.call("keeps", "fail", {}, "2026-07-28")
        assert masked.text == "the tool failed" and b"password" not in masked.body
        shown = hub.as_operator().call("keeps", "fail", {}, "2026-07-28")
    finally:
        hub.close()
    assert shown.text == "the tool failed"
    assert read_raised(shown.result)[0].error == "ValueError: the password is x"


def test_a_record_without_contents_has_the_lines_and_no_message(tmp_path: Path) -> None:
    files = {"keeps.py": "def fail(word: str) -> str:\n    raise ValueError(word)\n"}
    hub = Hub(tmp_path, files, activity_contents="none").as_operator()
    try:
        hub.call("keeps", "fail", {"word": "secret"}, "2026-07-28")
        hub.activity.flush()
        [record] = hub.activity.recent(Filter(server="keeps")).records
    finally:
        hub.close()
    assert record.raised == (
        RaisedException("ValueError", "", (CodeLine("keeps.py", 2, "fail", "raise ValueError(word)"),)),
    )
    assert "secret" not in json.dumps(record.to_json())
