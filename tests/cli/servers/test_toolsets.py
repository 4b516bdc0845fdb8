"""`patchbay toolset`, without a hub and with a running one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchbay import exit_codes
from tests.catalogue.operating.test_toolset_changes import GIT
from tests.cli.servers.commands import run_command
from tests.serving.running import running
from tests.waiting import until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "git.py").write_text(GIT)
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the toolset `release`, for commands that are refused: they change nothing."""
    folder = tmp_path_factory.mktemp("toolsets")
    (folder / "servers").mkdir()
    (folder / "servers" / "git.py").write_text(GIT)
    assert run_command(folder, "toolset", "new", "release", "git.log", "git.push").code == exit_codes.OK
    return folder


def test_a_toolset_is_made_changed_and_shown_with_its_price(folder: Path) -> None:
    """Issue 54, item 4: without JSON; each step prints what the list costs then."""
    made = run_command(folder, "toolset", "new", "release", "git.log", "git/diff")
    assert made.code == exit_codes.OK and "/mcp/release: 2 tools, " in made.out and "tokens" in made.out
    assert "Undo: patchbay remove release" in made.err
    assert "history  git.log" in run_command(folder, "toolset", "rename", "release", "log", "history").out
    run_command(folder, "toolset", "set", "release", "history", "--fix", "repo=/srv", "--description", "The past.")
    shown = json.loads(run_command(folder, "toolset", "show", "release", "--json").out)
    assert [(tool["name"], tool["description"]) for tool in shown["tools"]] == [
        ("history", "The past."),
        ("diff", "Show the changes."),
    ]
    assert "diff" not in run_command(folder, "toolset", "remove", "release", "diff").out
    assert "push" in run_command(folder, "toolset", "add", "release", "git.push").out
    listed = run_command(folder, "toolset", "list").out
    assert "/mcp/release" in listed and "/mcp " in listed
    called = run_command(folder, "call", "release", "history", "count=3", "--text")
    assert called.out == "/srv 3\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("new x git.lgo", "did you mean git.log?"),
        ("add relaese git.log", "did you mean release?"),
        ("remove release lgo", "did you mean log"),
        ("rename release lgo x", "did you mean log?"),
        ("set release log --fix rep=1", "did you mean repo?"),
        ("set release log --fix repo", "expected ARGUMENT=VALUE"),
        ("show relaese", "did you mean release"),
        ("add mcp jqq", "did you mean jq"),
        ("new x --by ann", "expected --from-calls too"),
        ("new x --from-calls yesterday", "--from-calls must be a time such as 15m"),
    ],
)
def test_a_mistake_names_the_nearest_word_and_changes_nothing(made: Path, words: str, sentence: str) -> None:
    before = {path: path.read_bytes() for path in (made / "servers").iterdir()}
    ended = run_command(made, "toolset", *words.split())
    assert ended.code == exit_codes.USAGE and sentence in ended.err, ended
    assert {path: path.read_bytes() for path in (made / "servers").iterdir()} == before


def test_a_toolset_is_made_of_what_a_key_may_call(folder: Path) -> None:
    run_command(folder, "toolset", "new", "release", "git.log")
    run_command(folder, "key", "new", "laptop", "--grants", "call:git.log,call:git.d*,call:release")
    run_command(folder, "key", "new", "empty", "--grants", "call:nothing")
    assert run_command(folder, "toolset", "new", "mine", "--from-key", "laptop").code == exit_codes.OK
    assert sorted(json.loads((folder / "servers" / "mine.json").read_text())["include"]) == ["git.diff", "git.log"]
    wrong = run_command(folder, "toolset", "new", "other", "--from-key", "laptpo")
    assert wrong.code == exit_codes.USAGE and "there is no key 'laptpo'; did you mean 'laptop'?" in wrong.err
    assert "the key empty may call no tool" in run_command(folder, "toolset", "new", "other", "--from-key", "empty").err
    with running(folder, "--servers", str(folder / "servers")):
        made = run_command(folder, "toolset", "new", "third", "--from-key", "laptop").out
        assert "/mcp/third: 2 tools" in made and "git.push" not in made


