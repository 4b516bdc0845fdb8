"""A library: writes, moves, history, and changes on the disk by other programs."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from patchbay.cid import cid_of
from patchbay.documents import history
from patchbay.documents.collection import Library
from patchbay.documents.errors import DocumentExists, NoDocument, Overwritten, Unreadable
from patchbay.documents.files import OWN, TEMPORARY
from patchbay.documents.index import DocumentChange
from patchbay.errors import ToolFailed
from patchbay.fulltext.index import Index, IndexedText
from patchbay.sqlite import sqlite3
from tests.waiting import until

TEXT = "---\ntitle: Rooms\nx-owner: [ann, bob]   # both\nno: 1\n---\n\n# Rooms\n\nWhat a room is.\n"


def keys(library: Library, query: str = "*") -> list[str]:
    return [hit.row.key for hit in library.search(query).hits]


def test_a_new_document_has_front_matter_times_and_an_index_entry(library: Library, root: Path) -> None:
    """JANE-9, JANE-17."""
    made = library.create("specs/hub/rooms.md", {"title": "Rooms", "tags": ["a"]}, "What a room is.\n")
    assert (root / "specs/hub/rooms.md").read_text() == made.text
    assert list(made.metadata) == ["title", "tags", "createdAt", "updatedAt"]
    assert made.row.created == made.row.updated and made.row.created.endswith("Z")
    assert made.row.cid == cid_of(made.text.encode())
    assert keys(library, "room") == ["specs/hub/rooms.md"]
    with pytest.raises(DocumentExists):
        library.create("specs/hub/rooms.md", {"title": "Other"}, "")


def test_an_update_keeps_the_keys_that_it_does_not_name(library: Library, root: Path) -> None:
    """JANE-10 (JANE-C4)."""
    (root / "a.md").write_text(TEXT)
    written = library.update("a.md", {"title": "Places"})
    assert written.changed
    text = (root / "a.md").read_text()
    assert "x-owner: [ann, bob]   # both\nno: 1\n" in text and "title: Places\n" in text
    assert text.endswith("---\n\n# Rooms\n\nWhat a room is.\n") and "updatedAt: '20" in text
    assert library.update("a.md", {}, "new body").document.front.body == "new body"
    assert library.read("a.md").metadata["x-owner"] == ["ann", "bob"]


def test_an_update_that_changes_nothing_writes_nothing(library: Library, root: Path) -> None:
    (root / "a.md").write_text(TEXT)
    before = (root / "a.md").stat()
    written = library.update("a.md", {"title": "Rooms"}, "\n# Rooms\n\nWhat a room is.\n")
    assert not written.changed and (root / "a.md").stat().st_mtime_ns == before.st_mtime_ns
    assert (root / "a.md").read_text() == TEXT


def test_a_change_made_for_another_version_is_refused(library: Library) -> None:
    first = library.create("a.md", {"title": "A"}, "one").row.cid
    second = library.update("a.md", {}, "two", expected_cid=first).document.row.cid
    with pytest.raises(Overwritten, match=second):
        library.update("a.md", {}, "three", expected_cid=first)
    assert library.read("a.md").front.body == "two"


def test_every_version_is_kept_under_its_cid(library: Library, root: Path) -> None:
    """Also a version by an editor that the next write replaced, and the versions of a moved or deleted document."""
    library.create("a.md", {"title": "A"}, "one")
    (root / "a.md").write_text("by hand")
    library.update("a.md", {}, "two")
    library.move("a.md", "b/c.md")
    library.delete("b/c.md")
    past, moved = library.history("a.md"), library.history("b/c.md")
    assert [one.how for one in past] == ["moved to b/c.md", "updated", "found on disk", "created"]
    assert [one.how for one in moved] == ["deleted", "moved from a.md"]
    assert [one.cid is None for one in (*past, *moved)] == [True, False, False, False, True, False]
    bodies = [library.version("a.md", one.cid).front.body for one in past if one.cid]
    assert bodies == ["two", "by hand", "one"]
    with pytest.raises(NoDocument):
        library.version("b/c.md", past[-1].cid or "")
    with pytest.raises(NoDocument):
        library.read("b/c.md")


def test_changes_on_the_disk_by_other_programs_reach_the_listener(root: Path) -> None:
    """JANE-24: added, changed and removed files reach the listener and the search."""
    heard: list[DocumentChange] = []
    (root / "old.md").write_text("# Old")
    with Library(root, listener=heard.extend) as library:
        library.start()
        until(lambda: DocumentChange("old.md", "added") in heard, "the first scan")
        (root / "sub").mkdir()
        (root / "sub/new.md").write_text("# New\n\npumpkin")
        until(lambda: DocumentChange("sub/new.md", "added") in heard, "a new file")
        (root / "old.md").write_text("# Other")
        until(lambda: DocumentChange("old.md", "changed") in heard, "a changed file")
        (root / "sub/new.md").unlink()
        until(lambda: DocumentChange("sub/new.md", "removed") in heard, "a deleted file")
        assert keys(library) == ["old.md"] and keys(library, "pumpkin") == []
        assert library.rows()[0].title == "Other"


def test_only_changed_files_are_indexed_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JANE-18: by time and size, then by hash; the stored index is used."""
    for number in range(20):
        (root / f"{number}.md").write_text(f"# Title {number}")
        os.utime(root / f"{number}.md", (1_600_000_000, 1_600_000_000))
    with Library(root) as library:
        assert len(library.refresh()) == 20
    indexed: list[str] = []
    put = Index.put

    def counted(self: Index, *documents: IndexedText) -> None:
        indexed.extend(document.key for document in documents)
        put(self, *documents)

    monkeypatch.setattr(Index, "put", counted)
    with Library(root) as library:
        assert library.refresh() == [] and len(library.rows()) == 20
        os.utime(root / "3.md")
        (root / "5.md").write_text("# Changed")
        assert library.refresh() == [DocumentChange("5.md", "changed")]
        assert keys(library, "changed") == ["5.md"]
    assert indexed == ["5.md"]


