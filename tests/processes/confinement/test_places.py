"""Which files a tool may read and change, as lists of trees for the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.processes.confinement.paths import DEVICES, SHARED_MEMORY, AllowedPaths, existing_folders, trees_without


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("data/spy", "data/other", "notes", "hub/servers"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "letter").touch()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    return tmp_path


def allowed(trees: list[str], path: Path) -> bool:
    return any(path.is_relative_to(tree) for tree in trees)


def test_everything_beside_a_hidden_folder_is_listed_and_no_link_leads_there(home: Path) -> None:
    found = list(trees_without(home, [home / "data"]))
    assert sorted(found) == [str(home / name) for name in ("hub", "letter", "notes")]
    assert list(trees_without(home / "notes", [home / "data"])) == [str(home / "notes")]
    assert list(trees_without(home / "data" / "spy", [home / "data"])) == []


def test_a_tool_reads_its_own_folder_and_no_other_one_of_the_hub(home: Path) -> None:
    places = AllowedPaths(hidden=(home / "data",), own=(home / "data" / "spy",))
    trees = places.readable(covered=False)
    assert allowed(trees, home / "data" / "spy" / "x") and allowed(trees, home / "letter")
    assert not allowed(trees, home / "data" / "key") and not allowed(trees, home / "data" / "other" / "x")
    assert allowed(places.readable(covered=True), home / "data" / "spy")


def test_no_disk_is_readable_as_a_device(home: Path) -> None:
    for covered in (False, True):
        trees = AllowedPaths().readable(covered)
        assert not allowed(trees, Path("/dev/vda"))
        assert set(DEVICES) <= set(trees)


def test_a_tool_changes_its_own_folders_and_those_of_its_configuration(home: Path) -> None:
    places = AllowedPaths(hidden=(home / "data",), own=(home / "data" / "spy",), writes=(home / "notes",))
    trees = places.writable(covered=False)
    assert allowed(trees, home / "notes" / "new") and allowed(trees, home / "data" / "spy" / "new")
    assert not allowed(trees, home / "letter")
    assert SHARED_MEMORY not in trees and SHARED_MEMORY in places.writable(covered=True)


def test_a_tool_that_may_change_everything_cannot_change_the_hub_or_the_kernel(home: Path) -> None:
    places = AllowedPaths(hidden=(home / "data",), writes=(Path("/"),), kept=(home / "hub",))
    assert places.lists_everything
    trees = places.writable(covered=False)
    assert allowed(trees, home / "letter") and not allowed(trees, home / "hub" / "servers" / "new.py")
    assert allowed(places.writable(covered=True), home / "new")
    for covered in (False, True):
        trees = places.writable(covered)
        assert not any(allowed(trees, Path(one)) for one in ("/proc/sysrq-trigger", "/sys/x", "/dev/sda"))
    assert not allowed(places.writable(covered=False), home / "data" / "key")


def test_a_folder_of_a_configuration_counts_when_it_is_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    assert existing_folders(["~/notes", "~/absent", "relative", str(home / "hub")]) == (home / "notes", home / "hub")
