"""Watching: the kernel reports changes by other programs, and an answer reports an index that lacks changes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import watchfiles

from patchbay.documents import kernel_reports, watching
from patchbay.documents.collection import Library
from patchbay.documents.files import Disk
from patchbay.documents.index import DocumentChange, DocumentRow
from patchbay.documents.search_results import answered, told
from tests.waiting import until


def summary(row: DocumentRow) -> dict[str, Any]:
    return {"uri": row.key, "title": row.title}


@contextmanager
def watched(root: Path, heard: list[DocumentChange]) -> Iterator[Library]:
    """A library with a watch, after its first scan."""
    with Library(root, listener=heard.extend) as library:
        library.start()
        assert library.ready(60)
        yield library


def test_the_kernel_reports_edits_moves_and_new_folders(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JANE-24: without any scan by the clock, once the watch has begun."""
    (root / "specs/hub").mkdir(parents=True)
    (root / "specs/hub/a.md").write_text("# A")
    prepared = root.parent / "prepared"
    (prepared / "deep").mkdir(parents=True)
    (prepared / "deep/b.md").write_text("# B")
    begun: list[int] = []

    def counted(*folders: Path, **options: Any) -> Any:
        begun.append(len(folders))
        return watchfiles.watch(*folders, **options | {"rust_timeout": 600_000})

    monkeypatch.setattr(kernel_reports, "watch", counted)
    heard: list[DocumentChange] = []
    with watched(root, heard):
        until(lambda: begun, "the watch")
        # The watch begins shortly after the call of `watch`, so the edit is repeated until it is noticed.
        turn = iter(range(1_000_000))
        until(
            lambda: (
                (root / "specs/hub/a.md").write_text(f"# A {next(turn)}")
                and DocumentChange("specs/hub/a.md", "changed") in heard
            ),
            "an edit",
        )
        prepared.rename(root / "specs/new")
        until(
            lambda: DocumentChange("specs/new/deep/b.md", "added") in heard,
            "a folder that was moved in with its documents",
        )
        until(lambda: max(begun) == 5, "a watch of the new folders")
        (root / "specs/hub/a.md").unlink()
        until(lambda: DocumentChange("specs/hub/a.md", "removed") in heard, "a deleted document")


def test_a_folder_that_the_kernel_cannot_watch_is_scanned_periodically(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*folders: Path, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, "no more folders can be watched")

    monkeypatch.setattr(kernel_reports, "watch", refused)
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.01)
    heard: list[DocumentChange] = []
    with watched(root, heard):
        (root / "a.md").write_text("# A")
        until(lambda: DocumentChange("a.md", "added") in heard, "a new document")


class Pauses:
    """Records the pauses of a watcher, and ends it at one of them."""

    def __init__(self, last: int) -> None:
        self.seconds: list[float] = []
        self.last = last

    def is_set(self) -> bool:
        return len(self.seconds) >= self.last

    def wait(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        return self.is_set()


def test_the_pauses_of_a_watcher_are_short(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 12, items 13 and 19: the scans of 10,000 documents, 0.2 s each, leave an edit unseen for less than 2 s."""
    checks: list[int] = []

    def changes(folders: Any, ending: Any, gathering: int, check: int) -> Iterator[bool]:
        checks.extend((gathering, check))
        return iter([True, False, True])

    monkeypatch.setattr(watching, "wait_for_changes", changes)
    watcher = watching.Watcher(lambda: 0.2, lambda: [root], lambda: None, lambda: False)
    pauses = Pauses(last=3)
    monkeypatch.setattr(watcher, "_ending", pauses)
    watcher._run()
    assert pauses.seconds == pytest.approx([0.6] * 3)
    assert sum(checks) <= 1100

    def refused(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "no more folders can be watched")

    monkeypatch.setattr(watching, "wait_for_changes", refused)
    assert watcher._run() == pytest.approx(4.0)


def test_a_symbolic_link_is_not_watched(root: Path, tmp_path: Path) -> None:
    """A link to another folder does not show its documents and uses no watches."""
    (tmp_path / "elsewhere/deep").mkdir(parents=True)
    (root / "inside").mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    walked: list[Path] = []
    assert list(Disk(root).walk((".md",), walked, {})) == []
    assert walked == [root, root / "inside"]


def test_an_answer_from_an_index_that_is_behind_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process writes, nothing can be indexed: the answer comes anyway, and says how much it lacks."""
    monkeypatch.setattr("patchbay.documents.collection.CATCH_UP_SECONDS", 0.05)
    with Library(root) as library:
        library.create("a.md", {"title": "Pumpkin"}, "one")
        library.create("b.md", {"title": "Pumpkin pie"}, "two")
        library.refresh()
        with Disk(root).write_lock():
            (root / "c.md").write_text("# Pumpkin soup")
            (root / "b.md").unlink()
            value = answered(library, "pumpkin", {}, summary)
        assert value["behind"] is True and value["pending"] == 2
        assert [one["uri"] for one in value["results"]] == ["a.md"] and value["total"] == 1
        assert "At least 1 found" in told(value) and "2 documents are not indexed yet" in told(value)
        value = answered(library, "pumpkin", {}, summary)
        assert "behind" not in value and [one["uri"] for one in value["results"]] == ["a.md", "c.md"]


def test_a_document_that_changed_a_moment_ago_shows_that_the_index_is_behind(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large folder is not looked at before each search; what a search reads tells that it should be."""
    with Library(root) as library:
        library.create("a.md", {"title": "Pumpkin"}, "one")
        library.refresh()
        monkeypatch.setattr("patchbay.documents.collection.FAST_SCAN_SECONDS", -1.0)
        before = (root / "a.md").stat()
        (root / "a.md").write_text("# Pumpkin\n\nanother")
        os.utime(root / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert not library.behind
        assert answered(library, "pumpkin", {}, summary)["behind"] is True
        assert "behind" not in answered(library, "pumpkin", {}, summary)
        assert library.search("another").total == 1
