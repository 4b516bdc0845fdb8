"""What people read and write on a terminal: plain text, signatures, near names, tables, closed streams.

Issue 12 part 17.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from patchbay import exit_codes
from tests.cli.workspace import COUNT, SEARCH, Workspace

pytestmark = pytest.mark.process

PICK = {
    "name": "pick",
    "inputSchema": {
        "type": "object",
        "properties": {
            "how": {"enum": ["fast", "safe"], "default": "safe"},
            "n": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        },
        "required": ["n"],
    },
    "outputSchema": {"type": "object", "properties": {"found": {"type": "boolean"}}},
}


@pytest.mark.parametrize("words", ["filter .", "head", "put out.json", "put '{}?tool=count'", "profile create x"])
def test_a_closed_standard_input_is_reported_in_one_sentence(workspace: Workspace, words: str) -> None:
    ended = workspace.run(f"jn {words.format(workspace.serve(COUNT))} <&-")
    assert ended.code == exit_codes.USAGE
    assert ended.err == "jn: standard input: expected records, but it is closed; pipe records in, or name a file\n"


def test_a_closed_stream_of_a_served_hub_or_of_the_plugin_is_reported_in_one_sentence(workspace: Workspace) -> None:
    closed = workspace.run("patchbay stdio echo <&-")
    sentence = "patchbay: standard input: expected a client that writes to it, but it is closed\n"
    assert (closed.code, closed.err) == (exit_codes.USAGE, sentence)
    unread = workspace.run("patchbay stdio echo </dev/null >&-")
    sentence = "patchbay: standard output: expected a client that reads it, but it is closed\n"
    assert (unread.code, unread.err) == (exit_codes.USAGE, sentence)
    plugin = f"{sys.executable} -m patchbay.client.plugin --mode write '{workspace.serve(COUNT)}?tool=count'"
    unread = workspace.run(f"{plugin} </dev/null >&-")
    sentence = "mcp_.py: standard output: expected a program that reads records, but it is closed\n"
    assert (unread.code, unread.err) == (1, sentence)
    ended = workspace.run(f"{plugin} <&-")
    assert ended.records[-1]["message"] == "standard input: expected records, but it is closed"
    assert ended.err.startswith("mcp_.py: ") and ended.err.count("\n") == 1  # it says that it confines no program


def test_a_closed_standard_error_changes_no_answer(workspace: Workspace) -> None:
    ended = workspace.run(f"jn call '{workspace.serve(COUNT, text='five')}' count n=5 2>&- <&-")
    assert (ended.code, ended.records[0]["text"]) == (exit_codes.OK, "five")


def test_the_cells_of_a_table_take_the_types_that_the_tool_wants(workspace: Workspace) -> None:
    """Numbers, lists and empty cells; a text stays a text where the tool takes one."""
    rows = 'how,n,tags,limit\nfast,5,a,\nsafe,7,"[""b"", ""c""]",3\n,9,,\n'
    (workspace.work / "rows.csv").write_text(rows)
    address = workspace.serve(PICK | {"outputSchema": None})
    ended = workspace.run(f"jn cat rows.csv | jn put '{address}?tool=pick'")
    assert ended.code == exit_codes.OK, ended.err
    asked = [json.loads(row.removeprefix("call pick ")) for row in workspace.log() if row.startswith("call")]
    assert asked == [
        {"how": "fast", "n": 5, "tags": ["a"]},
        {"how": "safe", "n": 7, "tags": ["b", "c"], "limit": 3},
        {"n": 9},
    ]


def test_a_tool_that_does_not_exist_suggests_the_nearest(workspace: Workspace) -> None:
    address = workspace.serve({**COUNT, "name": "fail_late"})
    assert "there is no tool 'fail'; did you mean 'fail_late'?" in workspace.quick(f"jn call '{address}' fail n=1").err
    address = workspace.serve(SEARCH, COUNT)
    assert "there is no tool 'serch'; did you mean 'search'?" in workspace.quick(f"jn mcp schema '{address}' serch").err
    assert "there is no tool 'xyz'; there are: count, search" in workspace.quick(f"jn mcp schema '{address}' xyz").err


def test_an_answer_is_written_as_plain_text_when_asked_for(workspace: Workspace) -> None:
    address = workspace.serve(COUNT, text="one\\ttwo")
    assert workspace.quick(f"jn call '{address}' count n=1 --text").out == "one\\ttwo\n"
    assert workspace.quick(f"jn cat '{address}?tool=count' --text").out == "one\\ttwo\n"
    piped = workspace.run(f"jn call '{address}' count n=1 | jn filter -r '.text, .missing, 7'")
    assert piped.out == "one\\ttwo\nnull\n7\n"


def test_text_on_a_terminal_cannot_steer_it(workspace: Workspace) -> None:
    address = workspace.serve(COUNT, text="a\x1b]0;title\x07b")
    shown = workspace.on_terminal(f"jn call '{address}' count n=1 --text").out
    assert "\x1b]0;" not in shown
    assert "]0;title" in shown


def test_a_tool_is_shown_as_one_line_with_types_choices_and_defaults(workspace: Workspace) -> None:
    out = workspace.quick(f"jn inspect '{workspace.serve(PICK)}'").out
    line = 'pick(how?: "fast" | "safe" = "safe", n: integer, tags?: string[], limit?: integer | null = null)'
    assert f"    {line} -> {{found: boolean}}\n" in out


def test_the_contract_that_is_printed_can_be_expected_without_a_profile(workspace: Workspace) -> None:
    address = workspace.serve(COUNT, text="five")
    cid = workspace.quick(f"jn mcp hash '{address}' --kind cid").out.strip()
    sha256 = workspace.quick(f"jn mcp hash '{address}' --kind sha256").out.strip()
    both = workspace.quick(f"jn mcp hash '{address}'")
    assert (both.out, both.err) == (f"{sha256}\n", f"Digest of the tools: {cid}\n")
    assert f"\nDigest of the tools: {cid}\n" in workspace.quick(f"jn inspect '{address}'").out
    call = f"jn call '{address}?schema={cid}' count n=5"
    assert workspace.quick(call).records[0]["text"] == "five"
    workspace.serve(COUNT | {"description": "Counts otherwise"})
    refused = workspace.quick(call)
    assert refused.code == exit_codes.CHANGED
    assert f"The contract is not the one of {cid}" in refused.err


def test_a_warning_begins_with_what_breaks_the_tool_in_use_and_counts_the_rest(workspace: Workspace) -> None:
    """JN-46: six changes are shown."""
    old: list[dict[str, Any]] = [
        {"name": f"tool{n}", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
        for n in range(9)
    ]
    address = workspace.serve(*old)
    workspace.quick(f"jn profile new mcp many '{address}'")
    new = [{**one, "inputSchema": {**one["inputSchema"], "required": ["a"]}} for one in old]
    workspace.serve(*new, text="ok")
    lines = workspace.quick("jn call @many tool7 a=x").err.splitlines()
    start = lines.index("Changes detected:")
    assert "'tool7'" in lines[start + 1]
    assert lines[start + 7] == "  and 3 more, which 'jn profile validate many' shows"


def test_a_closed_connection_is_reported_once(workspace: Workspace) -> None:
    (workspace.work / "ends.py").write_text("import sys; sys.stdin.readline(); sys.exit(3)\n")
    told = workspace.quick("jn inspect 'mcp+python://ends.py'").err
    assert told.lower().count("connection closed") == 1
    assert "exit code 3" in told


def test_a_message_beyond_the_limit_is_reported_with_the_limit(workspace: Workspace) -> None:
    code = "import sys; sys.stdin.readline(); print('{' + ' ' * (33 << 20), end='', flush=True); sys.stdin.read()"
    (workspace.work / "large.py").write_text(code)
    told = workspace.quick("jn inspect 'mcp+python://large.py'").err
    assert "it wrote a line of more than 33554432 bytes, which is the limit of one message" in told
    assert "no JSON-RPC message" not in told
