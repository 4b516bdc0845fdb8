"""The model of this process: which one the setting `embeddings` names, loaded at the first use.

The packages of the extra `semantic` are optional. Without them there is no model, and each search is one by words. A
model is read from files alone: nothing here uses the network.
"""

from __future__ import annotations

import threading
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from patchbay.embeddings.model_files import SETTING, ModelFiles
from patchbay.errors import ConfigError

if TYPE_CHECKING:
    from patchbay.embeddings.static_model import StaticModel

OFF = "off"
"""The value of the setting that switches search by meaning off."""

LIBRARIES = ("numpy", "safetensors", "tokenizers")
WHEEL = "wordllama"
"""The package whose wheel has the weights and the tokenizer of the default model. Its code is never imported."""

INSTALL = "pip install 'patchbay-hub[semantic]'"
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
"""The files that a Model2Vec folder must have. Source: https://github.com/MinishLab/model2vec."""

_WHEEL_WEIGHTS = "weights/l2_supercat_256.safetensors"
_WHEEL_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class ModelSelection:
    """The model that a setting names: a Model2Vec folder; the default one if empty; none for `off`. Thread-safe."""

    def __init__(self, folder: str = "") -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._model: StaticModel | None = None
        self._files: ModelFiles | None = None
        self._is_found = False

    def files(self) -> ModelFiles | None:
        """Return the files of the model; None without one. Raises ConfigError for a folder that is no model."""
        if not self._is_found:
            if self._folder != OFF and not missing_libraries():
                self._files = folder_files(Path(self._folder).expanduser()) if self._folder else wheel_files()
            self._is_found = True
        return self._files

    @property
    def is_possible(self) -> bool:
        """Whether there is a model, without loading it."""
        try:
            return self.files() is not None
        except ConfigError:
            return False

    def check(self) -> None:
        """Check the setting. Raises ConfigError for a folder without a model, or with packages that are missing."""
        if self._folder in ("", OFF):
            return
        folder_files(Path(self._folder).expanduser())
        if missing := missing_libraries():
            raise ConfigError(SETTING, "", f"a model needs {', '.join(missing)}: {INSTALL}")

    def load(self) -> StaticModel | None:
        """Return the model, read from its files the first time; None without one. Raises ConfigError."""
        with self._lock:
            if self._model is None and (files := self.files()) is not None:
                self._model = load_model(files)
            return self._model


def load_model(files: ModelFiles) -> StaticModel:
    """Return the model of these files. Raises ConfigError for files that are no model."""
    model: StaticModel = import_module("patchbay.embeddings.static_model").read_model(files)
    return model


def missing_libraries() -> list[str]:
    """Return the packages of the extra that are not installed and that every model needs."""
    return [name for name in LIBRARIES if find_spec(name) is None]


def wheel_files() -> ModelFiles | None:
    """Return the files of the default model, found by path; None where its wheel is not installed or lacks them."""
    found = find_spec(WHEEL)
    for place in found.submodule_search_locations or () if found is not None else ():
        files = ModelFiles(WHEEL, Path(place) / _WHEEL_WEIGHTS, Path(place) / _WHEEL_TOKENIZER)
        if files.weights.is_file() and files.tokenizer.is_file():
            return files
    return None


def folder_files(folder: Path) -> ModelFiles:
    """Return the files of a Model2Vec folder. Raises ConfigError for a folder without them."""
    for name in (WEIGHTS, TOKENIZER):
        if not (folder / name).is_file():
            expected = f"expected a Model2Vec folder with {WEIGHTS} and {TOKENIZER}; {folder} has no {name}"
            raise ConfigError(SETTING, "", expected)
    return ModelFiles(str(folder), folder / WEIGHTS, folder / TOKENIZER)


_selection = ModelSelection()


def select(folder: str) -> ModelSelection:
    """Choose the model of this process by the value of the setting. Raises ConfigError for a wrong value."""
    global _selection
    chosen = ModelSelection(folder)
    chosen.check()
    _selection = chosen
    return chosen


def selected() -> ModelSelection:
    """Return the choice of this process; the default model before `select` was called."""
    return _selection
