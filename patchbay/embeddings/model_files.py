"""The files of a model, and the name of the setting that errors about them mention."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SETTING = "--embeddings"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The two files of a model, and its name for people."""

    name: str
    weights: Path
    tokenizer: Path
