"""When the watched folder is scanned: after changes, seldom without one, and also where the kernel cannot watch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.watching import following
from patchbay.catalogue.watching.following import follow
from patchbay.documents import kernel_reports
from tests.waiting import until


class Scans:
    """Counts the scans that are due, on a thread."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders = folders
        self.ending = threading.Event()
        self.count = 0

    def run(self) -> None:
        for _ in follow(lambda: self.folders, lambda: False, self.ending):
            self.count += 1

    def until_more_than(self, count: int) -> None:
        until(lambda: self.count > count)


@contextmanager
def following_folders(*folders: Path) -> Iterator[Scans]:
    scans = Scans(list(folders))
    thread = threading.Thread(target=scans.run)
    thread.start()
    try:
        yield scans
    finally:
        scans.ending.set()
        thread.join()


@pytest.fixture(autouse=True)
def _no_slow_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the slow scan, only a report of the kernel leads to a scan; the first one follows the start."""
    monkeypatch.setattr(following, "SLOW_SCAN_SECONDS", 1e9)


def test_each_change_leads_to_a_scan_without_polling(tmp_path: Path) -> None:
    """Issue 14, item 5"""
    below = tmp_path / "transforms"
    below.mkdir()
    with following_folders(tmp_path, below) as scans:
        until(lambda: scans.count)
        for file in (tmp_path / "a.py", below / "b.py", tmp_path / "a.py"):
            before = scans.count
            file.write_text(f"{before}")
            scans.until_more_than(before)


def test_a_folder_that_is_replaced_or_made_later_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "servers"
    with following_folders(folder) as scans:
        until(lambda: scans.count)
        for name in ("first", "second"):
            folder.mkdir()
            # Two scans at most follow the start of a watch, so the last ones follow a report of the kernel.
            for number in range(5):
                before = scans.count
                (folder / "a.py").write_text(str(number))
                scans.until_more_than(before)
            folder.rename(tmp_path / name)


def reports(monkeypatch: pytest.MonkeyPatch, *changes: bool) -> None:
    monkeypatch.setattr(following, "wait_for_changes", lambda *_: iter(changes))


def test_a_folder_without_changes_is_scanned_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 14, item 5: an idle hub"""
    reports(monkeypatch, *[False] * 100)
    ending = threading.Event()
    watching = following._follow_kernel(following._identify([tmp_path]), lambda: [tmp_path], lambda: False, ending)
    assert len(list(watching)) == 1
    monkeypatch.setattr(following, "SLOW_SCAN_SECONDS", 0.0)
    reports(monkeypatch, *[False] * 100)
    watching = following._follow_kernel(following._identify([tmp_path]), lambda: [tmp_path], lambda: False, ending)
    assert len(list(watching)) == 100


def test_a_change_is_scanned_until_two_scans_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports(monkeypatch, True)
    unsettled = iter([True, True, False])
    watching = following._follow_kernel(
        following._identify([tmp_path]), lambda: [tmp_path], lambda: next(unsettled), threading.Event()
    )
    assert len(list(watching)) == 3


def test_a_folder_that_the_kernel_cannot_watch_is_scanned_at_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr(kernel_reports, "watch", refuse)
    monkeypatch.setattr(following, "POLL_SECONDS", 0.01)
    with following_folders(tmp_path) as scans:
        until(lambda: scans.count > 3)
    assert [record.message for record in caplog.records] == [
        "the kernel cannot watch the folder of the servers; the hub scans it: OS file watch limit reached"
    ]


class Pauses(threading.Event):
    """Records the pauses, and sets the event at the last of them."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self.last = last

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        if len(self.seconds) == self.last:
            self.set()
        return self.is_set()


def test_the_pauses_between_scans_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 12, item 19: a file that is still being written is looked at again within half a second."""
    checks: list[int] = []

    def one_change(folders: Any, ending: Any, gathering: int, check: int) -> Iterator[bool]:
        checks.extend((gathering, check))
        return iter([True])

    monkeypatch.setattr(following, "wait_for_changes", one_change)
    pauses = Pauses(last=6)
    assert len(list(follow(lambda: [tmp_path], lambda: True, pauses))) == 6
    assert pauses.seconds == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]
    assert sum(checks) <= 600


def test_a_folder_without_a_watch_is_scanned_twice_a_second(tmp_path: Path) -> None:
    """Issue 12, item 19"""
    pauses = Pauses(last=3)
    scans = list(follow(lambda: [tmp_path / "missing"], lambda: False, pauses))
    assert (len(scans), pauses.seconds) == (3, [0.5] * 3)


def test_a_scan_is_due_without_a_report_when_another_reason_says_so(tmp_path: Path) -> None:
    """35.11: as when this machine takes over the folder from one that has died."""
    ending, reasons = threading.Event(), iter([False, True, False])
    scans = follow(lambda: [tmp_path], lambda: False, ending, lambda: next(reasons, True))
    first, second = next(scans), next(scans)
    assert first is second is None
    assert next(reasons) is False
    ending.set()
    assert list(scans) == []
