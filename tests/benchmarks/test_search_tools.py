"""The questions about tools: each answer exists, and the lists are those of forty packages."""

from __future__ import annotations

import json

from benchmarks.search_tools import LISTS, QUESTIONS, list_tools


def test_each_answer_of_the_questions_is_a_tool_of_the_lists() -> None:
    known = {answer for answer, _ in list_tools()}
    asked = [row for rows in json.loads(QUESTIONS.read_text("utf-8")).values() for row in rows]
    assert len(asked) == 40
    assert [answer for _, *answers in asked for answer in answers if answer not in known] == []
    assert all(answers for _, *answers in asked)


def test_the_lists_are_those_of_forty_packages() -> None:
    lists = json.loads(LISTS.read_text("utf-8"))
    assert len(lists) == 40
    assert all(lists.values())
