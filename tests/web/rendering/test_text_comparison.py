"""Texts side by side and in colours, as pure functions; and kinds of content."""

from __future__ import annotations

import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.cid import cid_of
from patchbay.web.rendering.content_kinds import detect_kind, image_type
from patchbay.web.rendering.highlighting import (
    MAX_COLOURED_CHARACTERS,
    MAX_SHOWN_CHARACTERS,
    highlight_lines,
    highlight_source,
    indent_json,
)
from patchbay.web.rendering.templates import format_json
from patchbay.web.rendering.text_comparison import MAX_COMPARED_LINES, MAX_MARKED_LINES, compare

LINES = st.lists(st.sampled_from(["a", "b", "c = 1", "c = 2", ""]), max_size=30).map("\n".join)


@given(LINES, LINES)
def test_both_texts_can_be_read_from_their_comparison(old: str, new: str) -> None:
    """Folded lines are equal on both sides, and all other lines are shown; an empty text has no lines."""
    before, after = (text.split("\n") if text else [] for text in (old, new))
    found = compare(old, new)
    assert found.same == (old == new)
    left = {row.old: "".join(text for _, text in row.left) for row in found.rows if row.old}
    right = {row.new: "".join(text for _, text in row.right) for row in found.rows if row.new}
    assert all(before[number - 1] == text for number, text in left.items())
    assert all(after[number - 1] == text for number, text in right.items())
    folded = sum(row.many for row in found.rows)
    if not found.same:
        assert (len(left) + folded, len(right) + folded) == (len(before), len(after))
    changed = [row for row in found.rows if row.kind == "changed"]
    assert found.added == len(changed) + sum(row.kind == "added" for row in found.rows)


def test_a_change_within_a_line_is_marked_word_by_word() -> None:
    row = next(row for row in compare("x = int(2)", "x = float(2)").rows if row.kind == "changed")
    assert [text for hit, text in row.left if hit] == ["int"]
    assert [text for hit, text in row.right if hit] == ["float"]


def test_texts_that_are_too_long_are_not_compared() -> None:
    found = compare("a\n" * (MAX_COMPARED_LINES + 1), "b")
    assert found.problem and str(MAX_COMPARED_LINES) in found.problem and not found.rows


@given(st.text(), st.sampled_from(["python", "shell", "json", "markdown", "text"]))
def test_colours_change_no_character(text: str, language: str) -> None:
    lines = highlight_lines(text, language)
    assert "\n".join("".join(piece for _, piece in line) for line in lines).rstrip("\n") == text.rstrip("\n")
    assert all(kind == "" or kind.replace("-", "").isalpha() for line in lines for kind, _ in line)


def test_a_cid_in_a_text_is_a_link_and_similar_texts_are_not() -> None:
    cid = cid_of(b"x")
    assert ("cid", cid) in highlight_lines(f'{{"a": "{cid}"}}', "json")[0]
    assert all(kind != "cid" for kind, _ in highlight_lines("bafkrei" + "9" * 52, "text")[0])


def test_a_long_text_is_shown_in_part_and_without_colours() -> None:
    shown = highlight_source("x = 1\n" * MAX_SHOWN_CHARACTERS, "python")
    assert shown.cut and {kind for line in shown.lines for kind, _ in line} == {""}
    assert not highlight_source("x = 1\n" * (MAX_COLOURED_CHARACTERS // 10), "python").cut


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "text"),
        (b"hello world", "text"),
        (b"hello", "text"),
        (b'{"a": 1}', "json"),
        (b"[1", "text"),
        (b"def f(): pass\n", "python"),
        (b'"""Doc."""\nimport os\n', "python"),
        (b"#!/bin/sh\necho\n", "shell"),
        (b"@bash_command jq\n", "shell"),
        (b"# Title\n\nText.\n", "markdown"),
        (b"<svg onload=alert(1)>", "text"),
        (b"<!doctype html>", "text"),
        (b"\xff\xfe", "binary"),
        (b"a\0b", "binary"),
        (b"\x89PNG\r\n\x1a\n", "image"),
        (b"RIFF0000WEBPVP8 ", "image"),
        (b"RIFF0000WAVEfmt ", "text"),
        (b"(" * 5000, "text"),
    ],
)
def test_the_kind_of_a_content_is_detected_from_its_bytes(data: bytes, kind: str) -> None:
    assert detect_kind(data) == kind
    assert (image_type(data) is not None) == (kind == "image")


def test_a_reference_to_a_content_decides_its_kind() -> None:
    assert detect_kind(b"# only a comment\n") == "markdown"
    assert detect_kind(b"# only a comment\n", ["python"]) == "python"


def test_only_so_many_changed_lines_are_looked_into() -> None:
    """THREATS 1.1 (unbounded consumption): which lines changed is always told, where within them only of some."""
    for many, marked in ((MAX_MARKED_LINES, True), (MAX_MARKED_LINES + 1, False)):
        found = compare(*("\n".join(f"line {number} is {word}" for number in range(many)) for word in ("old", "new")))
        assert found.added == found.removed == many
        assert any(changed for row in found.rows for changed, _ in row.left) == marked


def test_a_hostile_text_is_distinguished_from_markdown_in_bounded_time() -> None:
    """THREATS 1.5: time-bound every pattern. A tool's long answer is content with a page."""
    begun = time.thread_time()
    assert detect_kind(b"](a" * 60_000) == "text"
    assert time.thread_time() - begun < 5


def test_json_that_nests_deeply_is_shown_as_it_is() -> None:
    """Indented it would be hundreds of times as long; deeper, it cannot be written again at all."""
    for text in ("[" * 200 + "1," * 60_000 + "1" + "]" * 200, "[" * 600 + "]" * 600):
        assert indent_json(text) == text
    assert len(format_json(orjson.loads("[" * 200 + "1," * 60_000 + "1" + "]" * 200))) < 200_000
    assert indent_json('{"a":[1]}') == '{\n  "a": [\n    1\n  ]\n}'
