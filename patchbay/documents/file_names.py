"""How well the name of a file fits a query: a document is often named after its subject.

The words of the name and of the query are compared by their English stems. Rare words of the query count more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from patchbay.fulltext.forms import stem
from patchbay.fulltext.words import COMMON, pieces

_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=16_384)
def list_stems(text: str) -> frozenset[str]:
    """Return the stems of the words of a text and of the parts of its identifiers, without common words."""
    words = (piece.lower() for word in _WORD.findall(text) for piece in pieces(word))
    return frozenset(stem("porter", word) for word in words if word not in COMMON)


def share_of_name(key: str, weights: Mapping[str, float]) -> float:
    """Return how well the file name of a path fits the stems of a query with their weights, from 0 to 1.

    It is the harmonic mean of two shares: of the query that is in the name, and of the name that is in the query.
    """
    name = list_stems(key.rpartition("/")[2].rpartition(".")[0])
    both = name & weights.keys()
    if not both:
        return 0.0
    found, precise = sum(weights[one] for one in both) / sum(weights.values()), len(both) / len(name)
    return 2 * found * precise / (found + precise)
