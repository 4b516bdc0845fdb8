"""Results on a terminal are what a person reads; in a pipe they are lines of JSON, byte for byte as before.

Each command runs on a real pseudo-terminal, and `Screen` is what its person sees at the end.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from patchbay import exit_codes
from tests.cli.terminal_screen import Screen
from tests.cli.workspace import Ended, Workspace

pytestmark = pytest.mark.process

STEPS = {"name": "steps"}
FORECAST = {"city": "Oslo", "days": [{"rain": True, "mm": 1.5}]}
STRUCTURED = {"content": [{"type": "text", "text": json.dumps(FORECAST)}], "structuredContent": FORECAST}
COLORED = {"34", "1", "32", "35", "36"}
"""The codes of keys (blue and bold), strings, words and numbers."""


def call(workspace: Workspace, rest: str = "", **served: Any) -> Ended:
    """Call the tool `steps`, which reports progress three times, on a terminal."""
    return workspace.on_terminal(f"jn call '{workspace.serve(STEPS, **served)}' steps {rest}")


def test_the_progress_bar_is_gone_before_the_result_begins(workspace: Workspace) -> None:
    """Issue 47 item 3: `step 5 5/5 0:00:01{` was on one line."""
    ended = call(workspace, text="line one\nline two")
    assert "step 3" in ended.out, "there was a progress bar"
    assert Screen(ended.out).lines == ["line one", "line two"]


def test_the_progress_bar_is_gone_when_the_result_goes_elsewhere(workspace: Workspace) -> None:
    """The bar is on standard error, the result in a file: nothing of the bar is in the file."""
    ended = call(workspace, "> result.json; echo done", text="all")
    assert "step 3" in ended.out and Screen(ended.out).lines == ["done"]
    written = (workspace.work / "result.json").read_text()
    assert json.loads(written)["text"] == "all" and "\x1b" not in written


def test_a_structured_result_is_indented_and_coloured_on_a_terminal(workspace: Workspace) -> None:
    """The text of such a result repeats the value, so the value is shown once."""
    screen = Screen(call(workspace, result=STRUCTURED).out)
    assert screen.lines == json.dumps(FORECAST, indent=2).splitlines()
    assert screen.colors >= COLORED


@pytest.mark.parametrize("setting", ["NO_COLOR=1", "NO_COLOR=1 FORCE_COLOR=1", "FORCE_COLOR=0", "TERM=dumb"])
def test_without_colours_the_same_lines_have_no_colours(workspace: Workspace, setting: str) -> None:
    address = workspace.serve(STEPS, result=STRUCTURED)
    screen = Screen(workspace.on_terminal(f"export {setting}; jn call '{address}' steps").out)
    assert screen.lines == json.dumps(FORECAST, indent=2).splitlines()
    assert screen.colors == set()


@pytest.mark.parametrize("setting", ["true", "NO_COLOR=1", "FORCE_COLOR=1"])
def test_a_pipe_gets_one_line_of_json_for_each_record(workspace: Workspace, setting: str) -> None:
    """No setting changes what the next program reads."""
    address = workspace.serve(STEPS, result=STRUCTURED)
    ended = workspace.run(f"export {setting}; jn call '{address}' steps")
    record = {"type": "tool_result", "tool": "steps", "text": json.dumps(FORECAST), "mimeType": "text/plain"}
    assert ended.out == json.dumps(record | {"structuredContent": FORECAST}) + "\n"
    on_terminal = workspace.on_terminal(f"export {setting}; jn call '{address}' steps | cat")
    assert Screen(on_terminal.out).lines == [ended.out.strip()]


def test_an_option_writes_the_lines_of_a_pipe_on_a_terminal(workspace: Workspace) -> None:
    lines = Screen(call(workspace, "--json", result=STRUCTURED).out).lines
    assert [json.loads(line)["structuredContent"] for line in lines] == [FORECAST]


def test_an_error_of_a_tool_says_that_it_is_one(workspace: Workspace) -> None:
    content = [{"type": "text", "text": "no such city\n"}]
    ended = call(workspace, result={"content": content, "isError": True})
    assert (Screen(ended.out).lines, ended.code) == (["Error: no such city"], exit_codes.FAILED)


def test_an_error_of_the_command_is_said_once_on_a_terminal(workspace: Workspace) -> None:
    """In a pipe its record is on standard output beside the sentence."""
    line = "jn call 'mcp+stdio:false' steps"
    shown = Screen(workspace.on_terminal(line).out).lines
    assert len([text for text in shown if "false" in text]) == 1 and shown[0].startswith("jn: ")
    assert workspace.run(line).records[0]["_error"] is True


def test_a_text_cannot_control_the_terminal(workspace: Workspace) -> None:
    content = [{"type": "text", "text": "\x1b[2Jgone"}]
    value = {"words": "a\u202eb\x1b"}
    assert Screen(call(workspace, result={"content": content, "structuredContent": value}).out).lines == [
        "\ufffd[2Jgone",
        "{",
        '  "words": "a\\u202eb\\u001b"',
        "}",
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("jn read '{address}' resource://trials/NCT1", ["a trial"]),
        ("jn cat '{address}?resource=resource://trials/NCT1'", ["a trial"]),
        ("jn prompt '{address}' summary style=short", ["user:", "Sum up, short"]),
        ("echo '{{\"a\": [1]}}' | jn filter .", ["{{", '  "a": [', "    1", "  ]", "}}"]),
        ("jn mcp tools '{address}'", ["{{", '  "type": "tool",', '  "name": "steps"', "}}"]),
    ],
)
def test_every_command_that_writes_records_shows_them_to_a_person(
    workspace: Workspace, line: str, shown: list[str]
) -> None:
    address = workspace.serve(STEPS)
    ended = workspace.on_terminal(line.format(address=address))
    assert Screen(ended.out).lines == [text.format() for text in shown]


def test_a_message_of_the_server_removes_the_progress_bar_first(workspace: Workspace) -> None:
    address = workspace.serve({"name": "warned"}, text="all")
    ended = workspace.on_terminal(f"jn call '{address}' warned")
    assert "step 3" in ended.out and Screen(ended.out).lines == ["warning: watch out", "all"]
