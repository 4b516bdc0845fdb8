"""`patchbay key`: new, list and revoke, on the data folder of a hub.

Sources: ACCESS section 2; issue 16 item 2.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.keys import PREFIX, PersonalKeys
from patchbay.access.principals import Principal
from patchbay.cli.commands.patchbay import main
from patchbay.stores import open_store


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
