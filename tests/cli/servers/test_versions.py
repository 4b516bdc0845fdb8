"""`patchbay versions`, `diff` and `rollback`, with and without a running hub (issue 47 item 16)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay import exit_codes
from tests.cli.servers.commands import run_command
from tests.cli.workspace import Ended
from tests.serving.running import Hub, running
from tests.waiting import until

FIRST = 'def look() -> str:\n    """Look once."""\n    return "one"\n'
SECOND = FIRST.replace("once", "twice").replace("one", "two")


def write(folder: Path, text: str) -> None:
    (folder / "servers").mkdir(exist_ok=True)
    (folder / "servers" / "notes.py").write_text(text)


def rows(ended: Ended) -> list[dict[str, object]]:
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that each test has a copy of."""
    folder = tmp_path_factory.mktemp("versions")
    for text in (FIRST, SECOND):
        write(folder, text)
        assert run_command(folder, "disable", "notes").code == 0
        assert run_command(folder, "enable", "notes").code == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A folder whose server notes has two versions, without a running hub."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_the_versions_of_a_server_are_listed_with_the_newest_first(folder: Path) -> None:
    found = rows(run_command(folder, "versions", "notes", "--json"))
    assert [one["number"] for one in found] == list(range(len(found), 0, -1))
    assert [one["current"] for one in found] == [True] + [False] * (len(found) - 1)
    assert found[0]["definition"] != found[-1]["definition"]
    table = run_command(folder, "versions", "notes").out.splitlines()
    assert table[0].split() == ["NUMBER", "TIME", "WHO", "WHY", "VERSION"]
    assert "(current)" in table[1] and len(table) == len(found) + 1


def test_two_versions_are_compared_line_by_line_and_the_exit_code_says_that_they_differ(folder: Path) -> None:
    ended = run_command(folder, "diff", "notes", "1")
    assert ended.code == exit_codes.CHANGED
    assert '-    return "one"' in ended.out.splitlines() and '+    return "two"' in ended.out.splitlines()
    as_json = json.loads(run_command(folder, "diff", "notes", "1", "--json").out)
    assert as_json["old"]["number"] == 1 and [one["text"] for one in as_json["differences"]] == ["definition"]
    same = run_command(folder, "diff", "notes", "1", "1")
    assert (same.code, same.out) == (0, "The versions 1 and 1 of notes are equal.\n")


def test_a_rollback_brings_the_file_back_and_says_how_to_undo_it(folder: Path) -> None:
    newest = rows(run_command(folder, "versions", "notes", "--json"))[0]["number"]
    done = run_command(folder, "rollback", "notes", "1")
    assert done.code == 0, done.err
    assert "notes is as it was in version 1 " in done.out
    assert f"Undo: patchbay rollback notes {newest}" in done.out
    assert (folder / "servers" / "notes.py").read_text() == FIRST
    assert run_command(folder, "call", "/mcp/notes", "look", "--text").out == "one\n"
    assert "already" in run_command(folder, "rollback", "notes", "1").out
    assert run_command(folder, "rollback", "notes", str(newest)).code == 0
    assert (folder / "servers" / "notes.py").read_text() == SECOND


def test_without_a_number_the_previous_version_comes_back(folder: Path) -> None:
    write(folder, FIRST)
    assert run_command(folder, "rollback", "notes").code == 0
    assert (folder / "servers" / "notes.py").read_text() == SECOND
    switched = run_command(folder, "disable", "notes")
    assert switched.code == 0
    assert "-on" in run_command(folder, "diff", "notes").out.splitlines()


def test_a_version_is_named_by_its_identifier_too(folder: Path) -> None:
    oldest = rows(run_command(folder, "versions", "notes", "--json"))[-1]
    assert run_command(folder, "rollback", "notes", str(oldest["version"])).code == 0
    assert (folder / "servers" / "notes.py").read_text() == FIRST


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("versions", "notse"), "did you mean notes"),
        (("rollback", "notes", "99"), "there is no version '99'"),
        (("diff", "notes", "zzz"), "there is no version 'zzz'"),
        (("rollback", "notse"), "did you mean notes"),
    ],
)
def test_a_wrong_name_or_number_is_refused_and_changes_nothing(
    folder: Path, words: tuple[str, ...], sentence: str
) -> None:
    ended = run_command(folder, *words)
    assert ended.code == exit_codes.USAGE
    assert sentence in ended.err and ended.out == ""
    assert (folder / "servers" / "notes.py").read_text() == SECOND


def test_a_server_with_one_version_has_no_earlier_one(tmp_path: Path) -> None:
    write(tmp_path, FIRST)
    ended = run_command(tmp_path, "rollback", "notes")
    assert ended.code == exit_codes.USAGE and "only one version" in ended.err


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    write(tmp_path, FIRST)
    with running(tmp_path) as started:
        yield started


@pytest.mark.process
def test_a_running_hub_serves_the_version_that_was_put_back(tmp_path: Path, hub: Hub) -> None:
    def call() -> str:
        return run_command(tmp_path, "call", f"http://127.0.0.1:{hub.port}/mcp/notes", "look", "--text").out

    assert call() == "one\n"
    write(tmp_path, SECOND)
    until(lambda: call() == "two\n", "the hub serves the second version")
    done = run_command(tmp_path, "rollback", "notes", names_servers=False)
    assert done.code == 0, done.err
    assert call() == "one\n"
    assert (tmp_path / "servers" / "notes.py").read_text() == FIRST
