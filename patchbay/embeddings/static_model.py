"""A static model: the vector of a text is the mean of the vectors of its tokens, of length 1.

Two forms are read: Model2Vec (`embeddings`, and from version 0.6 on `weights` and `mapping` of tokens), and WordLlama
(`embedding.weight`). Sources: https://github.com/MinishLab/model2vec; https://github.com/dleemiller/WordLlama.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from patchbay.embeddings.model_files import SETTING, ModelFiles
from patchbay.errors import ConfigError

Vectors = NDArray[np.float32]

MAX_TOKENS = 512
"""Tokens of a text that count; the rest of a longer text is ignored."""

BATCH = 64
"""Texts that are split into tokens at a time."""


class StaticModel:
    """A model in memory. Thread-safe. `digest` names its bytes, `name` is for people."""

    def __init__(self, name: str, digest: str, tokenizer: Tokenizer, tokens: NDArray[Any], table: _Table) -> None:
        self.name = name
        self.digest = digest
        self._tokenizer = tokenizer
        self._tokens = tokens
        self._table = table

    @property
    def dimensions(self) -> int:
        """Numbers of a vector."""
        return int(self._tokens.shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a vector of length 1 for each text; a text without known tokens has one of zeros."""
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for begin in range(0, len(texts), BATCH):
            self._embed_batch(texts[begin : begin + BATCH], found[begin : begin + BATCH])
        return found

    def _embed_batch(self, texts: Sequence[str], found: Vectors) -> None:
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        ids = [self._table.known(one.ids[:MAX_TOKENS]) for one in encoded]
        filled = [place for place, each in enumerate(ids) if each]
        if not filled:
            return
        counts = np.array([len(ids[place]) for place in filled])
        flat = np.fromiter(chain.from_iterable(ids), np.int64, int(counts.sum()))
        vectors = self._table.rows(self._tokens, flat)
        sums = np.add.reduceat(vectors, np.concatenate(([0], counts.cumsum()[:-1])), axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        found[filled] = sums / np.where(lengths > 0, lengths, 1)


class _Table:
    """Where the vector of a token is: its row and its weight, or its own number and no weight."""

    def __init__(
        self, count: int, unknown: int | None, mapping: NDArray[Any] | None, weights: NDArray[Any] | None
    ) -> None:
        self._count = len(mapping) if mapping is not None else count
        self._unknown = unknown
        self._mapping = mapping
        self._weights = weights

    def known(self, ids: Sequence[int]) -> list[int]:
        """Return the tokens that have a vector."""
        return [one for one in ids if one < self._count and one != self._unknown]

    def rows(self, tokens: NDArray[Any], ids: NDArray[np.int64]) -> Vectors:
        """Return the vectors of tokens."""
        vectors: Vectors = tokens[self._mapping[ids] if self._mapping is not None else ids].astype(np.float32)
        return vectors * self._weights[ids][:, None].astype(np.float32) if self._weights is not None else vectors


def read_model(files: ModelFiles) -> StaticModel:
    """Read a model. Raises ConfigError for files that cannot be read or are no static model."""
    try:
        digest = sha256(files.weights.read_bytes())
        digest.update(files.tokenizer.read_bytes())
        tensors = _read_tensors(files)
        tokenizer = Tokenizer.from_file(str(files.tokenizer))
    except Exception as problem:
        # `tokenizers` raises nothing but Exception itself for a file that it cannot read.
        if isinstance(problem, (OSError, SafetensorError)) or type(problem) is Exception:
            raise ConfigError(SETTING, "", f"the model {files.name} cannot be read: {problem}") from problem
        raise
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokens = tensors.get("embeddings", tensors.get("embedding.weight"))
    if tokens is None or tokens.ndim != 2:
        found = ", ".join(sorted(tensors)) or "nothing"
        expected = "expected a static model, with a table `embeddings` or `embedding.weight`"
        raise ConfigError(SETTING, "", f"{expected}; {files.weights} has {found}")
    table = _Table(len(tokens), _unknown_token(tokenizer), tensors.get("mapping"), tensors.get("weights"))
    return StaticModel(files.name, digest.hexdigest()[:32], tokenizer, tokens, table)


def _read_tensors(files: ModelFiles) -> dict[str, NDArray[Any]]:
    with safe_open(files.weights, framework="numpy") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - the file is no mapping


def _unknown_token(tokenizer: Tokenizer) -> int | None:
    """Return the token that stands for what the tokenizer does not know; None without one."""
    text = getattr(tokenizer.model, "unk_token", None)
    return tokenizer.token_to_id(text) if isinstance(text, str) else None
