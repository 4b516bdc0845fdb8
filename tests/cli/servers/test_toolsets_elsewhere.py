"""`patchbay toolset`, `versions`, `rollback` with `--at`: a toolset of a hub elsewhere, with the key of its maker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from patchbay import exit_codes
from patchbay.cli.commands.patchbay import main
from patchbay.cli.hub_elsewhere import HubElsewhere
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
    reasons = ("put as a whole", "shape on a toolset", "a new toolset")
    assert [one["why"] for one in versions] == [f"saved mine.json for key:ann: {reason}" for reason in reasons]
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


@pytest.mark.parametrize("path", ["/mcp", "/mcp/mine", "/"])
def test_the_hub_is_named_by_the_url_of_its_endpoint_too(place: tuple[str, str], path: str, tmp_path: Path) -> None:
    at = ("--at", place[0] + path, "--header", f"Authorization: Bearer {place[1]}")
    shown = run_command(tmp_path, "toolset", "list", *at)
    assert shown.code == exit_codes.OK and "ADDRESS" in shown.out, shown.err


def test_no_message_shows_the_password_of_the_url(place: tuple[str, str], tmp_path: Path) -> None:
    with_password = place[0].replace("http://", "http://ann:secret@")
    header = ("--header", f"Authorization: Bearer {place[1]}")
    ends = [
        run_command(tmp_path, "toolset", "list", "--at", "http://ann:secret@127.0.0.1:9"),
        run_command(tmp_path, "toolset", "show", "other", "--at", with_password, *header),
        run_command(tmp_path, "toolset", "list", "--at", f"{with_password}/nothing", *header),
        run_command(tmp_path, "toolset", "list", "--at", "ftp://ann:secret@hub.example"),
    ]
    for ended in ends:
        assert ended.code != exit_codes.OK and "secret" not in ended.out + ended.err, ended.err
        assert "ann:***@" in ended.err, ended.err
    assert "Connection refused" not in ends[0].err and "[Errno" not in ends[0].err, "no text of a library"
    assert "'code'" not in "".join(ended.err for ended in ends), "the sentence of the hub, not its JSON"


def test_the_undo_of_a_rollback_shows_no_password_of_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = [
        {"number": None, "cid": "bafkreinew", "removed": False},
        {"number": None, "cid": "bafkreiold", "removed": False},
    ]
    posted: list[dict[str, str]] = []
    monkeypatch.setattr(HubElsewhere, "get", lambda *_: {"versions": versions})
    monkeypatch.setattr(HubElsewhere, "post", lambda hub, path, fields: posted.append(fields))
    done = CliRunner().invoke(main, ["rollback", "mine", "--at", "https://ann:secret@hub.example"])
    assert posted == [{"do": "rollback", "version": "bafkreiold"}], done.output
    assert "patchbay rollback mine bafkreinew --at" in done.output and "https://ann:***@hub.example" in done.output
    assert "secret" not in done.output


def test_a_dollar_sign_in_a_header_says_how_it_is_written(place: tuple[str, str], tmp_path: Path) -> None:
    wrong = run_command(tmp_path, "toolset", "list", "--at", place[0], "--header", "X-Key: a$-b")
    assert wrong.code == exit_codes.USAGE and "$$ for a dollar sign" in wrong.err and "a$-b" not in wrong.err


def test_a_hub_elsewhere_names_no_command_for_the_own_hub(ann: Run) -> None:
    ann("toolset", "new", "mine", "git.log")
    for words, sentence in (
        (("rollback", "mine", "99"), "there is no version '99'; there are: 1"),
        (("toolset", "remove", "mine", "git.log"), "expected one tool at least"),
    ):
        ended = ann(*words)
        assert ended.code != exit_codes.OK and sentence in ended.err and "`patchbay" not in ended.err, ended.err


def test_a_whole_toolset_is_not_put_over_the_change_of_another(ann: Run, tmp_path: Path) -> None:
    ann("toolset", "new", "mine", "git.log")
    shown = json.loads(ann("toolset", "show", "mine", "--json").out)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(shown["definition"] | {"title": "First"}))
    assert ann("toolset", "put", "mine", str(file), "--base", shown["cid"]).code == exit_codes.OK
    file.write_text(json.dumps(shown["definition"] | {"title": "Second"}))
    late = ann("toolset", "put", "mine", str(file), "--base", shown["cid"])
    assert late.code != exit_codes.OK and "another configuration was saved meanwhile" in late.err, late.err
    assert json.loads(ann("toolset", "show", "mine", "--definition").out)["title"] == "First"
    assert ann("toolset", "put", "mine", str(file)).code == exit_codes.OK, "without a base it is as before"


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
