"""Passages of a document: lines with whole words marked, the best section, titles without badges."""

from __future__ import annotations

import threading

import pytest

from patchbay.documents.headings import headings, title_of
from patchbay.documents.passages import MAX_LINES, Passages, passages
from patchbay.fulltext.index import Index, IndexedText


def find_passages(query: str, body: str, before: int = 0) -> Passages:
    with Index({"text": 1.0}) as index:
        index.put(IndexedText("a", {"text": body}))
        return passages(index.read(query), body, before)


@pytest.mark.parametrize(
    ("query", "body", "line"),
    [
        ("issue", "call createIssue(now)", "call **createIssue**(now)"),
        ("create_issue", "see createIssue, create_issue", "see **createIssue**, **create_issue**"),
        ("validate", "the validation of validators", "the **validation** of **validators**"),
        ("cafe", "Un Café crème", "Un **Café** crème"),
        ("Verbindung", "Die Datenbankverbindungen", "Die **Datenbankverbindungen**"),
        ("запрос", "Тело запроса", "Тело **запроса**"),
        ("C++", "written in C++ today", "written in **C++** today"),
        ("🎉", "we won 🎉 again", "we won **🎉** again"),
        ('"quick fox"', "quick fox; a fox is quick", "**quick fox**; a fox is quick"),
        ("art", "a part of art", "a part of **art**"),
        ("recieve", "receive it", "**receive** it"),
    ],
)
def test_whole_words_are_marked(query: str, body: str, line: str) -> None:
    """JANE-17 (JANE-C10)."""
    assert [match.text for match in find_passages(query, body).lines] == [line]


def test_the_best_lines_are_shown_in_their_order() -> None:
    body = "\n".join(["red"] * 10 + ["red apple"] + ["apple"] * 10)
    found = find_passages("red apple", body, 3).lines
    assert len(found) == MAX_LINES and [match.line for match in found] == [4, 5, 6, 7, 14]
    assert found[-1].text == "**red** **apple**"


def test_a_common_word_of_a_large_text_is_marked_in_linear_work() -> None:
    """Twelve million characters, for which SQLite's own marking needs hours."""
    body = "the common word is common here\n" * 400_000
    done: list[Passages] = []
    thread = threading.Thread(target=lambda: done.append(find_passages("common word ", body)), daemon=True)
    thread.start()
    thread.join(60)
    assert done and len(done[0].lines) == MAX_LINES


def test_the_section_that_matches_best_is_named_with_its_anchor() -> None:
    body = "# Fruit\n\napple\n\n## Red ones\n\napple, pear\n\n"
    body += "## Kept cold {#cold}\n\npear and apple and plum\n\n## Red ones\n"
    section = find_passages("apple plum", body).section
    assert section is not None and (section.title, section.anchor) == ("Kept cold", "cold")
    assert [heading.anchor for heading in headings(body)] == ["fruit", "red-ones", "cold", "red-ones-1"]
    assert find_passages("apple", "no heading, an apple").section is None


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ("# [![Build](https://x/b.svg)](https://x) Flask\n", "Flask"),
        ("# ![logo](a.png)\n\n# The name\n", "The name"),
        ('<h1 align="center">\n  <img src="x"> <b>Vue</b> Router\n</h1>\n\n## Install\n', "Vue Router"),
        ("# `mcp` and *its* **[friends](https://x)** #\n", "mcp and its friends"),
        ("# snake_case_name and __init__\n", "snake_case_name and init"),
        ("```\n# no heading\n```\n# Heading\n", "Heading"),
        ("no heading", ""),
    ],
)
def test_a_title_has_no_badges_and_no_markup(body: str, title: str) -> None:
    assert title_of(body) == title


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Hooks", "How to use hooks"),
        ("use-hooks", "How to use hooks"),
        ("README", "Fastify"),
        ("fastify", "Fastify"),
        ("fastify-hooks", "Fastify"),
    ],
)
def test_a_banner_that_all_documents_share_is_not_the_title(name: str, title: str) -> None:
    """JANE-6: the documents of a project have different titles."""
    assert title_of('<h1 align="center">Fastify</h1>\n\n## How to use `hooks`\n', name) == title


def test_a_heading_of_many_blanks_is_parsed_in_linear_time() -> None:
    """THREATS 1.5: every pattern takes linear time. A document's author chooses its lines."""
    lines = [
        "# a" + " \t" * 200_000 + "b",
        "## c ##  ",
        "# " + "#" * 200_000,
        "# " + "[" * 200_000,
        "# " + "<a" * 100_000,
    ]
    found: list[list[str]] = []
    thread = threading.Thread(
        target=lambda: found.append([one.title for one in headings("\n".join(lines))]), daemon=True
    )
    thread.start()
    thread.join(60)
    assert found and found[0][:2] == ["a b", "c"]
