"""The meaning of short texts by key, such as tools: vectors in memory, made at the first search after a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING

from patchbay.embeddings.selection import ModelSelection, selected
from patchbay.errors import ConfigError

if TYPE_CHECKING:
    from patchbay.embeddings.nearest import NearestTexts
    from patchbay.embeddings.static_model import StaticModel

MAX_NEAR = 20
"""Texts that a search finds by meaning, at most."""

MIN_COSINE = 0.2
"""A text below this cosine is not near; unrelated texts have about 0.1."""


class ShortTexts:
    """Texts by key. Not thread-safe: its owner has a lock. Without a model, nothing is found."""

    def __init__(self, selection: Callable[[], ModelSelection] = selected) -> None:
        self._selection = selection
        self._texts: dict[str, str] = {}
        self._waiting: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._next = count()
        self._model: StaticModel | None = None
        self._nearest: NearestTexts | None = None

    def put(self, texts: Mapping[str, str]) -> None:
        """Add or replace texts."""
        self._texts.update(texts)
        self._waiting.update(texts)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove texts."""
        for key in keys:
            self._texts.pop(key, None)
            self._waiting.pop(key, None)
            number = self._numbers.pop(key, None)
            if number is not None and self._nearest is not None:
                self._nearest.remove([number])

    @property
    def is_possible(self) -> bool:
        """Whether there is a model, without loading it."""
        return self._selection().is_possible

    def prepare(self) -> None:
        """Make the vectors of the texts that wait, so that the next search need not."""
        model = self._load() if self._waiting else None
        if model is not None and self._nearest is not None:
            self._embed_waiting(model, self._nearest)

    def find(self, question: str, may_find: Callable[[str], bool] = lambda key: True) -> dict[str, float]:
        """Return the texts near a question that may be found, by key with their cosines, nearest first."""
        model = self._load()
        if model is None or self._nearest is None:
            return {}
        self._embed_waiting(model, self._nearest)
        near = self._nearest.find(model, question, may_find, MAX_NEAR)
        return {one.key: one.cosine for one in near if one.cosine >= MIN_COSINE}

    def _load(self) -> StaticModel | None:
        """Return the model; after a change of the model, all texts wait again."""
        try:
            model = self._selection().load()
        except ConfigError:
            return None
        if model is not None and (self._model is None or model.digest != self._model.digest):
            self._nearest = import_module("patchbay.embeddings.nearest").NearestTexts(model.dimensions)
            self._waiting, self._numbers = dict(self._texts), {}
            self._model = model
        return model

    def _embed_waiting(self, model: StaticModel, nearest: NearestTexts) -> None:
        if not self._waiting:
            return
        packed = import_module("patchbay.embeddings.nearest").packed
        keys = list(self._waiting)
        nearest.remove([self._numbers[key] for key in keys if key in self._numbers])
        for key, vector in zip(keys, model.embed([self._waiting[key] for key in keys]), strict=True):
            number = self._numbers[key] = next(self._next)
            nearest.add(number, key, packed(vector))
        self._waiting.clear()
