"""The commands about servers beside one running hub: what it serves follows them at once (issue 17 item 4)."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.servers.commands import run_command
from tests.cli.workspace import Ended
from tests.client.reaching import SCRIPTED
from tests.serving.running import Hub, running
from tests.waiting import until

pytestmark = pytest.mark.process

NOTES = '''"""Notes of the team."""

import os
import sys


def pid() -> int:
    """Return the process that runs this."""
    print("looking", file=sys.stderr)
    return os.getpid()


def fail(reason: str, loudly: bool = False) -> str:
    """Fail with a reason."""
    raise ValueError(reason)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the hub."""
    made = tmp_path_factory.mktemp("hub")
    (made / "servers").mkdir()
    (made / "servers" / "notes.py").write_text(NOTES)
    (made / "servers" / "broken.py").write_text("def (\n")
    return made


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    """A running hub; commands find it by its data folder alone."""
    with running(folder, "--servers", str(folder / "servers")) as started:
        yield started


def command(folder: Path, *words: str) -> Ended:
    """A command that names the data folder only: the hub knows its servers folder and its port."""
    return run_command(folder, *words, names_servers=False)


def rows(folder: Path) -> dict[str, dict[str, object]]:
    ended = command(folder, "list", "--json")
    assert ended.code == 0, ended.err
    return {row["name"]: row for row in json.loads(ended.out)}


def call(folder: Path, hub: Hub, *words: str) -> str:
    ended = command(folder, "call", f"http://127.0.0.1:{hub.port}/mcp/notes", *words, "--text")
    return ended.out


def test_it_names_the_next_command_after_its_start(folder: Path, hub: Hub) -> None:
    assert "`patchbay list` shows the servers" in hub.line_with("Next")


def test_the_list_says_state_place_and_problem_of_each_server(folder: Path, hub: Hub) -> None:
    found = rows(folder)
    assert (found["notes"]["state"], found["notes"]["tools"], found["notes"]["origin"]) == ("on", 2, "servers/notes.py")
    assert found["broken"]["state"] == "broken"
    assert "line 1" in str(found["broken"]["problem"])
    table = command(folder, "list")
    assert table.out.splitlines()[0].split() == ["NAME", "KIND", "STATE", "TOOLS", "ORIGIN", "PROBLEM"]
    assert f"The hub runs at http://127.0.0.1:{hub.port}" in table.err


def test_a_server_is_shown_with_signatures_and_the_next_command(folder: Path, hub: Hub) -> None:
    shown = command(folder, "show", "notes").out
    assert "  fail(reason: string, loudly?: boolean)  Fail with a reason." in shown
    assert f"address  http://127.0.0.1:{hub.port}/mcp/notes" in shown
    assert "Next: patchbay call /mcp/notes pid" in shown
    assert "line 1" in command(folder, "show", "broken").out
    assert json.loads(command(folder, "show", "notes", "--json").out)["tools"][0]["input"]["type"] == "object"


def test_a_server_is_switched_off_and_on(folder: Path, hub: Hub) -> None:
    off = command(folder, "disable", "notes")
    assert off.out == "notes is switched off. Undo: patchbay enable notes\n"
    assert hub.get("/mcp/meta/notes.json")[0] == 200
    assert rows(folder)["notes"]["state"] == "off"
    assert command(folder, "disable", "notes").out == "notes is off already.\n"
    assert command(folder, "enable", "notes").out == "notes is switched on. Undo: patchbay disable notes\n"
    assert rows(folder)["notes"]["state"] == "on"


def test_a_removed_server_is_no_longer_served_until_it_is_restored(folder: Path, hub: Hub) -> None:
    new = command(folder, "new", "spare")
    assert f"Address: http://127.0.0.1:{hub.port}/mcp/spare" in new.out
    text = (folder / "servers" / "spare.py").read_bytes()
    removed = command(folder, "remove", "spare", "--yes")
    assert "Undo: patchbay restore spare" in removed.out
    until(lambda: "spare" not in rows(folder), "no worker serves it")
    assert not (folder / "servers" / "spare.py").exists()
    assert "Undo: patchbay remove spare" in command(folder, "restore", "spare").out
    until(lambda: rows(folder).get("spare", {}).get("state") == "on", "it is served again")
    assert (folder / "servers" / "spare.py").read_bytes() == text


