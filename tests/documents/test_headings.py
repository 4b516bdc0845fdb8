"""Headings: of both forms, against the parser markdown-it as a witness. Issue 33 part 9."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from patchbay.documents.headings import headings, title_of

TEXTS = [
    "Title\n=====\n\nText\n\nPart\n----\n\nText",
    "# One\n\nTwo\n---\n### Three",
    "over two\nlines\n===\n",
    "text\n\n---\n\nText\n",
    "- item\n---\n",
    "- item\ngoes on\n---\n",
    "> quoted\n---\n",
    "1. item\n===\n",
    "    code\n---\n",
    "```\nnot\n===\n```\n",
    "# atx\n---\n",
    "***\n---\n",
    "| a |\n| - |\n| b |\n\nPart\n-\n",
    "<div>\nhtml\n---\n",
    "text\n    goes on\n===\n",
    "a\n===\nb\n---\nc\n===\n",
    "---\n",
    "===\n",
    "Title\r\n=====\r\n\r\ntext",
    "\n  Title  \n  ---  \n",
    "# same\n\nsame\n===\n",
]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_headings_of_both_forms_are_those_of_commonmark(text: str) -> None:
    """33.9: level, words and order."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    expected = [
        (int(token.tag[1]), " ".join(tokens[at + 1].content.split()))
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]
    assert [(each.level, each.title) for each in headings(text)] == expected


def test_the_offsets_of_a_heading_hold_all_of_its_lines() -> None:
    """33.9: a match in the words of a heading belongs to it."""
    text = "intro\n\nover two\nlines {#own}\n====\n\ntext\n"
    (found,) = headings(text)
    assert text[found.begin : found.end] == "over two\nlines {#own}\n===="
    assert (found.title, found.anchor) == ("over two lines", "own")
    assert title_of(text) == "over two lines"
