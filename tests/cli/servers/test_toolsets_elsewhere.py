"""`patchbay toolset`, `versions`, `rollback` with `--at`: a toolset of a hub elsewhere, with the key of its maker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from patchbay import exit_codes
from tests.catalogue.operating.test_toolset_changes import GIT
from tests.cli.servers.commands import run_command
from tests.cli.workspace import Ended
from tests.serving.running import running

GRANTS = {
    "grants": [
        {"to": ["key:ann"], "may": ["operate"], "on": ["mine"]},
        {"to": ["key:ann"], "may": ["call"], "on": ["git.log", "git.diff"]},
    ]
}

Run = Callable[..., Ended]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URL of a running hub, and the key of a maker there."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "servers").mkdir()
    (folder / "servers" / "git.py").write_text(GIT)
    with running(folder, "--access", "shared") as hub:
        key = run_command(folder, "key", "new", "ann").out.strip()
        url = f"http://127.0.0.1:{hub.port}"
        headers = {**hub.as_operator(), "Content-Type": "text/plain"}
        answer = httpx2.put(f"{url}/variables/access", content=json.dumps(GRANTS), headers=headers)
        assert answer.status_code in (200, 201), answer.text
        yield url, key


@pytest.fixture
def ann(place: tuple[str, str], tmp_path: Path) -> Run:
    """Run a command on a machine without a hub, with the key in the environment."""
    url, key = place
    at = ("--at", url, "--header", "Authorization: Bearer ${KEY}")
    return lambda *words: run_command(tmp_path, *words, *at, variables={"KEY": key})


def test_a_maker_puts_shows_and_rolls_back_one_toolset_of_a_hub_elsewhere(ann: Run, tmp_path: Path) -> None:
    made = ann("toolset", "new", "mine", "git.log", "--title", "Mine")
    assert made.code == exit_codes.OK and "/mcp/mine: 1 tool, " in made.out, made.err
    assert "history  git.log" in ann("toolset", "rename", "mine", "log", "history").out
    shown = ann("toolset", "show", "mine", "--definition").out
    assert json.loads(shown) == {
        **{"kind": "toolset", "rights": "caller", "title": "Mine"},
        "tools": {"history": "git.log"},
    }
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(json.loads(shown) | {"title": "Ours", "include": ["git.diff"]}))
    assert "diff" in ann("toolset", "put", "mine", str(file)).out
    assert json.loads(ann("toolset", "show", "mine", "--definition").out)["title"] == "Ours"
    versions = [json.loads(line) for line in ann("versions", "mine", "--json").out.splitlines()]
    assert [one["number"] for one in versions] == [3, 2, 1]
    assert [one["current"] for one in versions] == [True, False, False] and " (current)" in ann("versions", "mine").out
    back = ann("rollback", "mine")
    assert "is as it was in version 2" in back.out and "patchbay rollback mine 3 --at http" in back.out, back.err
    assert json.loads(ann("toolset", "show", "mine", "--definition").out) == json.loads(shown)
    assert "/mcp/mine" in ann("toolset", "list").out
    assert not (tmp_path / "data").exists() and not (tmp_path / "servers").exists(), "nothing is made here"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("toolset", "show", "git", "--definition"), "ask the operator of the server whether your key has access"),
        (("versions", "git"), "ask the operator of the server whether your key has access"),
        (("toolset", "new", "other", "git.log"), "only the operator"),
        (("toolset", "new", "mine2", "git.log", "--from-calls", "7d"), "expected no --from-calls"),
        (("rollback", "other"), "ask the operator of the server whether your key has access"),
    ],
)
def test_a_refusal_is_the_sentence_of_the_hub(ann: Run, words: tuple[str, ...], sentence: str) -> None:
    ended = ann(*words)
    assert ended.code != exit_codes.OK and sentence in ended.err.lower(), ended.err


def test_what_is_no_toolset_is_not_put(ann: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    for text, sentence in (
        ('{"kind": "upstream", "address": "mcp+stdio:id"}', "expected 'toolset'"),
        ("[]", "expected the JSON object of a toolset"),
        ("{", "expected the JSON of a toolset"),
        ('{"kind": "toolset", "include": ["git.push"]}', "there is no such entry that you may use"),
        ('{"kind": "toolset", "rights": "definer", "include": ["git.log"]}', "only the operator"),
    ):
        file.write_text(text)
        ended = ann("toolset", "put", "mine", str(file))
        assert ended.code == exit_codes.USAGE and sentence in ended.err, ended.err


def test_mistakes_of_the_address_and_the_key_are_named(place: tuple[str, str], tmp_path: Path) -> None:
    wrong = run_command(tmp_path, "toolset", "list", "--at", "hub.example")
    assert wrong.code == exit_codes.USAGE and "expected the URL of a hub" in wrong.err
    alone = run_command(tmp_path, "toolset", "list", "--header", "Authorization: Bearer x")
    assert alone.code == exit_codes.USAGE and "expected --at with a URL too" in alone.err
    away = run_command(tmp_path, "toolset", "list", "--at", "http://127.0.0.1:9")
    assert away.code == exit_codes.UNREACHABLE and "cannot be reached" in away.err
    unset = run_command(tmp_path, "toolset", "list", "--at", place[0], "--header", "Authorization: Bearer ${NO_KEY}")
    assert unset.code == exit_codes.USAGE and "NO_KEY" in unset.err
    refused = run_command(tmp_path, "toolset", "list", "--at", place[0], "--header", "Authorization: Bearer wrong")
    assert refused.code == exit_codes.SIGN_IN and "wrong" not in refused.err.replace("wrong key", ""), refused.err


def test_a_toolset_of_the_own_hub_is_put_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "git.py").write_text(GIT)
    file = tmp_path / "release.json"
    file.write_text('{"kind": "toolset", "include": ["git.log"]}')
    assert "log" in run_command(tmp_path, "toolset", "put", "release", str(file)).out
    file.write_text('{"kind": "toolset", "include": ["git.lgo"]}')
    wrong = run_command(tmp_path, "toolset", "put", "release", str(file))
    assert wrong.code == exit_codes.USAGE and "did you mean git.log?" in wrong.err
    assert json.loads(run_command(tmp_path, "toolset", "show", "release", "--definition").out)["include"] == ["git.log"]
