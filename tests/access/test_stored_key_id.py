"""The store expects the key that the hub was made with; another key, or none, changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchbay.access.hub_key import KEY_FILE, hub_id, load_key
from patchbay.access.stored_key_id import find_problem, open_key, stored_id
from patchbay.boot import change_names
from patchbay.cli.commands.patchbay import main
from patchbay.cli.doctor.hub import check_key
from patchbay.errors import ConfigError
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.stores import open_store
from tests.serving.running import refused, running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data folder of a hub that ran."""
    folder = tmp_path / "data"
    with opened(folder) as store:
        open_key(store, folder)
    return folder


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    with closing(open_store("sqlite", folder)) as store:
        yield store


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--data", str(folder)])


def test_the_first_start_makes_a_key_and_stores_its_public_id(folder: Path) -> None:
    with opened(folder) as store:
        assert stored_id(store) == hub_id(load_key(folder))
        assert open_key(store, folder) == load_key(folder)
        assert load_key(folder).hex().encode() not in (folder / "patchbay.sqlite3").read_bytes()


def test_a_store_of_an_earlier_version_takes_the_key_that_is_there(tmp_path: Path) -> None:
    key = load_key(tmp_path)
    with opened(tmp_path) as store:
        change_names(store, {"variables/greeting": store.blobs.put(b"hello")}, "test", "before this version")
        assert open_key(store, tmp_path) == key
        assert stored_id(store) == hub_id(key)


def test_without_its_key_a_store_is_not_opened_and_no_key_is_made(folder: Path) -> None:
    (folder / KEY_FILE).unlink()
    with opened(folder) as store:
        with pytest.raises(
            ConfigError, match=r"but there is no such file\. Put the file of the key back .*key replace"
        ):
            open_key(store, folder)
        assert not (folder / KEY_FILE).exists()


def test_with_the_key_of_another_hub_a_store_is_not_opened(folder: Path, tmp_path: Path) -> None:
    load_key(tmp_path / "other")
    shutil.copy(tmp_path / "other" / KEY_FILE, folder / KEY_FILE)
    with opened(folder) as store, pytest.raises(ConfigError, match=r"found that of another hub"):
        open_key(store, folder)


@pytest.mark.process
def test_a_hub_without_its_key_does_not_start_and_starts_with_it_again(tmp_path: Path) -> None:
    with running(tmp_path) as hub:
        assert hub.end() == 0
    key = (tmp_path / "data" / KEY_FILE).rename(tmp_path / "key of a backup")
    ended = refused(tmp_path)
    assert ended.returncode == 2
    assert str(tmp_path / "data" / KEY_FILE) in ended.stderr and "patchbay key replace" in ended.stderr
    key.rename(tmp_path / "data" / KEY_FILE)
    with running(tmp_path) as hub:
        assert hub.get("/readyz")[0] == 200


def test_key_replace_says_what_is_lost_and_makes_a_key_that_the_store_expects(folder: Path, tmp_path: Path) -> None:
    load_key(tmp_path / "other")
    shutil.copy(tmp_path / "other" / KEY_FILE, folder / KEY_FILE)
    asked = run(folder, "key", "replace")
    assert asked.exit_code == 2 and "without a terminal add --yes" in asked.output
    done = run(folder, "key", "replace", "--yes")
    assert done.exit_code == 0, done.output
    assert "people have to connect their accounts" in done.output
    with opened(folder) as store:
        assert find_problem(store, folder) is None
    [aside] = folder.glob("key.replaced-*")
    assert aside.read_text() == (tmp_path / "other" / KEY_FILE).read_text()


def test_key_replace_leaves_the_right_key_alone(folder: Path) -> None:
    key = load_key(folder)
    answer = run(folder, "key", "replace", "--yes")
    assert answer.exit_code == 2 and "there is nothing to replace" in answer.output
    assert load_key(folder) == key


def test_doctor_names_a_missing_key_a_damaged_one_and_the_next_step(folder: Path) -> None:
    settings = Settings(data=folder)
    assert list(check_key(settings)) == []
    (folder / KEY_FILE).rename(folder / "kept")
    [missing] = check_key(settings)
    assert missing.grade == "problem" and "there is no such file" in missing.sentence
    (folder / KEY_FILE).write_text("no digits")
    [damaged] = check_key(settings)
    assert damaged.grade == "problem" and "hexadecimal" in damaged.sentence