@pytest.mark.parametrize("damage", ["no index at all", "half of it", "gone"])
def test_a_damaged_index_is_rebuilt_from_the_disk(root: Path, damage: str) -> None:
    """JANE-18."""
    with Library(root) as library:
        for number in range(30):
            library.create(f"{number}.md", {"title": f"Title {number}"}, "pumpkin " * 200)
    index = root / OWN / "index.sqlite"
    if damage == "gone":
        index.unlink()
    else:
        index.write_bytes(b"this is none" if damage == "no index at all" else index.read_bytes()[:9000])
    for rest in ("-wal", "-shm"):
        index.with_name(index.name + rest).unlink(missing_ok=True)
    with Library(root) as library:
        library.refresh()
        assert library.search("pumpkin").total == 30
        assert len(library.history("3.md")) == 1


def test_an_index_that_is_damaged_while_in_use_is_rebuilt(root: Path, library: Library) -> None:
    """JANE-18: the search that finds the damage gives the right answer."""
    library.create("a.md", {"title": "A"}, "pumpkin")
    with sqlite3.connect(root / OWN / "index.sqlite") as connection:
        connection.execute("DROP TABLE found")
    connection.close()
    assert keys(library, "pumpkin") == ["a.md"]
    library.create("b.md", {"title": "B"}, "pumpkin")
    assert set(keys(library, "pumpkin")) == {"a.md", "b.md"}


def test_a_damaged_history_is_renamed_and_a_new_one_begins(root: Path) -> None:
    with Library(root) as library:
        library.create("a.md", {"title": "A"}, "one")
    (root / OWN / "history.sqlite").write_bytes(b"broken" * 1000)
    for rest in ("-wal", "-shm"):
        (root / OWN / f"history.sqlite{rest}").unlink(missing_ok=True)
    with Library(root) as library:
        assert library.update("a.md", {}, "two").changed
        assert [one.how for one in library.history("a.md")] == ["updated", "found on disk"]
    assert list((root / OWN).glob("history.sqlite.damaged-*"))


