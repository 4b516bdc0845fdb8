"""The nearest texts: exact, by their best section, and only those that may be found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.embeddings.nearest import NearestTexts, packed
from patchbay.embeddings.selection import folder_files, load_model
from patchbay.embeddings.static_model import StaticModel
from tests.embeddings.small_models import make_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> StaticModel:
    return load_model(folder_files(make_model(tmp_path_factory.mktemp("model"))))


def filled(model: StaticModel, documents: dict[str, list[str]]) -> NearestTexts:
    texts = NearestTexts(model.dimensions)
    for number, (key, parts) in enumerate(documents.items()):
        texts.add(number, key, packed(model.embed(parts)))
    return texts


def test_the_nearest_section_places_its_document(model: StaticModel) -> None:
    texts = filled(model, {"a": ["soup", "photo size"], "b": ["photo"], "c": ["duty"]})
    found = texts.find(model, "image", lambda key: True, 10)
    assert [(near.key, near.section) for near in found] == [("b", 0), ("a", 1)]
    assert np.isclose(found[0].cosine, 1.0, atol=0.01)


def test_what_may_not_be_found_takes_no_place_of_what_may(model: StaticModel) -> None:
    texts = filled(model, {f"secret{number}": ["photo"] for number in range(30)} | {"open": ["photo soup"]})
    assert [near.key for near in texts.find(model, "image", lambda key: key == "open", 5)] == ["open"]
    assert texts.find(model, "image", lambda key: False, 5) == []


def test_a_removed_document_is_not_found_and_a_replaced_one_by_its_new_text(model: StaticModel) -> None:
    texts = filled(model, {"a": ["photo"], "b": ["photo"]})
    texts.find(model, "image", lambda key: True, 5)
    texts.remove([0])
    texts.add(7, "a", packed(model.embed(["soup"])))
    assert [near.key for near in texts.find(model, "image", lambda key: True, 5)] == ["b"]
    assert [near.key for near in texts.find(model, "broth", lambda key: True, 5)] == ["a"]
    assert texts.numbers() == {1, 7}


@given(st.lists(st.lists(st.sampled_from(["photo", "size", "soup", "duty", "x"]), min_size=1, max_size=4), max_size=12))
def test_the_search_is_as_exact_as_comparing_each_section(model: StaticModel, parts: list[list[str]]) -> None:
    documents = {f"d{number:02}": words for number, words in enumerate(parts)}
    question = model.embed(["photo size soup"])[0]
    best = {key: max(float(one @ question) for one in model.embed(words)) for key, words in documents.items()}
    found = filled(model, documents).find(model, "photo size soup", lambda key: True, 50)
    assert {near.key for near in found} == {key for key, cosine in best.items() if cosine > 0}
    assert all(abs(near.cosine - best[near.key]) < 0.01 for near in found)
