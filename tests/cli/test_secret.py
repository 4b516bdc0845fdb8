"""`patchbay secret`: a value comes from no argument and is printed nowhere. Issue 56, 1."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchbay.access.hub_key import KEY_FILE, load_key
from patchbay.access.secrets.names import SecretRefused
from patchbay.access.secrets.records import Secrets
from patchbay.cli.commands.patchbay import main
from patchbay.stores import open_store

VALUE = "a-very-secret-value"


def run(folder: Path, *arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["secret", *arguments, "--data", str(folder)], input=given)


def find(folder: Path, name: str, server: str = "any") -> str | None:
    store = open_store("sqlite", folder)
    try:
        return Secrets(store, load_key(folder)).find(name, server)
    finally:
        store.close()


def test_a_value_comes_from_standard_input_or_a_file_and_is_printed_nowhere(tmp_path: Path) -> None:
    (tmp_path / "value").write_text(f"{VALUE} of a file\n")
    made = run(tmp_path, "set", "TOKEN", "-", given=f"{VALUE}\n")
    again = run(tmp_path, "set", "OTHER", str(tmp_path / "value"), "--for", "github, tracker")
    listed = run(tmp_path, "list")
    assert (made.exit_code, again.exit_code, listed.exit_code) == (0, 0, 0), made.output + again.output
    assert find(tmp_path, "TOKEN") == VALUE
    assert find(tmp_path, "OTHER", "github") == f"{VALUE} of a file"
    with pytest.raises(SecretRefused):
        find(tmp_path, "OTHER", "stranger")
    head, other, token = listed.stdout.splitlines()
    assert head.split() == ["NAME", "FOR", "SINCE", "USED", "BY", "LAST", "USED"]
    assert other.startswith("OTHER ") and "github, tracker" in other and "not yet" in other
    assert token.startswith("TOKEN ") and " all " in token
    assert VALUE not in made.output + again.output + listed.output


def test_a_value_as_an_argument_is_refused_without_being_repeated(tmp_path: Path) -> None:
    for arguments in (("set", "TOKEN", VALUE), ("set", "TOKEN", VALUE, "more"), ("set", f"TOKEN={VALUE}", "-")):
        refused = run(tmp_path, *arguments, given="x")
        assert refused.exit_code == 2, refused.output
        assert VALUE not in refused.output, refused.output
    without_terminal = run(tmp_path, "set", "TOKEN")
    assert without_terminal.exit_code == 2
    assert "patchbay secret set TOKEN FILE" in without_terminal.output
    assert "patchbay secret rotate TOKEN FILE" in run(tmp_path, "rotate", "TOKEN").output


def test_rotate_replaces_a_known_value_only_and_keeps_its_servers(tmp_path: Path) -> None:
    assert "there is no secret 'TOKEN'" in run(tmp_path, "rotate", "TOKEN", "-", given=VALUE).output
    run(tmp_path, "set", "TOKEN", "-", "--for", "github", given=VALUE)
    assert "has already" in run(tmp_path, "rotate", "TOKEN", "-", given=VALUE).output
    assert run(tmp_path, "rotate", "TOKEN", "-", given="new-value").exit_code == 0
    assert find(tmp_path, "TOKEN", "github") == "new-value"
    with pytest.raises(SecretRefused):
        find(tmp_path, "TOKEN", "stranger")


def test_allow_adds_servers_without_the_value(tmp_path: Path) -> None:
    assert "there is no secret 'TOKEN'" in run(tmp_path, "allow", "TOKEN", "tracker").output
    run(tmp_path, "set", "TOKEN", "-", "--for", "github", given=VALUE)
    allowed = run(tmp_path, "allow", "TOKEN", "tracker, wiki")
    assert allowed.exit_code == 0, allowed.output
    assert "TOKEN is for github, tracker, wiki" in allowed.output
    assert [find(tmp_path, "TOKEN", server) for server in ("github", "tracker", "wiki")] == [VALUE] * 3


def test_remove_deletes_it_and_names_an_unknown_one(tmp_path: Path) -> None:
    run(tmp_path, "set", "TOKEN", "-", given=VALUE)
    assert run(tmp_path, "remove", "TOKEN").exit_code == 0
    assert find(tmp_path, "TOKEN") is None
    unknown = run(tmp_path, "remove", "TOKEN")
    assert unknown.exit_code == 2
    assert "patchbay secret list" in unknown.output


def test_a_hub_that_lost_its_key_lists_what_it_cannot_read(tmp_path: Path) -> None:
    run(tmp_path, "set", "TOKEN", "-", given=VALUE)
    (tmp_path / KEY_FILE).unlink()
    replaced = CliRunner().invoke(main, ["key", "replace", "--yes", "--data", str(tmp_path)])
    assert "1 secret has to be stored again: TOKEN" in replaced.output
    assert "not readable: stored with another key" in run(tmp_path, "list").stdout


def test_the_prompt_shows_no_character_of_the_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchbay.cli.terminal.secret_input.is_terminal", lambda stream: True)
    made = run(tmp_path, "set", "TOKEN", given=f"{VALUE}\n")
    assert made.exit_code == 0
    assert VALUE not in made.output
    assert find(tmp_path, "TOKEN") == VALUE
