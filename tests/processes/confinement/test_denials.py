"""Why the system refused something to a tool, as a sentence with the next step (34.20)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from socket import EAI_AGAIN, gaierror

import pytest

from patchbay.processes.confinement.denials import Rules, find_suggestions, suggestion
from patchbay.processes.confinement.paths import AllowedPaths


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("data", "notes/deep", "own", "hub"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def rules(home: Path, sandbox: bool = False) -> Rules:
    paths = AllowedPaths(hidden=(home / "data",), own=(home / "own",), writes=(home / "notes",), kept=(home / "hub",))
    return Rules("notes", paths, sandbox)


def refusal(number: int, path: Path | None = None) -> OSError:
    return OSError(number, os.strerror(number), *([str(path)] if path is not None else []))


def test_a_refused_folder_is_suggested_with_the_page_and_the_file(home: Path) -> None:
    """34.20: what the tool may change, and the line that allows the nearest folder that exists."""
    (home / "letters").mkdir()
    told = rules(home).explain(refusal(errno.EACCES, home / "letters" / "new" / "a.txt"))
    assert f'"writes" (now: {home}/notes)' in told
    assert '"writes": ["~/letters"]' in told
    assert "/servers/notes/settings" in told and "servers/notes.mcp.json" in told
    assert find_suggestions(told) == [("writes", "~/letters")]


def test_the_reason_of_a_wrapped_error_is_found(home: Path) -> None:
    """34.20: libraries raise their own error from the one of the system."""
    (home / "letters").mkdir()
    try:
        try:
            raise refusal(errno.EROFS, home / "letters" / "a")
        except OSError as problem:
            raise ValueError("cannot save") from problem
    except ValueError as problem:
        assert find_suggestions(rules(home).explain(problem)) == [("writes", "~/letters")]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("data/key", "No tool may use the files of the hub itself."),
        ("hub/servers", "No tool may use the files of the hub itself."),
        ("/dev/sda", "may use no devices"),
        ("own/a", ""),
        ("notes/deep/a", ""),
    ],
)
def test_only_what_the_hub_refuses_is_explained(home: Path, place: str, words: str) -> None:
    """34.20: where a tool may write, the permissions of the file are the reason."""
    told = rules(home).explain(refusal(errno.EACCES, home / place))
    assert told == words if not words else words in told
    assert find_suggestions(told) == []


@pytest.mark.parametrize(
    ("problem", "sandbox", "words"),
    [
        (refusal(errno.ENETUNREACH), True, "no network"),
        (gaierror(EAI_AGAIN, "Temporary failure in name resolution"), True, "no network"),
        (gaierror(EAI_AGAIN, "Temporary failure in name resolution"), False, ""),
        (refusal(errno.ENETUNREACH), False, ""),
        (refusal(errno.EROFS, Path("/srv/a")), True, "only context.folder and /tmp"),
        (refusal(errno.EACCES), False, "listen only on a port that the system chooses"),
        (refusal(errno.EPERM), False, "neither signal nor examine processes"),
        (refusal(errno.EFBIG, Path("/srv/a")), False, "at most 1 GiB"),
        (refusal(errno.ENOENT, Path("/srv/a")), False, ""),
    ],
)
def test_network_processes_and_sizes_have_their_own_sentence(
    home: Path, problem: OSError, sandbox: bool, words: str
) -> None:
    """34.20."""
    told = rules(home, sandbox).explain(problem)
    assert words in told if words else not told
    assert ('by removing "sandbox" from the configuration of notes' in told) == (sandbox and bool(words))


@pytest.mark.parametrize(
    "line",
    [
        "touch: cannot touch '{}/letters/a': Permission denied",
        "sh: 1: cannot create {}/letters/a: Permission denied",
        "cp: cannot create regular file '~/letters/a': Permission denied",
    ],
)
def test_the_path_that_a_program_names_is_explained(home: Path, line: str) -> None:
    """34.20: a command says it on standard error."""
    (home / "letters").mkdir()
    assert find_suggestions(rules(home).explain_output(line.format(home))) == [("writes", "~/letters")]
    assert rules(home).explain_output("no such option") == ""


def test_a_name_with_quotes_is_read_back_from_the_message() -> None:
    assert find_suggestions(suggestion(Path('/srv/a "b" ü'))) == [("writes", '/srv/a "b" ü')]


def test_a_suggestion_that_is_no_json_is_passed_over() -> None:
    assert find_suggestions(r'"writes": ["\x"] and "writes": ["/srv/a"]') == [("writes", "/srv/a")]
