"""Short texts by key: added, replaced, removed, and embedded again for another model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from patchbay.embeddings.selection import ModelSelection
from patchbay.embeddings.short_texts import ShortTexts
from patchbay.embeddings.static_model import StaticModel, Vectors
from tests.embeddings.small_models import make_model


def test_texts_are_found_by_what_they_mean_until_they_are_removed_or_replaced(tmp_path: Path) -> None:
    chosen = ModelSelection(str(make_model(tmp_path)))
    texts = ShortTexts(lambda: chosen)
    texts.put({"resize": "size of a photo", "cook": "soup"})
    assert list(texts.find("image")) == ["resize"]
    assert texts.find("image", lambda key: key != "resize") == {}
    texts.put({"resize": "duty"})
    assert texts.find("image") == {}
    assert list(texts.find("guard")) == ["resize"]
    texts.remove(["resize"])
    assert texts.find("guard") == {}


def test_another_model_embeds_all_texts_again(tmp_path: Path) -> None:
    chosen = [ModelSelection(str(make_model(tmp_path / "first")))]
    texts = ShortTexts(lambda: chosen[0])
    texts.put({"a": "photo"})
    assert list(texts.find("soup")) == []
    chosen[0] = ModelSelection(str(make_model(tmp_path / "second", (("photo", "soup"), ("size",)))))
    assert list(texts.find("soup")) == ["a"]


def test_a_search_embeds_its_question_alone_after_the_texts_are_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ModelSelection(str(make_model(tmp_path)))
    texts = ShortTexts(lambda: chosen)
    texts.put({"resize": "size of a photo", "cook": "soup"})
    texts.prepare()
    embedded: list[str] = []
    embed = StaticModel.embed

    def noted(self: StaticModel, given: Sequence[str]) -> Vectors:
        embedded.extend(given)
        return embed(self, given)

    monkeypatch.setattr(StaticModel, "embed", noted)
    assert list(texts.find("image")) == ["resize"] and embedded == ["image"]


def test_without_a_model_nothing_is_found() -> None:
    texts = ShortTexts(lambda: ModelSelection("off"))
    texts.put({"a": "photo"})
    texts.prepare()
    assert not texts.is_possible and texts.find("photo") == {}
