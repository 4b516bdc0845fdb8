"""The shelf beside other programs: what is missing in one look may be there in the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patchbay.documents.files import Disk
from patchbay.documents.index import DocumentChange, FolderIndex

TEXT = "# Rooms\n\nWhat a room is.\n"


def test_a_document_that_is_back_before_it_is_forgotten_stays(tmp_path: Path) -> None:
    """An editor saves by taking the file away and putting it back, and a look may fall between the two."""
    kept: list[tuple[str, bytes | None]] = []

    @contextmanager
    def alone(seconds: float) -> Iterator[None]:
        (tmp_path / "rooms.md").write_text(TEXT)
        yield

    (tmp_path / "rooms.md").write_text(TEXT)
    (tmp_path / "gone.md").write_text(TEXT)
    shelf = FolderIndex(Disk(tmp_path, ()), (".md",), None, kept.extend, alone)
    shelf.refresh()
    kept.clear()
    for name in ("rooms.md", "gone.md"):
        (tmp_path / name).unlink()
    changes = shelf.refresh()
    assert changes == [DocumentChange("gone.md", "removed")]
    assert kept == [("gone.md", None)]
    assert set(shelf.rows) == {"rooms.md"}
    shelf.close()
