"""What a call leaves in its working folder."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from patchbay.kinds.python.workers import leftovers
from patchbay.kinds.python.workers.leftovers import SETTLED_NS, WorkingFolder
from tests.waiting import until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "work"


def test_files_and_folders_of_each_call_are_gone_after_it(folder: Path) -> None:
    """Issue 11.7: also right after a look at the empty folder, when its time may still be the same."""
    working = WorkingFolder(folder)
    for _ in range(200):
        working.enter()
        working.empty()
        Path("left").write_text("x")
        working.empty()
        assert list(folder.iterdir()) == []
    Path("deep").mkdir()
    Path("deep/left").write_text("x")
    working.empty()
    assert list(folder.iterdir()) == []


def test_a_folder_that_a_call_removed_is_there_again(folder: Path) -> None:
    working = WorkingFolder(folder)
    working.enter()
    folder.rmdir()
    working.enter()
    assert Path.cwd() == folder


def test_a_folder_that_has_not_changed_for_a_while_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    working = WorkingFolder(folder)
    working.enter()
    changed = folder.stat().st_ctime_ns
    until(lambda: time.time_ns() - changed > SETTLED_NS)
    working.empty()
    reads: list[Path] = []
    monkeypatch.setattr(leftovers, "empty_folder", reads.append)
    working.empty()
    assert reads == []
    Path("left").write_text("x")
    working.empty()
    assert reads == [folder]
