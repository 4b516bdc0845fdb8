"""An index whose file fails in the middle of its work: no document is missing from lists and searches."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from patchbay.documents.collection import Library


def keys(library: Library, query: str) -> set[str]:
    library.catch_up()
    return {hit.row.key for hit in library.search(query, limit=100).hits}


def fill(library: Library) -> set[str]:
    """Ten documents with the word soup; their paths."""
    return {library.create(f"specs/hub/{number}.md", {}, f"soup {number}").row.key for number in range(10)}


def test_a_full_disk_of_the_index_leaves_lists_and_searches_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """34.4: SQLite reports a full disk at its limit of pages; the index goes on in memory."""
    with Library(tmp_path) as library:
        known = fill(library)
        connection = library._index.index._connection
        connection.execute("PRAGMA max_page_count = 1")
        for number in range(20):
            text = " ".join(f"word{number}x{place}" for place in range(2000))
            known.add(library.create(f"specs/more/{number}.md", {}, f"soup {text}").row.key)
        assert keys(library, "soup") == known
        assert {row.key for row in library.rows()} == known
        assert not library.behind
    assert str(tmp_path / ".library" / "index.sqlite") in caplog.text and "free space" in caplog.text
    with Library(tmp_path) as library:
        assert keys(library, "soup") == known


def test_an_index_that_fails_while_files_are_only_touched_is_built_again(tmp_path: Path) -> None:
    """34.4: a search ended in KeyError."""
    with Library(tmp_path) as library:
        known = fill(library)
        connection = sqlite3.connect(tmp_path / ".library" / "index.sqlite")
        with connection:
            connection.execute("CREATE TRIGGER broken BEFORE UPDATE ON entry BEGIN SELECT raise(ABORT, 'broken'); END")
        connection.close()
        for key in known:
            os.utime(tmp_path / key, ns=(1, 1))
        library.refresh()
        assert keys(library, "soup") == known
