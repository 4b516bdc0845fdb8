"""`cat`, `head`, `tail`, `filter`, `put`, `call` as stages of pipelines, against a server that counts its starts."""

from __future__ import annotations

import json

import pytest

from patchbay import exit_codes
from tests.cli.workspace import COUNT, SEARCH, Workspace, launch
from tests.waiting import until

pytestmark = pytest.mark.process


def starts(workspace: Workspace) -> int:
    """Starts of the changing server; each connection starts it once, and once more to ask for its era."""
    return workspace.log().count("start")


def test_cat_writes_one_record_per_content_item(workspace: Workspace) -> None:
    """JN-18, JN-36: NDJSON on standard output, nothing on standard error."""
    workspace.serve(SEARCH)
    ended = workspace.quick(f'jn cat "{workspace.serve(SEARCH)}?tool=search&gene=BRAF"')
    assert (ended.code, ended.err) == (exit_codes.OK, "")
    text = '{"gene": "BRAF"}'
    assert ended.records == [{"type": "tool_result", "tool": "search", "text": text, "mimeType": "text/plain"}]


def test_every_operation_of_an_address_gives_its_records(workspace: Workspace) -> None:
    """JN-8 to JN-11, JN-C14: lists, resources, prompts; without an operation, the resources."""
    address = workspace.serve(SEARCH)
    workspace.profile("trials", launch(address))
    lines = [
        "@trials",
        "@trials?list=tools",
        "@trials?resource=resource://trials/NCT1",
        "@trials?prompt=summary&style=so",
    ]
    found = [workspace.quick(f'jn cat "{line}"').records for line in [*lines, "@trials?list=all"]]
    assert [rows[0]["type"] for rows in found[:4]] == ["resource", "tool", "resource_content", "prompt_message"]
    assert found[3][0]["text"] == "Sum up, so"
    assert [row["_type"] for row in found[4]] == ["tool", "resource", "resource_template", "prompt"]


def test_call_read_and_prompt_take_the_rest_beside_the_address(workspace: Workspace) -> None:
    """JN-2, JN-3, JN-31, JN-71: what stands beside the address wins over what stands in it."""
    address = workspace.serve(SEARCH, COUNT)
    called = workspace.quick(f"jn call '{address}?tool=search&gene=BRAF' gene=TP53 disease='two words'").records
    assert json.loads(called[0]["text"]) == {"disease": "two words", "gene": "TP53"}
    assert json.loads(workspace.quick(f"jn call '{address}' count n=5").records[0]["text"]) == {"n": 5}
    exact = workspace.quick(f"jn call '{address}' count --args '{{\"n\": \"5\"}}'").records
    assert json.loads(exact[0]["text"]) == {"n": "5"}
    assert workspace.quick(f"jn read '{address}' resource://trials/NCT1").records[0]["text"] == "a trial"
    assert workspace.quick(f"jn prompt '{address}' summary style=short").records[0]["text"] == "Sum up, short"


@pytest.mark.parametrize("line", ["jn call '{}'", "jn read '{}?tool=search'", "jn prompt '{}' style=x"])
def test_a_command_of_one_operation_says_what_is_missing(workspace: Workspace, line: str) -> None:
    ended = workspace.quick(line.format(workspace.serve(SEARCH)))
    assert ended.code == exit_codes.USAGE
    assert "expected a" in ended.err


def test_an_error_about_an_address_does_not_show_its_secrets(workspace: Workspace) -> None:
    """THREATS X20."""
    ended = workspace.quick("jn call 'mcp+https://example.org/mcp?header.Authorization=hidden'")
    assert ended.code == exit_codes.USAGE
    assert "https://example.org/mcp (Authorization: ***): expected a tool" in ended.err
    assert "hidden" not in ended.err + ended.out


def test_put_calls_a_tool_once_per_record_over_one_connection(workspace: Workspace) -> None:
    """JN-5, JN-12, JN-C17, J-F8: keys with _ are not arguments, bad lines are reported, the others processed."""
    address = workspace.serve(SEARCH)
    lines = '{"gene": "TP53", "_id": 1}\n\nnot json\n[1]\n{"gene": "BRAF"}\n{"_error": true, "message": "before"}\n'
    ended = workspace.quick(f'jn put --era legacy "{address}?tool=search&disease=x"', lines)
    assert ended.code == exit_codes.FAILED
    assert [row.get("text") or row.get("line") or row["message"] for row in ended.records] == [
        '{"disease": "x", "gene": "TP53"}',
        "not json",
        "[1]",
        '{"disease": "x", "gene": "BRAF"}',
        "before",
    ]
    assert ended.records[1]["type"] == "json_decode_error"
    assert starts(workspace) == 1


