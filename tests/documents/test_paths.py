"""Paths: forty attacks that are refused before any file access, and links that are not followed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from patchbay.documents import paths
from patchbay.documents.collection import Library
from patchbay.documents.errors import BadPath, DocumentExists, NoDocument, Unreadable
from patchbay.errors import ToolFailed

ATTACKS = [
    "../outside.md",
    "../../outside.md",
    "specs/../../outside.md",
    "specs/../outside.md",
    "..",
    ".",
    "./a.md",
    "a/./b.md",
    "/outside.md",
    "//outside.md",
    "/etc/passwd",
    "~/../outside.md/..",
    "..\\outside.md",
    "a\\..\\..\\outside.md",
    "C:\\outside.md",
    "C:outside.md",
    "c:/outside.md",
    "\\\\server\\share\\outside.md",
    "\\\\?\\C:\\outside.md",
    "outside.md\0.md",
    "outside\0.md",
    "%2e%2e/outside.md",
    "%2E%2E%2Foutside.md",
    "..%2foutside.md",
    "..%5coutside.md",
    "%252e%252e/outside.md",
    "a%00.md",
    "..%c0%afoutside.md",
    "\uff0e\uff0e/outside.md",
    "a\uff0f..\uff0foutside.md",
    "\u2024\u2024/b.md",
    "con.md",
    "NUL.md",
    "specs/aux/a.md",
    "Com1.md",
    "lpt\u00b9.md",
    "a./b.md",
    "a /b.md",
    "a.md ",
    "a.md.",
    "a.md:stream.md",
    "a.md::$DATA",
    ".hidden.md",
    ".library/history.sqlite",
    ".library/a.md",
    ".git/a.md",
    "a//b.md",
    "a/",
    "",
    "a.txt",
    "a.MD",
    ".md",
    "a/.md",
    "a\nb.md",
    "a\u202ed.md",
    "a\u200b.md",
    "e\u0301.md",
    "\ud800.md",
    "a*.md",
    'a".md',
    "a|b.md",
    "<a>.md",
    "x" * 201 + ".md",
    "a/" * 16 + "a.md",
    "abcdefghi/" * 101 + "a.md",
]


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: ascii(path)[:40])
def test_an_attack_is_refused_without_touching_the_disk(
    path: str, tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JANE-15 (JANE-C5): by every method with a path."""
    outside = tmp_path / "outside.md"
    outside.write_text("secret")
    library.create("a.md", {"title": "A"}, "text")

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("the file system was used")

    caught: list[object] = []
    with monkeypatch.context() as patch:
        for name in ("open", "stat", "rename", "unlink", "mkdir", "scandir", "listdir"):
            patch.setattr(os, name, forbidden)
        for use in (
            lambda: library.read(path),
            lambda: library.create(path, {"title": "B"}, "mine"),
            lambda: library.update(path, {"title": "B"}),
            lambda: library.delete(path),
            lambda: library.move("a.md", path),
            lambda: library.move(path, "b.md"),
            lambda: library.history(path),
            lambda: library.version(path, "bafkrei"),
        ):
            try:
                caught.append(use())
            except (ToolFailed, AssertionError) as problem:
                caught.append(problem)
    assert [type(one) for one in caught] == [BadPath] * 8, caught
    assert all("expected" in str(one) or "device" in str(one) for one in caught)
    assert outside.read_text() == "secret"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["library", "outside.md"]


@pytest.mark.parametrize(
    "path", ["a.md", "specs/a b/c-d_e.f.md", "50% off.md", "grüße/日本語.md", "x/y/z/консоль.md", "a..b.md"]
)
def test_plain_names_of_all_languages_are_paths(path: str, library: Library) -> None:
    library.create(path, {}, "text")
    assert library.read(path).front.body == "text"


def test_there_are_at_least_forty_different_attacks() -> None:
    assert len(set(ATTACKS)) == len(ATTACKS) >= 40


@pytest.mark.parametrize("name", ["a/b", "..", "", "CON", "%2e%2e", "a\0"])
def test_a_language_or_project_is_one_plain_name(name: str) -> None:
    with pytest.raises(BadPath, match="project"):
        paths.name(name, "project")


@pytest.mark.parametrize("what", ["file", "folder", "root-relative"])
def test_a_symbolic_link_is_not_followed(what: str, tmp_path: Path, root: Path, library: Library) -> None:
    """JANE-C5: not for reads, writes and lists."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("# Secret")
    if what == "file":
        (root / "link.md").symlink_to(outside / "secret.md")
        path, fresh = "link.md", None
    else:
        (root / "link").symlink_to(outside if what == "folder" else "../outside", target_is_directory=True)
        path, fresh = "link/secret.md", "link/new.md"
    library.refresh()
    assert library.rows() == []
    with pytest.raises(NoDocument):
        library.read(path)
    with pytest.raises(ToolFailed):
        library.update(path, {"title": "mine"})
    if fresh:
        with pytest.raises(Unreadable):
            library.create(fresh, {}, "mine")
    else:
        with pytest.raises(DocumentExists):
            library.create(path, {}, "mine")
    assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("secret.md", "# Secret")]


def test_a_folder_that_is_swapped_for_a_link_reveals_no_file_outside(
    tmp_path: Path, root: Path, library: Library
) -> None:
    """JANE-C5; THREATS, time of check and time of use: another thread swaps the folder all the time."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("secret")
    library.create("inner/a.md", {}, "public")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            (root / "inner").rename(root / "kept")
            (root / "inner").symlink_to(outside, target_is_directory=True)
            (root / "inner").unlink()
            (root / "kept").rename(root / "inner")

    swapper = threading.Thread(target=swap)
    swapper.start()
    found = set()
    try:
        for _ in range(3000):
            try:
                found.add(library.read("inner/a.md").front.body)
            except ToolFailed:
                found.add("nothing")
    finally:
        done.set()
        swapper.join()
    assert found <= {"public", "nothing"}
    assert library.read("inner/a.md").front.body == "public"
    assert (outside / "a.md").read_text() == "secret" and len(list(outside.iterdir())) == 1


def test_pipes_and_folders_are_not_documents(root: Path, library: Library) -> None:
    os.mkfifo(root / "pipe.md")
    (root / "folder.md").mkdir()
    library.refresh()
    assert library.rows() == []
    for path in ("pipe.md", "folder.md"):
        with pytest.raises(ToolFailed):
            library.read(path)


def test_paths_that_differ_only_by_case_cannot_both_exist(library: Library) -> None:
    library.create("specs/Guide/a.md", {}, "one")
    for path in ("specs/Guide/A.md", "specs/guide/b.md", "Specs/x.md"):
        with pytest.raises(DocumentExists, match="only by case"):
            library.create(path, {}, "two")
    with pytest.raises(DocumentExists, match="already"):
        library.create("specs/Guide/a.md", {}, "two")
    assert library.read("specs/Guide/a.md").front.body == "one"


def test_a_message_never_names_the_folder_of_the_library(root: Path, library: Library) -> None:
    """JANE-16: friendly messages."""
    (root / "bytes.md").write_bytes(b"\xff\xfe")
    library.create("file.md", {}, "text")
    for use in (
        lambda: library.read("nowhere/a.md"),
        lambda: library.read("bytes.md"),
        lambda: library.create("file.md/a.md", {}, "text"),
        lambda: library.update("nowhere/a.md", {"a": 1}),
    ):
        with pytest.raises(ToolFailed) as caught:
            use()
        assert str(root) not in caught.value.message and "Errno" not in caught.value.message
