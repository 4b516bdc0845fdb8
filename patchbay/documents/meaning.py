"""Search by meaning in a library: the vectors of the sections of its documents, in the file of its index.

`embed` makes the vectors of documents that have none, from the texts in the index, in small transactions: it goes on
where it was ended. A changed document loses its vectors with its old text. After a change of the model, the vectors of
the earlier one answer until most documents have new ones, if its files are still there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchbay.documents.sections import sections
from patchbay.embeddings.selection import ModelSelection, folder_files, load_model, selected
from patchbay.errors import ConfigError
from patchbay.fulltext.attachments import Attachments, Unattached
from patchbay.fulltext.index import Index

if TYPE_CHECKING:
    from patchbay.embeddings.nearest import Near, NearestTexts
    from patchbay.embeddings.static_model import StaticModel

log = logging.getLogger(__name__)

BATCH_DOCUMENTS = 32
"""Documents whose vectors are stored in one transaction."""

MAX_NEAR = 20
"""Documents that a search finds by meaning, at most."""

MIN_COSINE = 0.2
"""A document below this cosine is not near; unrelated texts have about 0.1."""

FORM = "1"
"""The version of what is embedded: sections and their texts. Another one makes all vectors again."""


class Meaning:
    """The vectors of one index, and the search in them. Thread-safe. Without a model, nothing is found."""

    def __init__(self, index: Index, selection: Callable[[], ModelSelection] = selected) -> None:
        self._selection = selection
        self._index = index
        self._attachments: Attachments = index.attachments("cid")
        self._lock = threading.Lock()
        self._texts: NearestTexts | None = None
        self._kind = ""
        self._earlier: dict[str, StaticModel | None] = {}
        self._is_logged = False

    @property
    def model(self) -> StaticModel | None:
        """The model; None without one, also for one that cannot be read, which the log says once."""
        try:
            return self._selection().load()
        except ConfigError as problem:
            if not self._is_logged:
                log.warning("searches are by words only: %s", problem.message)
            self._is_logged = True
            return None

    @property
    def is_possible(self) -> bool:
        """Whether there is a model, without loading it."""
        return self._selection().is_possible

    @property
    def has_documents(self) -> bool:
        """Whether there is a document at all."""
        return len(self._index) > 0

    def pending(self) -> int:
        """Return the number of documents whose vectors are missing; 0 without a model."""
        model = self.model if self.is_possible and self.has_documents else None
        return self._attachments.count_unattached(_kind_of(model)) if model is not None else 0

    def embed(self, seconds: float, is_ending: Callable[[], bool] = lambda: False) -> bool:
        """Make vectors that are missing for at most `seconds`; return whether some are left.

        Raises sqlite3.DatabaseError if they cannot be stored: they are missing until the next call.
        """
        model = self.model
        end = time.monotonic() + seconds
        while model is not None and not is_ending():
            kind = _kind_of(model)
            batch = self._attachments.unattached(kind, ("title", "body"), BATCH_DOCUMENTS)
            if not batch:
                self._drop_earlier(kind)
                return False
            self._attachments.put(kind, model.name, _embedded(model, batch))
            if time.monotonic() >= end:
                return True
        return False

    def find(self, question: str, may_find: Callable[[str], bool]) -> list[Near]:
        """Return the documents near a question that may be found, nearest first."""
        kinds = self._attachments.kinds()
        model = self._answering_model(kinds) if kinds else None
        if model is None:
            return []
        with self._lock:
            return [
                near
                for near in self._catch_up(model).find(model, question, may_find, MAX_NEAR)
                if near.cosine >= MIN_COSINE
            ]

    def _catch_up(self, model: StaticModel) -> NearestTexts:
        """Return the vectors as they are in the index now. The caller holds the lock."""
        kind = _kind_of(model)
        if self._texts is None or kind != self._kind:
            self._texts, self._kind = _module("nearest").NearestTexts(model.dimensions), kind
        texts: NearestTexts = self._texts
        gone, new = self._attachments.changes(kind, texts.numbers())
        texts.remove(gone)
        for number, key, data in new:
            texts.add(number, key, data)
        return texts

    def _answering_model(self, kinds: dict[str, tuple[str, int]]) -> StaticModel | None:
        """Return the model whose vectors answer: the earlier one while it has more documents than the present one."""
        model = self.model
        if model is None:
            return None
        _, count = kinds.pop(_kind_of(model), ("", 0))
        for kind, (origin, earlier_count) in kinds.items():
            if earlier_count > count and (earlier := self._load_earlier(kind, origin)) is not None:
                return earlier
        return model

    def _load_earlier(self, kind: str, origin: str) -> StaticModel | None:
        """Return the model of a kind if its files are still there and unchanged."""
        if kind not in self._earlier:
            try:
                files = ModelSelection().files() if not Path(origin).is_absolute() else folder_files(Path(origin))
                found = load_model(files) if files is not None else None
            except ConfigError:
                found = None
            self._earlier[kind] = found if found is not None and _kind_of(found) == kind else None
        return self._earlier[kind]

    def _drop_earlier(self, kind: str) -> None:
        for one in self._attachments.kinds():
            if one != kind:
                self._attachments.drop_kind(one)
        self._earlier.clear()


def _kind_of(model: StaticModel) -> str:
    return f"{FORM} {model.digest}"


def _embedded(model: StaticModel, batch: list[Unattached]) -> list[tuple[Unattached, bytes]]:
    """Return the vectors of each document, in the order of its sections."""
    parts = [[section.text for section in sections(*one.texts)] for one in batch]
    vectors = model.embed([text for texts in parts for text in texts])
    packed = _module("nearest").packed
    made, begin = [], 0
    for one, texts in zip(batch, parts, strict=True):
        made.append((one, packed(vectors[begin : begin + len(texts)])))
        begin += len(texts)
    return made


def _module(name: str) -> Any:
    """Import a module that needs the packages of the extra, at the first use."""
    return import_module(f"patchbay.embeddings.{name}")
