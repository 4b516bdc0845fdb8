"""One store of each kind: whatever a test here says is true of all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.store import Store
from patchbay.stores import KINDS, open_store
from tests.clocks import Clock


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(request.param, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)
