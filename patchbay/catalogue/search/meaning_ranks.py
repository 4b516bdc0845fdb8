"""Ranks tools and other entries by words and by meaning together: for `search_tools` and the pages' search.

Words are also found in other forms and with corrected spelling; the words as they are written weigh twice as much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from patchbay.embeddings.fusion import fused_scores
from patchbay.embeddings.short_texts import ShortTexts
from patchbay.fulltext.exactness import asks_for_words
from patchbay.fulltext.index import Index, IndexHit
from patchbay.fulltext.query import ParsedQuery

MEANING_WEIGHT = 0.5
"""Weight of the meaning beside the words. With 0.5 and 1.0 the answers to known questions are about equally good."""

OTHER_FORMS_WEIGHT = 0.5
"""Weight of words in other forms and with corrected spelling."""

MAX_RANKED = 100
"""Entries found by words, beyond the requested ones, that are ranked by meaning too."""

Why = Literal["words", "meaning", "both"]


def rank_entries(
    index: Index,
    meaning: ShortTexts,
    query: str,
    limit: int,
    where: Mapping[str, str] | None = None,
    may_find: Callable[[str], bool] = lambda key: True,
) -> dict[str, Why]:
    """Return at most `limit` keys, best first, each with why it was found; words alone for a query of exact words.
    A query without words finds nothing.

    `may_find` decides which entries are ranked by meaning. The caller filters those found by words, in the same way.
    """
    reading = index.read(query)
    if not reading.words:
        return {}
    words = _score_words(index, reading, limit + MAX_RANKED, where)
    near = {} if words and asks_for_words(query) else meaning.find(query, may_find)
    scores = fused_scores(words, near, MEANING_WEIGHT)
    best = sorted(scores, key=lambda key: (-scores[key], key))[:limit]
    return {key: _explain(key in words, key in near) for key in best}


def _explain(by_words: bool, by_meaning: bool) -> Why:
    if not by_words:
        return "meaning"
    return "both" if by_meaning else "words"


def _score_words(index: Index, reading: ParsedQuery, limit: int, where: Mapping[str, str] | None) -> dict[str, float]:
    """Return the entries with a word of the query, with their scores."""
    found = _shares(index.find_documents(reading.narrow(False), limit, where))
    for key, share in _shares(index.find_documents(reading.wide(False), limit, where)).items():
        found[key] = found.get(key, 0.0) + OTHER_FORMS_WEIGHT * share
    return found


def _shares(hits: Sequence[IndexHit]) -> dict[str, float]:
    """Return scores as shares of the best score."""
    best = max((hit.score for hit in hits), default=1.0) or 1.0
    return {hit.key: hit.score / best for hit in hits}