def test_a_search_does_not_wait_for_a_write(root: Path, library: Library) -> None:
    """JANE-18: while one connection writes to the index, a search still finds documents."""
    library.create("a.md", {"title": "A"}, "pumpkin")
    writer = sqlite3.connect(root / OWN / "index.sqlite", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM entry")
    found: list[list[str]] = []
    reader = threading.Thread(target=lambda: found.append(keys(library, "pumpkin")))
    reader.start()
    until(lambda: found, "an answer during a write")
    reader.join()
    writer.execute("ROLLBACK")
    writer.close()
    assert found == [["a.md"]]


def test_two_processes_of_one_library_see_each_others_writes(root: Path, library: Library) -> None:
    with Library(root) as other:
        library.create("a.md", {"title": "A"}, "pumpkin")
        other.refresh()
        assert keys(other, "pumpkin") == ["a.md"]
        other.update("a.md", {}, "gourd")
        library.refresh()
        assert keys(library, "gourd") == ["a.md"] and keys(library, "pumpkin") == []
        assert [one.how for one in library.history("a.md")] == ["updated", "created"]


def test_a_library_without_a_folder_is_empty_and_begins_with_the_first_document(tmp_path: Path) -> None:
    with Library(tmp_path / "later") as library:
        assert library.refresh() == [] and library.rows() == [] and keys(library) == []
        assert not (tmp_path / "later").exists()
        library.create("specs/a/b.md", {"title": "B"}, "pumpkin")
        assert keys(library, "pumpkin") == ["specs/a/b.md"] and library.groups("specs") == ["a"]


def test_a_library_that_is_only_read_leaves_no_trace(root: Path) -> None:
    (root / "a.md").write_text("# A\n\npumpkin")
    with Library(root, readonly=True) as library:
        library.refresh()
        assert keys(library, "pumpkin") == ["a.md"]
        for write in (
            lambda: library.create("b.md", {}, ""),
            lambda: library.update("a.md", {"title": "x"}),
            lambda: library.delete("a.md"),
            lambda: library.move("a.md", "b.md"),
        ):
            with pytest.raises(Unreadable, match="read-only"):
                write()
    assert [one.name for one in root.iterdir()] == ["a.md"]


def test_files_that_are_not_text_or_too_large_or_badly_named_do_not_affect_other_documents(
    root: Path, library: Library
) -> None:
    """JANE-16."""
    (root / "bytes.md").write_bytes(b"\xff\xfe\x00")
    (root / "large.md").write_bytes(b"x" * (8 * 1024 * 1024 + 1))
    (root / "a\nb.md").write_text("two lines")
    (root / f"{TEMPORARY}half.md").write_text("half written")
    (root / "good.md").write_text("# Good")
    library.refresh()
    assert {row.key: bool(row.problem) for row in library.rows()} == {"bytes.md": True, "good.md": False}
    with pytest.raises(Unreadable, match="not UTF-8 text: byte 0xff in line 1"):
        library.read("bytes.md")
    with pytest.raises(Unreadable, match="at most"):
        library.read("large.md")


def test_a_write_to_a_full_disk_reports_the_reason(
    root: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JANE-4, JANE-16: the error has the reason of the file system, and the library has no partial files."""
    library.create("a.md", {"title": "A"}, "one")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write in (lambda: library.update("a.md", {}, "two"), lambda: library.create("b.md", {}, "two")):
        with pytest.raises(ToolFailed, match="cannot be written: No space left on device"):
            write()
    monkeypatch.undo()
    assert library.read("a.md").front.body == "one"
    assert sorted(one.name for one in root.iterdir()) == [OWN, "a.md"]


def test_a_failing_listener_does_not_block_writes(root: Path) -> None:
    def fails(changes: Sequence[DocumentChange]) -> None:
        raise RuntimeError("no")

    with Library(root, listener=fails) as library:
        library.create("a.md", {}, "one")
        library.create("b.md", {}, "two")
        assert len(library.rows()) == 2


def test_a_history_that_another_process_locks_is_not_renamed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked history is not a damaged one: the library does not open until the history is free."""
    monkeypatch.setattr(history, "LOCK_WAIT_SECONDS", 0.05)
    with Library(root) as library:
        library.create("a.md", {"title": "A"}, "one")
    other = sqlite3.connect(root / OWN / "history.sqlite", isolation_level=None)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Unreadable, match="the history of this library cannot be opened now: database is locked"):
        Library(root)
    other.execute("ROLLBACK")
    other.close()
    with Library(root) as library:
        assert library.update("a.md", {}, "two").changed
        assert [one.how for one in library.history("a.md")] == ["updated", "created"]
    assert not list((root / OWN).glob("*.damaged-*"))


def test_one_process_at_a_time_creates_a_history(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses the second of two processes that create a file at once, without waiting."""
    held, opened = [], history._open

    def look(path: Path) -> sqlite3.Connection:
        with (root / OWN / "lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held.append(False)
            except BlockingIOError:
                held.append(True)
        return opened(path)

    monkeypatch.setattr(history, "_open", look)
    with Library(root):
        assert held == [True]


def test_groups_are_counted(library: Library) -> None:
    for path in ("specs/hub/a.md", "specs/hub/deep/b.md", "specs/app/a.md", "specs/loose.md", "stdlib/python/a.md"):
        library.create(path, {}, "")
    assert library.counts("specs") == {"app": 1, "hub": 2}
    assert library.groups("stdlib") == ["python"] and library.groups("none") == []
