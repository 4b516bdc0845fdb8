"""Attachments live and die with the text that they were made of."""

from __future__ import annotations

from pathlib import Path

from patchbay.fulltext.attachments import Attachments
from patchbay.fulltext.index import Index, IndexedText


def opened(path: Path | None = None) -> tuple[Index, Attachments]:
    index = Index({"body": 1.0}, path, labels=("cid",))
    return index, index.attachments("cid")


def text(key: str, body: str) -> IndexedText:
    return IndexedText(key, {"body": body}, {"cid": body})


def attach_all(attachments: Attachments, kind: str = "k") -> None:
    attachments.put(
        kind, "origin", [(one, one.texts[0].encode()) for one in attachments.unattached(kind, ("body",), 100)]
    )


def test_a_replaced_or_removed_text_loses_its_attachment_also_at_the_same_number(tmp_path: Path) -> None:
    index, attachments = opened(tmp_path / "index")
    index.put(text("a", "one"), text("b", "two"))
    attach_all(attachments)
    assert attachments.count_unattached("k") == 0
    _, new = attachments.changes("k", set())
    assert {(key, data) for _, key, data in new} == {("a", b"one"), ("b", b"two")}
    known = {number for number, _, _ in new}
    index.put(text("b", "three"))  # the last document: it has the same number in the index again
    index.remove("a")
    assert [one.key for one in attachments.unattached("k", ("body",), 100)] == ["b"]
    gone, new = attachments.changes("k", known)
    assert gone == known and new == []
    attach_all(attachments)
    gone, new = attachments.changes("k", known)
    assert gone == known and [(key, data) for _, key, data in new] == [("b", b"three")]


def test_what_was_made_of_an_earlier_text_is_not_stored() -> None:
    index, attachments = opened()
    index.put(text("a", "one"))
    waiting = attachments.unattached("k", ("body",), 10)
    index.put(text("a", "two"))
    attachments.put("k", "origin", [(one, b"old") for one in waiting])
    assert attachments.count_unattached("k") == 1
    assert attachments.changes("k", set()) == (set(), [])


def test_another_process_without_attachments_deletes_them_with_the_text(tmp_path: Path) -> None:
    index, attachments = opened(tmp_path / "index")
    index.put(text("a", "one"))
    attach_all(attachments)
    with Index({"body": 1.0}, tmp_path / "index", labels=("cid",)) as other:
        other.put(text("a", "two"))
    assert attachments.count_unattached("k") == 1


def test_kinds_stand_beside_each_other_until_one_is_dropped() -> None:
    index, attachments = opened()
    assert attachments.kinds() == {} and attachments.changes("k", {5}) == ({5}, [])
    attachments.drop_kind("k")
    index.put(text("a", "one"))
    attach_all(attachments, "old")
    attach_all(attachments, "new")
    assert attachments.kinds() == {"old": ("origin", 1), "new": ("origin", 1)}
    attachments.drop_kind("old")
    assert attachments.kinds() == {"new": ("origin", 1)}
    index.clear()
    assert attachments.kinds() == {}


def test_an_index_without_attachments_has_no_table_for_them(tmp_path: Path) -> None:
    index, attachments = opened(tmp_path / "index")
    index.put(text("a", "one"))
    attachments.unattached("k", ("body",), 10)
    index.close()
    assert b"attachment" not in (tmp_path / "index").read_bytes()
