"""Words and meaning together: shares, weights, and one ranking alone."""

from __future__ import annotations

import pytest

from patchbay.embeddings.fusion import fused_scores


def test_meaning_decides_between_equal_words_and_never_against_much_better_ones() -> None:
    fused = fused_scores({"a": 10.0, "b": 9.9, "c": 2.0}, {"b": 0.8, "c": 0.9}, 0.2)
    assert sorted(fused, key=lambda key: -fused[key]) == ["b", "a", "c"]
    assert fused["a"] == 10.0
    assert fused["c"] == pytest.approx(4.0)


def test_without_words_the_cosines_decide_and_without_meaning_the_words_stay_as_they_are() -> None:
    assert fused_scores({}, {"a": 0.4, "b": 0.8}, 0.2) == pytest.approx({"a": 0.1, "b": 0.2})
    assert fused_scores({"a": 3.0}, {}, 0.2) == {"a": 3.0}
