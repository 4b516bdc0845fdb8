"""One store of each kind: whatever a test here says is true of all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.store import Store
from patchbay.stores import KINDS, open_store
from tests.clocks import Clock, DatabaseClock

POSTGRESQL = "postgresql"


@pytest.fixture(params=[*KINDS, POSTGRESQL])
def kind(request: pytest.FixtureRequest) -> str:
    """The setting `store`."""
    return str(request.getfixturevalue("database") if request.param == POSTGRESQL else request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(kind, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def clock(kind: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch) if kind in KINDS else DatabaseClock(monkeypatch, kind)
