"""Static models: vectors of length 1 from both forms of files, and errors that name the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from patchbay.embeddings.selection import folder_files, load_model, wheel_files
from patchbay.errors import ConfigError
from tests.embeddings.small_models import make_model


@pytest.mark.parametrize("is_compressed", [False, True])
def test_words_of_one_group_have_one_vector_of_length_one(tmp_path: Path, is_compressed: bool) -> None:
    model = load_model(folder_files(make_model(tmp_path, is_compressed=is_compressed)))
    picture, photo, both, unknown = model.embed(["Picture", "photo", "a photo size", "zzz"])
    assert np.allclose(picture, photo)
    assert np.isclose(np.linalg.norm(both), 1.0)
    assert np.isclose(float(both @ photo), 0.5**0.5)
    assert not unknown.any()


def test_the_model_in_the_wheel_is_read_by_path_and_knows_what_words_mean() -> None:
    files = wheel_files()
    assert files is not None
    model = load_model(files)
    assert model.dimensions == 256
    question, near, far = model.embed(["change the size of a picture", "resize an image", "merge a pull request"])
    assert float(question @ near) > float(question @ far) + 0.2


def test_more_texts_than_a_batch_have_the_same_vectors_as_alone(tmp_path: Path) -> None:
    model = load_model(folder_files(make_model(tmp_path)))
    texts = ["photo", "", "soup size"] * 50
    assert np.allclose(model.embed(texts), np.vstack([model.embed([text]) for text in texts]))


def test_files_that_are_no_model_are_named_in_the_error(tmp_path: Path) -> None:
    make_model(tmp_path)
    save_file({"other": np.zeros((2, 2), np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=r"expected a static model.*has other"):
        load_model(folder_files(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_model(folder_files(tmp_path))
    make_model(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_model(folder_files(tmp_path))