def test_a_key_brings_the_tools_of_servers_whose_names_have_a_dot_and_none_of_such_toolsets(folder: Path) -> None:
    (folder / "servers" / "my.git.py").write_text(GIT.replace("def log", "def trail"))
    run_command(folder, "toolset", "new", "work.old", "git.push")
    run_command(folder, "toolset", "new", "again", "work.old.push")
    run_command(folder, "key", "new", "laptop", "--grants", "call:my.git,call:work.old,call:again")
    made = run_command(folder, "toolset", "new", "mine", "--from-key", "laptop")
    assert made.code == exit_codes.OK, made
    chosen = json.loads((folder / "servers" / "mine.json").read_text())["include"]
    assert sorted(chosen) == ["my.git.diff", "my.git.push", "my.git.trail"]
    with running(folder, "--servers", str(folder / "servers")):
        assert "/mcp/other: 3 tools" in run_command(folder, "toolset", "new", "other", "--from-key", "laptop").out


def test_the_list_of_all_servers_says_what_is_not_in_it(folder: Path) -> None:
    shown = run_command(folder, "toolset", "show", "mcp").out
    assert shown.startswith("/mcp: 3 tools, ") and "`patchbay toolset add mcp arbor` puts arbor into it." in shown
    assert "jq__keys" in run_command(folder, "toolset", "add", "mcp", "jq").out
    assert "jq__keys" not in run_command(folder, "toolset", "remove", "mcp", "jq").out


def test_doctor_names_the_nearest_word_for_a_pattern_of_the_list_that_matches_nothing(folder: Path) -> None:
    """Issue 54, item 3: a misspelt pattern silently left 0 tools."""
    run_command(folder, "toolset", "remove", "mcp", "git.push")
    (folder / "servers" / "git.py").write_text(GIT.replace("push", "pull"))
    found = json.loads(run_command(folder, "doctor", "--json").out)
    (verdict,) = [one for one in found if one["check"] == "the list at /mcp"]
    assert verdict["grade"] == "warning" and "no tool matches git.push" in verdict["sentence"]


@pytest.mark.process
def test_a_running_hub_makes_the_changes_and_its_calls_choose_tools(folder: Path) -> None:
    """The tools that were really called, those with the most calls first; what is gone since is left out."""
    with running(folder, "--servers", str(folder / "servers")):
        for words in ("log repo=a", "log repo=b", "diff path=c"):
            assert run_command(folder, "call", "git", *words.split()).code == exit_codes.OK
        recorded = lambda: run_command(folder, "logs", "git", "--json").out.count("\n") == 3  # noqa: E731
        until(recorded, "the calls are recorded")
        assert run_command(folder, "toolset", "new", "mine", "--from-calls", "1h").code == exit_codes.OK
        assert json.loads((folder / "servers" / "mine.json").read_text())["include"] == ["git.log", "git.diff"]
        assert "past  git.log" in run_command(folder, "toolset", "rename", "mine", "log", "past").out
        assert "did you mean past" in run_command(folder, "toolset", "remove", "mine", "pasd").err
        assert run_command(folder, "call", "mine", "past", "repo=z", "--text").out == "z 1\n"
        refused = run_command(folder, "toolset", "new", "other", "--from-calls", "1h", "--by", "nobody-known")
        assert "no call of a tool is recorded since 1h of nobody-known; the callers are" in refused.err
        assert run_command(folder, "toolset", "add", "mcp", "jq").code == exit_codes.OK
        assert "jq" not in run_command(folder, "toolset", "show", "mcp").out.partition("Not in this list")[2]


CODE = """import release


async def logs(count: int) -> str:
    return await release.log(repo='/a', count=count)
"""


def test_a_script_is_added_as_a_tool_and_replaced(folder: Path) -> None:
    """Issue 55, item 5."""
    file = folder / "logs.py"
    file.write_text(CODE)
    run_command(folder, "toolset", "new", "release", "git.log")
    assert "logs  script" in run_command(folder, "toolset", "add", "release", "--script", str(file)).out
    assert run_command(folder, "call", "release", "logs", "count=3", "--text").out == "/a 3\n"
    file.write_text(CODE.replace("'/a'", "'/b'"))
    run_command(folder, "toolset", "set", "release", "logs", "--script", str(file), "--title", "Logs")
    assert run_command(folder, "call", "release", "logs", "count=3", "--text").out == "/b 3\n"
    assert "past" in run_command(folder, "toolset", "add", "release", "--script", str(file), "--as", "past").out
    assert "logs" not in run_command(folder, "toolset", "remove", "release", "logs").out
    file.write_text(CODE.replace("count: int", "count"))
    refused = run_command(folder, "toolset", "add", "release", "--script", str(file))
    assert refused.code == exit_codes.USAGE and "logs.py: at line 4: the parameter count has no type" in refused.err
    assert "expected at least one tool" in run_command(folder, "toolset", "add", "release").err
    assert "expected --script too" in run_command(folder, "toolset", "add", "release", "git.log", "--as", "x").err
