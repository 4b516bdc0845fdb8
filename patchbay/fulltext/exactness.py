"""Says whether a query asks for exact words, so that its order by words is kept as it is."""

from __future__ import annotations

from patchbay.fulltext.words import exactly, read


def asks_for_words(query: str) -> bool:
    """Whether a query has a phrase in quotes or a beginning such as `valid*`, or has nothing but identifiers."""
    terms = read(query)
    return "*" in query or any(term.phrase for term in terms) or all(exactly(term) is not None for term in terms)
