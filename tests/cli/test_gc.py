"""`patchbay gc`: what it deletes, what it says, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from patchbay.cli.commands.patchbay import main
from patchbay.cli.local_files import ContractBlobs
from patchbay.settings import Settings
from patchbay.store import DATABASE_FILE
from patchbay.stores import open_store
from tests.clocks import Clock


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["gc", *arguments])
    return done.exit_code, done.output


def test_a_dry_run_says_how_much_and_changes_nothing_and_a_run_deletes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    store = open_store("sqlite", tmp_path)
    lost, named = store.blobs.put_many([b"x" * 500_000, b"named"])
    store.names.move({"variables/a": named}, "me", "test")
    store.close()
    clock.now += 2 * 3600
    data = ("--data", str(tmp_path), "--blob-hours", "1")
    assert run(*data, "--dry-run") == (0, "1 contents with 500000 bytes would be deleted\n")
    size = (tmp_path / DATABASE_FILE).stat().st_size
    code, said = run(*data)
    assert code == 0 and said.startswith("1 contents with 500000 bytes are deleted; ")
    assert (tmp_path / DATABASE_FILE).stat().st_size <= size - 400_000
    store = open_store("sqlite", tmp_path)
    assert store.blobs.missing([lost, named]) == [lost]
    store.close()


def test_a_folder_without_a_hubs_data_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    code, said = run("--data", str(tmp_path / "absent"))
    assert code == 2 and f"there is no data of a hub in {tmp_path / 'absent'}" in said
    assert not (tmp_path / "absent").exists()


def test_the_contract_of_a_profile_is_never_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    contracts = ContractBlobs(Settings.load({"data": tmp_path}))
    cid = contracts.put(b"[]")
    contracts.close()
    clock.now += 10 * 24 * 3600
    assert run("--data", str(tmp_path))[0] == 0
    store = open_store("sqlite", tmp_path)
    assert store.blobs.get(cid) == b"[]"
    store.close()
