"""Queries that ask for exact words keep their order by words."""

from __future__ import annotations

import pytest

from patchbay.fulltext.exactness import asks_for_words


@pytest.mark.parametrize(
    "query", ['"body of a request"', "valid*", "createIssue", "app.dependency_overrides", "a_b c_d"]
)
def test_a_phrase_a_beginning_and_identifiers_ask_for_words(query: str) -> None:
    assert asks_for_words(query)


@pytest.mark.parametrize("query", ["how do I resize a picture", "soup", "what does createIssue do"])
def test_other_queries_do_not(query: str) -> None:
    assert not asks_for_words(query)
