"""A clock that a test moves: what stores and collections take for the present time."""

from __future__ import annotations

import time
from importlib import import_module

import pytest

READERS = (
    "patchbay.stores.memory",
    "patchbay.stores.sqlite.blobs",
    "patchbay.stores.sqlite.names",
    "patchbay.stores.sqlite.journal",
)
"""The modules that ask this clock."""


class Clock:
    """`now` is Unix time in seconds; a test adds to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time()
        for name in READERS:
            monkeypatch.setattr(import_module(name), "time", self)

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now