def test_a_restarted_python_server_runs_in_a_new_process(folder: Path, hub: Hub) -> None:
    before = call(folder, hub, "pid")
    assert call(folder, hub, "pid") == before
    assert "notes is restarted" in command(folder, "restart", "notes").out
    until(lambda: call(folder, hub, "pid") != before, "the next call runs in a new process")


def test_a_restarted_mount_has_a_new_program(folder: Path, hub: Hub) -> None:
    address = f"mcp+stdio:{shlex.quote(sys.executable)} -S {shlex.quote(str(SCRIPTED))}"
    assert command(folder, "new", "piped", "--remote", address).code == 0
    until(lambda: rows(folder)["piped"]["state"] == "on", "the mount answers")

    def began() -> float:
        return float(json.loads(command(folder, "show", "piped", "--json").out)["upstream"]["since"])

    since = began()
    restarted = command(folder, "restart", "piped")
    assert (restarted.code, "connected" in restarted.out) == (0, True), restarted
    until(lambda: began() > since, "every worker has a new program")
    assert "piped: connected (MCP " in command(folder, "logs", "piped").err


def test_the_logs_have_calls_what_tools_wrote_and_why_they_failed(folder: Path, hub: Hub) -> None:
    call(folder, hub, "pid")
    call(folder, hub, "fail", "reason=no luck")
    until(lambda: "no luck" in command(folder, "logs", "notes").out, "the record of the call")
    lines = command(folder, "logs", "notes").out
    assert "warning: looking" in lines
    assert "tool_error" in lines
    only = [json.loads(line) for line in command(folder, "logs", "notes", "--errors", "--json").out.splitlines()]
    assert {(record["name"], record["outcome"]) for record in only} == {("fail", "tool_error")}
    assert command(folder, "logs", "echo").out == ""


def test_a_call_and_the_logs_show_the_line_of_the_code_that_raised(folder: Path, hub: Hub) -> None:
    """Issue 47 item 5: the command line is the operator of its own hub; a caller without its token is not."""
    place, text = "notes.py, line 15, in fail", "raise ValueError(reason)"
    called = command(folder, "call", "/mcp/notes", "fail", "reason=no rain")
    assert called.code == 1
    assert place in called.err and text in called.err
    assert "io.patchbay/raised" not in called.out
    stranger = command(folder, "call", f"http://127.0.0.1:{hub.port}/mcp/notes", "fail", "reason=no snow")
    assert "no snow" in stranger.out and text not in stranger.out + stranger.err
    until(lambda: "no snow" in command(folder, "logs", "notes").out, "the record of the call")
    lines = command(folder, "logs", "notes", "--errors").out
    assert place in lines.partition("no rain")[2] and text in lines.partition("no snow")[2]
    until(lambda: sum("no snow" in line for line in hub.lines) > 0, "the log has it")
    assert sum("no snow" in line for line in hub.lines) == 1
    assert not any("patchbay/kinds" in line for line in hub.lines)


def test_the_logs_say_why_a_call_was_refused(folder: Path, hub: Hub) -> None:
    """Issue 47 item 6: refused arguments, and a tool that is not there."""
    call(folder, hub, "fail", "reason=x", "loudly=maybe")
    call(folder, hub, "missing_tool")
    until(lambda: "missing_tool" in command(folder, "logs", "notes").out, "the records of the calls")
    lines = command(folder, "logs", "notes", "--errors").out
    assert "    the arguments do not fit fail: " in lines, lines
    assert "    there is no tool 'missing_tool' on notes" in lines


def test_open_prints_an_address_that_logs_in_once(folder: Path, hub: Hub) -> None:
    printed = command(folder, "open", "notes", "--print")
    address = printed.out.strip()
    assert address.startswith(f"http://127.0.0.1:{hub.port}/login?once=")
    assert address.endswith("&next=%2Fmcp%2Fmeta%2Fnotes")
    path = address.removeprefix(f"http://127.0.0.1:{hub.port}")
    assert hub.get(path)[0] == 303
    assert hub.get(path)[0] == 401


def test_a_second_hub_on_a_folder_exits_with_the_address_of_the_first(folder: Path, hub: Hub) -> None:
    ended = command(folder, "serve", "--port", str(hub.port))
    assert ended.code == 3
    assert f"A hub runs at http://127.0.0.1:{hub.port} already: `patchbay open` shows it" in ended.err
