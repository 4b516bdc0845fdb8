"""Joins two rankings of the same search: by words, and by meaning.

The score of a document is its share of the best score by words, plus `weight` times its share of the best cosine. The
shares keep how sure the words are, which ranks alone lose: with reciprocal ranks (k 10), every weight made the answers
to known questions worse than words alone did (benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Mapping


def fused_scores(words: Mapping[str, float], meaning: Mapping[str, float], weight: float) -> dict[str, float]:
    """Return a score for each key of either ranking, in the scale of `words`; of cosines alone, if no word is found."""
    best = max(words.values(), default=0.0) or 1.0
    nearest = max(meaning.values(), default=0.0) or 1.0
    return {
        key: words.get(key, 0.0) + weight * best * max(0.0, meaning.get(key, 0.0)) / nearest
        for key in words.keys() | meaning.keys()
    }
