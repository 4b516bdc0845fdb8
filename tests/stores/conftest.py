"""One store of each kind: whatever a test here says is true of all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.store import Store
from patchbay.stores import KINDS, open_store
from tests.clocks import Clock, DatabaseClock

POSTGRESQL, WITH_BUCKET, WITH_REDIS = "postgresql", "postgresql with a bucket", "postgresql with redis"


@pytest.fixture(params=[*KINDS, POSTGRESQL, WITH_BUCKET, WITH_REDIS])
def form(request: pytest.FixtureRequest) -> str:
    """Which of the stores."""
    return str(request.param)


@pytest.fixture
def kind(form: str, request: pytest.FixtureRequest) -> str:
    """The setting `store`."""
    return form if form in KINDS else str(request.getfixturevalue("database"))


@pytest.fixture
def store(
    form: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    blobs = ""
    if form == WITH_BUCKET:
        monkeypatch.setattr("patchbay.stores.postgresql.large_blobs.LARGE_BYTES", 2)
        blobs = request.getfixturevalue("bucket")
    redis = request.getfixturevalue("redis_server").address if form == WITH_REDIS else ""
    opened = open_store(kind, tmp_path, bus_address=redis, blobs=blobs)
    yield opened
    opened.close()


@pytest.fixture
def clock(kind: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch) if kind in KINDS else DatabaseClock(monkeypatch, kind)