def test_call_each_is_put_for_a_tool_beside_the_address(workspace: Workspace) -> None:
    """JN-5: one connection for all records."""
    ended = workspace.quick(f'jn call --era legacy --each "{workspace.serve(COUNT)}" count', '{"n": 1}\n{"n": 2}\n')
    assert [json.loads(row["text"]) for row in ended.records] == [{"n": 1}, {"n": 2}]
    assert (ended.code, starts(workspace)) == (exit_codes.OK, 1)


def test_a_record_whose_call_fails_does_not_end_the_batch(workspace: Workspace) -> None:
    """JN-19: the server dies of the first record; the second is tried with a new connection."""
    ended = workspace.quick(f'jn put --era legacy "{workspace.serve({"name": "die"})}?tool=die"', "{}\n{}\n")
    assert [row["type"] for row in ended.records] == ["mcp_error", "mcp_error"]
    assert ended.code == exit_codes.FAILED


def test_the_exit_code_shows_that_a_tool_reported_an_error(workspace: Workspace) -> None:
    """JN-C18: isError stands in the record."""
    ended = workspace.quick(f'jn cat "{workspace.serve({"name": "fail"})}?tool=fail"')
    assert ended.records[0]["isError"] is True
    assert ended.code == exit_codes.FAILED


def test_records_go_through_filter_into_a_file_and_back(workspace: Workspace) -> None:
    """JN-38: cat, filter, put, and the same read from the file."""
    address = workspace.serve(SEARCH, COUNT)
    pipeline = f"jn cat '{address}?list=tools' | jn filter 'select(.name | contains(\"sea\")) | {{name}}'"
    assert workspace.run(f"{pipeline} | jn put results.json").code == exit_codes.OK
    assert json.loads((workspace.work / "results.json").read_text()) == [{"name": "search"}]
    for ending in ("ndjson", "csv"):
        assert workspace.run(f"jn cat results.json | jn put other.{ending}").code == exit_codes.OK
        assert workspace.quick(f"jn cat other.{ending}").records == [{"name": "search"}]


def test_filter_is_plain_jq_and_says_what_it_cannot_do(workspace: Workspace) -> None:
    """JN-38, JN-C16: several values per record, failures are reported and the other records are processed."""
    ended = workspace.quick("jn filter '.a[]'", '{"a": [1, "x"]}\n{"a": 3}\n{"a": [null]}\n')
    assert ended.records == [1, "x", None]
    assert ended.code == exit_codes.FAILED
    assert "iterate" in ended.err
    assert workspace.quick("jn filter '.a['").code == exit_codes.USAGE


def test_a_file_that_cannot_be_written_changes_nothing(workspace: Workspace) -> None:
    (workspace.work / "kept.json").write_text("[]")
    assert workspace.quick("jn put kept.txt", "{}\n").code == exit_codes.USAGE
    assert workspace.quick("jn put no/folder.json", "{}\n").code == exit_codes.USAGE
    endless = "while echo '{\"a\": 1}'; do sleep 0.1; done"
    assert workspace.run(f"{endless} | timeout -s INT 3 jn put kept.json").code != exit_codes.OK
    assert (workspace.work / "kept.json").read_text() == "[]"
    assert sorted(path.name for path in workspace.work.iterdir()) == ["kept.json"]


def test_a_file_that_cannot_be_written_is_reported_in_one_sentence(workspace: Workspace) -> None:
    """A folder in the place of a file, a full disk, a name without a format."""
    (workspace.work / "folder.json").mkdir()
    (workspace.work / "one.ndjson").write_text("{}\n")
    for line, code, words in (
        ("jn put folder.json", exit_codes.USAGE, "folder.json: expected a file that can be written (Is a directory)"),
        ("jn cat one.ndjson > /dev/full", exit_codes.FAILED, "jn: input or output failed (No space left on device)"),
        ("jn put $PWD/kept.txt", exit_codes.USAGE, "kept.txt: expected a file name that ends with one of"),
    ):
        ended = workspace.run(line, "{}\n")
        assert (ended.code, ended.err.count("\n")) == (code, 1), ended.err
        assert words in ended.err
    assert sorted(path.name for path in workspace.work.iterdir()) == ["folder.json", "one.ndjson"]


