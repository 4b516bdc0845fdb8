"""The words of an index as one text: parts of words are found as in the table, also after changes. Issue 34 item 17."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.fulltext.index import Index, IndexedText


@pytest.mark.parametrize("is_file", [False, True])
def test_a_part_of_a_word_is_found_before_and_after_changes(is_file: bool, tmp_path: Path) -> None:
    """34.17: the first search after a change reads the table, the next ones the text."""
    with Index({"body": 1.0}, tmp_path / "index.sqlite" if is_file else None) as index:
        index.put(IndexedText("a", {"body": "Datenbankverbindung Übersichtsverbindung"}))

        def forms() -> list[frozenset[str]]:
            return [index.read("Verbindung ").words[0].forms for _ in range(3)]

        assert forms() == 3 * [frozenset({"datenbankverbindung", "ubersichtsverbindung"})]
        index.put(IndexedText("b", {"body": "Netzverbindung"}))
        assert forms() == 3 * [frozenset({"datenbankverbindung", "ubersichtsverbindung", "netzverbindung"})]
        index.clear()
        assert forms() == 3 * [frozenset()]
