"""`patchbay run`: a script over the tools of a toolset, of a server, of all servers, and of a hub elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchbay import exit_codes
from tests.catalogue.operating.test_toolset_changes import GIT
from tests.cli.servers.commands import run_command
from tests.serving.running import running

SCRIPTED = {"kind": "toolset", "include": ["git.log"], "listing": {"scripts": "also"}}
CODE = "import release\nprint('looking')\nawait release.log(repo=repo, count=count)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "git.py").write_text(GIT)
    (tmp_path / "servers" / "release.json").write_text(json.dumps(SCRIPTED))
    (tmp_path / "script.py").write_text(CODE)
    return tmp_path


def test_a_script_runs_with_its_inputs_and_prints_what_a_call_prints(folder: Path) -> None:
    """Issue 55, item 5."""
    script = str(folder / "script.py")
    given = ("--input", "repo=/a", "--input", "count=3")
    assert run_command(folder, "run", script, "--toolset", "release", *given, "--text").out == "looking\n/a 3\n"
    ended = run_command(folder, "run", script, "--server", "release", *given)
    first, second = map(json.loads, ended.out.splitlines())
    assert (first["text"], second["text"]) == ("looking\n", "/a 3")
    assert first["structuredContent"]["value"] == "/a 3" and ended.code == exit_codes.OK


def test_a_script_that_fails_names_the_line_and_ends_with_the_code_of_a_failed_call(folder: Path) -> None:
    ended = run_command(
        folder, "run", str(folder / "script.py"), "--toolset", "release", "--input", "repo=/a", "--text"
    )
    assert ended.code == exit_codes.FAILED and "line 3: Name `count` used when not defined" in ended.out


def test_a_server_without_scripts_says_what_to_change(folder: Path) -> None:
    ended = run_command(folder, "run", str(folder / "script.py"), "--server", "git")
    assert ended.code != exit_codes.OK
    assert '/mcp/git runs no scripts: write "listing": {"scripts": "also"}' in ended.err
    whole = run_command(folder, "run", str(folder / "script.py"))
    assert '/mcp runs no scripts: write {"scripts": "also"} into the variable listing' in whole.err


def test_a_script_runs_at_a_hub_elsewhere(folder: Path) -> None:
    with running(folder) as hub:
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        given = ("--input", "repo=/a", "--input", "count=4", "--text")
        ended = run_command(
            elsewhere, "run", str(folder / "script.py"), "--at", f"http://127.0.0.1:{hub.port}/mcp/release", *given
        )
        assert ended.out == "looking\n/a 4\n", ended.err
    both = run_command(folder, "run", str(folder / "script.py"), "--at", "@x", "--toolset", "release")
    assert both.code == exit_codes.USAGE and "expected --toolset or --at, not both" in both.err
    missing = run_command(folder, "run", str(folder / "no.py"), "--toolset", "release")
    assert missing.code == exit_codes.USAGE and "expected a Python file that can be read" in missing.err


def test_a_run_is_repeated_against_its_records(folder: Path) -> None:
    """Issue 55, item 4: no call is made; a difference has the exit code of one."""
    kept = {"PATCHBAY_ACTIVITY_CONTENTS": "keep"}
    given = ("--toolset", "release", "--input", "repo=/a", "--input", "count=3")
    made = run_command(folder, "run", str(folder / "script.py"), *given, variables=kept)
    run = json.loads(made.out.splitlines()[0])["structuredContent"]["run"]
    ended = run_command(folder, "replay", run, variables=kept)
    assert ended.out == f"{run}  release run_script  equal\n1 of 1 results are equal\n" and ended.code == exit_codes.OK
    lost = run_command(folder, "replay", "0123456789abcdef", variables=kept)
    assert lost.code == exit_codes.USAGE and "there is no run 0123456789abcdef" in lost.err


def test_a_rehearsal_lists_the_calls_that_it_does_not_make(folder: Path) -> None:
    given = ("--toolset", "release", "--input", "repo=/a", "--input", "count=3", "--rehearse", "--text")
    ended = run_command(folder, "run", str(folder / "script.py"), *given)
    assert 'were not made: 1\nline 3: release.log(repo="/a", count=3)' in ended.out and ended.code == exit_codes.OK


def test_a_header_without_an_address_says_what_it_needs(folder: Path) -> None:
    for name in ((), ("--toolset", "release")):
        ended = run_command(folder, "run", str(folder / "script.py"), *name, "--header", "X-Key: secret")
        assert ended.code == exit_codes.USAGE and "--header: expected --at with a URL" in ended.err, ended.err
        assert "Traceback" not in ended.err and "secret" not in ended.err