def test_tables_are_read_as_spreadsheets_write_them(workspace: Workspace) -> None:
    """J-F12; RFC 4180: a byte order mark, cells of any length, cells that stand under no name."""
    long = "x" * 200_000
    (workspace.work / "sheet.csv").write_text(f"\ufeffname,n\na,{long}\nb,2,3\n")
    rows = [{"name": "a", "n": long}, {"name": "b", "n": "2", "_more": ["3"]}]
    assert workspace.quick("jn cat sheet.csv").records == rows
    assert workspace.quick("jn cat file:sheet.csv").records == rows


def test_head_gives_ten_and_tail_the_last(workspace: Workspace) -> None:
    """JN-36, JN-37, J-F9: a count beside, as -n, none; negative ones are refused."""
    tools = [{"name": f"t{number}"} for number in range(15)]
    address = workspace.serve(*tools)
    names = [tool["name"] for tool in tools]
    for line, expected in [
        (f"jn head '{address}?list=tools'", names[:10]),
        (f"jn head -n 3 '{address}?list=tools'", names[:3]),
        (f"jn tail -n 3 '{address}?list=tools'", names[-3:]),
        (f"jn cat '{address}?list=tools' | jn head 5", names[:5]),
        (f"jn cat '{address}?list=tools' | jn tail", names[-10:]),
        (f"jn cat '{address}?list=tools' | jn head 0", []),
    ]:
        ended = workspace.run(line) if "|" in line else workspace.quick(line)
        assert [row["name"] for row in ended.records] == expected, line
    assert workspace.quick("jn head -n -1").code == exit_codes.USAGE


def test_head_ends_its_producer_and_the_servers_behind_it(workspace: Workspace) -> None:
    """J-F9: an endless source ends, with the exit code of SIGPIPE, and the server's process is gone."""
    address = workspace.serve(COUNT)
    line = f"yes '{{\"n\": 1}}' | jn put --era legacy '{address}?tool=count' | jn head 2; echo ${{PIPESTATUS[*]}} >&2"
    ended = workspace.run(line, seconds=60)
    assert len(ended.records) == 2
    assert ended.err.split() == [str(exit_codes.UNREAD)] * 2 + ["0"]
    assert not server_runs(workspace)


def test_head_ends_a_producer_that_waits_for_its_server(workspace: Workspace) -> None:
    """J-F9: a call that never answers does not keep `put` alive after the reader is gone."""
    address = workspace.serve(COUNT, {"name": "slow"})
    (workspace.work / "one.ndjson").write_text("{}\n")
    line = f"jn call --era legacy --each '{address}' slow < one.ndjson | true; echo ${{PIPESTATUS[0]}}"
    ended = workspace.run(line, seconds=60)
    assert ended.out.split() == [str(exit_codes.UNREAD)]
    assert not server_runs(workspace)


def server_runs(workspace: Workspace) -> bool:
    """Whether a changing server of this desk is still there after a moment."""
    place = str(workspace.work / "tools.json")
    until(lambda: workspace.run(f"pgrep -f '[-]S .*{place}'").code == 1, "the server has ended")
    return False


def test_waiting_for_a_server_ends_with_the_time_given(workspace: Workspace) -> None:
    """--timeout: its own exit code, and a sentence that says what was waited for."""
    ended = workspace.quick(f"jn call --timeout 0.5 '{workspace.serve({'name': 'slow'})}' slow")
    assert ended.code == exit_codes.OVERDUE
    assert "tools/call within 0.5 s" in ended.err
    assert ended.records[0]["type"] == "mcp_error"


def test_a_server_that_cannot_be_reached_has_its_own_exit_code(workspace: Workspace) -> None:
    """JN-1, JN-19: its last words stand on standard error, the failure is a record too."""
    ended = workspace.quick("jn cat 'mcp+stdio:sh -c \"echo broken >&2; exit 3\"?list=tools'")
    assert ended.code == exit_codes.UNREACHABLE
    assert "broken" in ended.err
    assert ended.records[0]["_error"] is True


def test_progress_is_shown_on_a_terminal_and_only_there(workspace: Workspace) -> None:
    """The server's own words and counts; the record stands alone on standard output."""
    line = f"jn call '{workspace.serve({'name': 'steps'})}' steps"
    assert "step 2" in workspace.on_terminal(line).out
    assert workspace.run(line).err == ""


def test_ctrl_c_ends_a_command_cleanly(workspace: Workspace) -> None:
    """JN-1: one line, exit code 130, no server left."""
    ended = workspace.on_terminal(f"jn call '{workspace.serve({'name': 'stuck'})}' stuck", [("step 1", "\x03")])
    assert ended.code == exit_codes.INTERRUPTED
    assert "jn: interrupted" in ended.out
    assert "Traceback" not in ended.out
    assert not server_runs(workspace)
