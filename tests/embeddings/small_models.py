"""Small models as Model2Vec folders: words of one group have the same vector, so that tests know what is near."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

GROUPS = (("picture", "photo", "image"), ("size", "scale"), ("soup", "broth"), ("duty", "guard"))


def make_model(folder: Path, groups: Sequence[Sequence[str]] = GROUPS, is_compressed: bool = False) -> Path:
    """Write a model with one dimension for each group of words; return its folder.

    `is_compressed` writes the form of Model2Vec 0.6, with weights of tokens and a mapping to fewer vectors.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = {"[UNK]": 0} | {word: 1 + place for place, word in enumerate(word for group in groups for word in group)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    rows = [0, *(1 + number for number, group in enumerate(groups) for _ in group)]
    vectors = np.vstack([np.zeros(len(groups)), np.eye(len(groups))]).astype(np.float32)
    tensors: dict[str, NDArray[Any]]
    if is_compressed:
        tensors = {
            "embeddings": (vectors * 100).astype(np.int8),
            "mapping": np.array(rows, np.int64),
            "weights": np.full(len(rows), 0.5, np.float32),
        }
    else:
        tensors = {"embeddings": vectors[rows]}
    save_file(tensors, folder / "model.safetensors")
    return folder
