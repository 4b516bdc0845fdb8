"""The index of a folder that other programs change: a file missing in one scan may exist in the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patchbay.documents.files import Disk
from patchbay.documents.index import DocumentChange, FolderIndex

TEXT = "# Rooms\n\nWhat a room is.\n"


def test_a_file_that_an_editor_deletes_and_writes_again_stays_in_the_index(tmp_path: Path) -> None:
    """An editor saves by deleting the file and writing it again, and a scan may come between the two."""
    kept: list[tuple[str, bytes | None]] = []

    @contextmanager
    def alone(seconds: float) -> Iterator[None]:
        (tmp_path / "rooms.md").write_text(TEXT)
        yield

    (tmp_path / "rooms.md").write_text(TEXT)
    (tmp_path / "gone.md").write_text(TEXT)
    index = FolderIndex(Disk(tmp_path, ()), (".md",), None, kept.extend, alone)
    index.refresh()
    kept.clear()
    for name in ("rooms.md", "gone.md"):
        (tmp_path / name).unlink()
    changes = index.refresh()
    assert changes == [DocumentChange("gone.md", "removed")]
    assert kept == [("gone.md", None)]
    assert set(index.rows) == {"rooms.md"}
    index.close()
