"""Fixtures: a library in a temporary folder for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.documents.collection import Library


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    return folder


@pytest.fixture
def library(root: Path) -> Iterator[Library]:
    with Library(root) as library:
        yield library
