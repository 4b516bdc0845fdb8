"""What every test may ask for: settings that touch nothing outside its own folder, and a store in memory."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore

hypothesis.settings.register_profile("patchbay", deadline=None)
hypothesis.settings.load_profile("patchbay")
"""An example has no time limit: on a busy machine, the time that it takes says nothing about the program."""


def pytest_configure() -> None:
    """A shell's background job begins with Ctrl-C ignored, and programs started from it too; tests send it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Default settings with empty folders of this test's own, and the store in memory."""
    data, servers = tmp_path / "data", tmp_path / "servers"
    data.mkdir()
    servers.mkdir()
    return Settings(data=data, servers=servers, store="memory")


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store in memory, closed afterwards."""
    store = MemoryStore()
    yield store
    store.close()
