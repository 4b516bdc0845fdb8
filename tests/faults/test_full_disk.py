"""A hub on a disk without a free byte, on a read-only disk, with a damaged database: what works, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchbay.cli.doctor.database import check_database_file
from patchbay.documents.collection import Library
from patchbay.errors import StoreFailed
from patchbay.settings import Settings
from patchbay.stores.sqlite import SqliteStore
from tests.checkout import ROOT

pytestmark = [pytest.mark.process]

BOUND = 300.0
MOUNT = 'mount -t tmpfs -o size=24m none "$1" && exec "$2" -m tests.faults.full_disk_program "$1"'


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What a hub answered and wrote on a disk of 24 MiB of its own, by step."""
    disk = tmp_path_factory.mktemp("disk")
    namespace = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
    if subprocess.run([*namespace, "mount", "-t", "tmpfs", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("this machine lets no test mount a disk")
    done = subprocess.run(
        [*namespace, "sh", "-c", MOUNT, "sh", str(disk), sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return {"disk": str(disk)} | found


def test_documents_are_listed_searched_and_read_on_a_full_disk(seen: Mapping[str, str]) -> None:
    """34.4."""
    assert "python (1)" in seen["list"]
    assert "Sort a list in **place**." in seen["search"]
    assert "Sort a list in place." in seen["get"]
    assert seen["ready"].strip() == "ready"


def test_a_write_on_a_full_disk_fails_with_the_next_step_and_changes_nothing(seen: Mapping[str, str]) -> None:
    """34.4: callers get no path of the machine."""
    assert seen["update"].startswith("failed: stdlib/python/sort.md cannot be written: No space left on device; free")
    assert seen["unchanged"] == seen["get"]
    assert seen["create"].startswith("failed: the store failed: database or disk is full; the operator")
    assert seen["disk"] not in seen["update"] + seen["create"]


def test_gc_works_on_a_full_disk_with_the_reserved_space(seen: Mapping[str, str]) -> None:
    """34.4."""
    assert seen["gc"].startswith("0: "), seen["gc"]
    assert f"The disk of {seen['disk']}/data is still nearly full: `patchbay doctor`" in seen["gc"]


def test_a_hub_starts_and_ends_on_a_full_disk_with_the_reserved_space(seen: Mapping[str, str]) -> None:
    """34.4."""
    assert seen["serve"].startswith("0: "), seen["serve"]
    assert f"the disk of {seen['disk']}/data is full" in seen["serve"]


@pytest.mark.parametrize("step", ["serve without reserve", "new folder"])
def test_without_space_a_command_names_the_path_and_the_next_step(seen: Mapping[str, str], step: str) -> None:
    """34.4."""
    assert seen[step].startswith("2: "), seen[step]
    assert seen["disk"] in seen[step] and "`patchbay doctor` says how" in seen[step]
    assert "Traceback" not in seen[step]


def test_gc_without_the_reserved_space_names_the_path_and_the_next_step(seen: Mapping[str, str]) -> None:
    """34.4: what it can do depends on the space that its last writes have left in the database."""
    assert seen["disk"] in seen["gc without reserve"] and "`patchbay doctor`" in seen["gc without reserve"]
    assert "Traceback" not in seen["gc without reserve"]


def test_doctor_says_what_to_delete_when_gc_has_no_room(seen: Mapping[str, str]) -> None:
    """34.4."""
    assert f"du -xh {seen['disk']} | sort -h" in seen["doctor"]
    assert "fix it: patchbay list" not in seen["doctor"]


def test_a_read_only_disk_is_named_with_the_next_step(seen: Mapping[str, str]) -> None:
    """34.4."""
    assert seen["read-only"].startswith("2: "), seen["read-only"]
    assert f"{seen['disk']}/data cannot be locked: Read-only file system" in seen["read-only"]
    assert "--data" in seen["read-only"]
    assert f"{seen['disk']}/data is on a read-only disk" in seen["read-only doctor"]


def damage(path: Path, begin: int) -> None:
    """Overwrite the pages of a database from `begin` on."""
    data = path.read_bytes()
    path.write_bytes(data[:begin] + os.urandom(len(data) - begin))


def test_a_damaged_database_is_named_with_the_next_step(tmp_path: Path) -> None:
    """34.4: `doctor` finds it, logs name the file, callers get no path."""
    store = SqliteStore(tmp_path)
    for number in range(100):
        store.blobs.put(f"{number} ".encode() * 500)
    store.close()
    damage(tmp_path / "patchbay.sqlite3", 4096)
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreFailed, match="copy of the data folder in its place") as caught:
        store.names.all()
    store.close()
    assert str(tmp_path / "patchbay.sqlite3") in str(caught.value)
    assert str(tmp_path) not in caught.value.message
    (verdict,) = check_database_file(Settings(data=tmp_path))
    assert (verdict.grade, "mv" in verdict.mend) == ("problem", True)


def test_doctor_names_an_undamaged_database_and_a_file_that_is_none(tmp_path: Path) -> None:
    """34.4."""
    SqliteStore(tmp_path).close()
    (verdict,) = check_database_file(Settings(data=tmp_path))
    assert verdict.grade == "ok"
    damage(tmp_path / "patchbay.sqlite3", 0)
    (verdict,) = check_database_file(Settings(data=tmp_path))
    assert verdict.grade == "problem" and str(tmp_path / "patchbay.sqlite3") in verdict.sentence


def test_a_damaged_index_is_built_again_while_the_library_is_open(tmp_path: Path) -> None:
    """34.4."""
    with Library(tmp_path) as library:
        for number in range(200):
            library.create(f"specs/hub/{number}.md", {"title": f"Document {number}"}, f"pumpkin{number} soup " * 50)
        library.refresh()
    damage(tmp_path / ".library" / "index.sqlite", 4096)
    with Library(tmp_path) as library:
        library.refresh()
        assert library.search("pumpkin7").hits[0].row.key == "specs/hub/7.md"
        library.update("specs/hub/7.md", {}, "gourds")
        assert [hit.row.key for hit in library.search("gourds").hits] == ["specs/hub/7.md"]
        assert len(library.rows()) == 200
