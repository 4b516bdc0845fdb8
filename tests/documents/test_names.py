"""Names that real folders have: they are served, and what is not served has a reason. Issue 33 part 9."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from patchbay.documents import paths
from patchbay.documents.collection import Library
from patchbay.documents.errors import BadPath

NAMES = [
    unicodedata.normalize("NFD", "grüße/café.md"),
    "why?.md",
    "C# and F#.md",
    "family 👨‍👩‍👧 ❤️.md",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿.md",
    "README.MD",
    "Notes.Markdown",
    "2024-01-02 10:30 call.md",
    "100%25.md",
    'a*b|c<d>"e".md',
    "設計：概要／案.md",
    "con.md",
    "folder./a.md",
    " blank/a .md",
    "می‌خواهم.md",
    "x" * 230 + ".md",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_file_with_an_ordinary_name_is_read_found_changed_and_deleted(name: str, tmp_path: Path) -> None:
    """33.9: every operation on an existing file, with its history."""
    with Library(tmp_path, (".md", ".markdown")) as library:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# Pumpkin\n", "utf-8")
        library.refresh()
        assert library.left_out == {}
        (row,) = library.rows()
        assert row.key == name
        assert [hit.row.key for hit in library.search("pumpkin").hits] == [name]
        assert library.read(name).front.body == "# Pumpkin\n"
        library.replace(name, "# Soup\n")
        assert (tmp_path / name).read_text("utf-8") == "# Soup\n"
        assert len(library.history(name)) == 2
        library.delete(name)
        assert library.rows() == [] and not (tmp_path / name).exists()


def test_a_document_is_found_by_either_normalization_of_its_name(library: Library, root: Path) -> None:
    """33.9: a file system of macOS writes decomposed names, and callers type composed ones."""
    composed, decomposed = (unicodedata.normalize(form, "café.md") for form in ("NFC", "NFD"))
    (root / decomposed).write_text("one")
    library.refresh()
    assert library.read(composed).row.key == decomposed
    assert library.read(composed).row.title == "café"
    (root / composed).write_text("other")
    library.refresh()
    assert [library.read(each).text for each in (composed, decomposed)] == ["other", "one"]


def test_a_new_document_has_a_name_that_is_valid_on_every_system(library: Library) -> None:
    """33.9: only existing files may have other names."""
    for name in ("why?.md", unicodedata.normalize("NFD", "é.md"), "README.MD"):
        with pytest.raises(BadPath):
            library.create(name, {}, "text")


def test_every_file_that_is_left_out_has_a_reason(library: Library, root: Path, tmp_path: Path) -> None:
    """33.9: names, links, pipes, sizes; other files and hidden folders are no documents."""
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside", target_is_directory=True)
    (root / "link.md").symlink_to(root / "good.md")
    os.mkfifo(root / "pipe.md")
    for name in ("good.md", ".draft.md", "a\u202eb.md", "tab\t.md", "back\\slash.md", "picture.png"):
        (root / name).write_text("text")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff.md")).write_text("text")
    with (root / "large.md").open("wb") as large:
        large.truncate(9 * 1024 * 1024)
    (root / ".git").mkdir()
    (root / ".git/notes.md").write_text("text")
    library.refresh()
    assert [row.key for row in library.rows()] == ["good.md"]
    assert library.left_out == {
        ".draft.md": "its name begins with a dot",
        "\\udcff.md": "its name is not UTF-8 text",
        "a\u202eb.md": "its name contains the control or invisible character U+202E",
        "back\\slash.md": "a program may read its name as a path to another folder",
        "large.md": "large.md has 9437184 bytes; expected at most 8388608",
        "link": "it is a symbolic link to a folder, and links are not followed",
        "link.md": "it is a symbolic link, and links are not followed",
        "pipe.md": "it is not a regular file",
        "tab\t.md": "its name contains the control or invisible character U+0009",
    }
    (root / "large.md").unlink()
    (root / "link").unlink()
    library.refresh()
    assert not {"large.md", "link"} & set(library.left_out)


@pytest.mark.parametrize(
    "path", ["a/../b.md", "..", "%2e%2e", "%252e%252e/a.md", "\uff0e\uff0e/a.md", "a\uff0f..\uff0fb.md", "a%00.md"]
)
def test_a_name_that_leads_elsewhere_is_never_served(path: str) -> None:
    """33.9: also if a program decodes it twice or normalizes it."""
    assert paths.why_not_served(path)
