"""`patchbay key`: new, list and revoke, on the data folder of a hub.

Sources: ACCESS section 2; issue 16 item 2.
"""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner, Result

from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.keys import PREFIX, PersonalKeys
from patchbay.access.principals import Principal
from patchbay.cli.commands.patchbay import main
from patchbay.stores import open_store
from tests.serving.running import running
from tests.waiting import BOUND


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["key", *arguments, "--data", str(folder)])


def proves(folder: Path, token: str) -> Principal | None:
    store = open_store("sqlite", folder)
    try:
        return PersonalKeys(store).authenticate(Credentials("GET", "", {"authorization": f"Bearer {token}"}))
    finally:
        store.close()


def test_new_prints_the_key_alone_on_standard_output(tmp_path: Path) -> None:
    made = run(tmp_path, "new", "ann", "--expires", "30d", "--grants", "call:notes.*, read")
    assert made.exit_code == 0 and "patchbay serve --access shared" in made.stderr
    assert re.fullmatch(PREFIX + r"[A-Za-z0-9_-]{43}\n", made.stdout)
    found = proves(tmp_path, made.stdout.strip())
    assert found == Principal("key:ann", name="ann", scopes=frozenset({"call:notes.*", "read"}))


def test_a_new_key_of_a_shared_hub_needs_no_note(tmp_path: Path) -> None:
    made = run(tmp_path, "new", "ann", "--access", "shared")
    assert (made.exit_code, made.stderr) == (0, "")


def test_list_shows_names_grants_and_times_and_never_a_key(tmp_path: Path) -> None:
    key = run(tmp_path, "new", "ann").stdout.strip()
    run(tmp_path, "new", "robot", "--grants", "read:notes", "--expires", "2999-12-31")
    head, ann, robot = run(tmp_path, "list").stdout.splitlines()
    assert head.split() == ["NAME", "GRANTS", "MADE", "EXPIRES", "USED"]
    assert ann.startswith("ann ") and "everything granted" in ann and "no end" in ann and "not yet" in ann
    assert robot.startswith("robot ") and "read:notes" in robot and "2999-12-31" in robot
    assert key not in head + ann + robot


@pytest.mark.process
def test_usage_shows_the_numbers_of_the_running_hub(tmp_path: Path) -> None:
    """Of both workers: one of them counts the call, and any of them answers the command."""
    with running(tmp_path, "--access", "shared", "--workers", "2") as hub:
        key = run(tmp_path / "data", "new", "ann").stdout.strip()
        headers = {"Authorization": f"Bearer {key}"}
        for number in range(5):
            path = f"http://127.0.0.1:{hub.port}/rooms/room{number}"
            assert httpx2.put(path, json={}, headers=headers, timeout=BOUND).status_code == 201
        head, first, *_ = run(tmp_path / "data", "usage", "key:ann").stdout.splitlines()
        assert head.split() == ["CALLER", "WHAT", "USED", "PART"]
        assert re.fullmatch(r"key:ann +created rooms +5 of 20 +25%", first)
        assert "key:ann" in run(tmp_path / "data", "usage").stdout
        assert run(tmp_path / "data", "usage", "key:ben").stdout.count("\n") > 1


def test_usage_without_a_hub_says_what_it_needs(tmp_path: Path) -> None:
    run(tmp_path, "new", "ann")
    failed = run(tmp_path, "usage")
    assert failed.exit_code == 2 and "no hub runs on this data folder; start it with `patchbay serve`" in failed.stderr


def test_revoke_ends_a_key(tmp_path: Path) -> None:
    key = run(tmp_path, "new", "ann").stdout.strip()
    done = run(tmp_path, "revoke", "ann")
    assert (done.exit_code, done.stdout) == (0, "")
    with pytest.raises(Unauthorized):
        proves(tmp_path, key)
    assert run(tmp_path, "list").stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("new", "a b"), "1 to 64"),
        (("new", "ann", "--expires", "soon"), "expected a time such as 90d"),
        (("new", "ann", "--grants", "write:notes"), "expected grants such as"),
        (("new", "ann", "--grants", "call:git/git_log"), "write git.git_log"),
        (("revoke", "absent"), "there is no key 'absent'"),
        (("new", "ann", "--store", "memory"), "/access/keys"),
    ],
)
def test_a_wrong_command_says_what_is_wrong_and_changes_nothing(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    failed = run(tmp_path, *arguments)
    assert failed.exit_code == 2 and failed.stdout == ""
    assert sentence in failed.stderr and failed.stderr.count("\n") == 1
    assert run(tmp_path, "list").stdout.count("\n") == 1


def test_a_new_key_without_a_hub_says_what_it_needs_to_count(tmp_path: Path) -> None:
    made = run(tmp_path, "new", "ann")
    assert "a hub that starts with these settings is personal" in made.stderr
    assert "`patchbay serve --access shared`" in made.stderr


def test_a_new_key_says_which_of_its_grants_match_nothing_now(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "notes.py").write_text('def search() -> str:\n    """Search."""\n    return ""\n')
    grants = "call:notes.serch,call:notes.search,see:nots"
    made = run(
        tmp_path / "data",
        "new",
        "ann",
        "--access",
        "shared",
        "--servers",
        str(tmp_path / "servers"),
        "--grants",
        grants,
    )
    assert made.exit_code == 0 and made.stdout.startswith(PREFIX)
    assert made.stderr.splitlines() == [
        "warning: call:notes.serch matches nothing now: notes has no tool of this name;"
        " did you mean call:notes.search?",
        "warning: see:nots matches nothing now: there is no server nots; did you mean see:notes?",
    ]


@pytest.mark.process
@pytest.mark.parametrize(("access", "note"), [("shared", ""), ("personal", "is personal")])
def test_a_new_key_is_described_by_the_running_hub(tmp_path: Path, access: str, note: str) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "notes.py").write_text('def search() -> str:\n    """Search."""\n    return ""\n')
    with running(tmp_path, "--access", access) as hub:
        right = run(tmp_path / "data", "new", "ann", "--grants", "call:notes.search")
        assert right.exit_code == 0
        assert right.stderr == "" if not note else (note in right.stderr and f":{hub.port} " in right.stderr)
        wrong = run(tmp_path / "data", "new", "ben", "--grants", "call:notes.serch")
        assert wrong.exit_code == 0 and "did you mean call:notes.search?" in wrong.stderr
