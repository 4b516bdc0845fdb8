"""One store of each kind: whatever a test here says is true of all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.store import Store
from patchbay.stores import KINDS, open_store
from tests.bouncers import PROGRAM, Bouncer
from tests.clocks import Clock, DatabaseClock
from tests.databases import OLDEST_PROGRAMS, PostgresqlServer

POSTGRESQL, WITH_BUCKET, WITH_REDIS = "postgresql", "postgresql with a bucket", "postgresql with redis"
OLDEST_POSTGRESQL = "postgresql 15"
WITH_BOUNCER = "postgresql behind pgbouncer"


@pytest.fixture(scope="session")
def oldest_postgresql() -> Iterator[PostgresqlServer]:
    """The oldest PostgreSQL that is supported, where Debian's package is there."""
    if not OLDEST_PROGRAMS.is_dir():
        pytest.skip(f"{OLDEST_PROGRAMS} is missing; on Debian 12: apt-get install postgresql-15")
    server = PostgresqlServer(programs=OLDEST_PROGRAMS)
    yield server
    server.close()


@pytest.fixture(scope="session")
def bouncer(postgresql: PostgresqlServer) -> Iterator[Bouncer]:
    """A PgBouncer in front of the PostgreSQL of this test process, where Debian's package is there."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is missing; on Debian: apt-get install pgbouncer")
    server = Bouncer(postgresql)
    yield server
    server.close()


@pytest.fixture
def pooled_database(bouncer: Bouncer) -> tuple[str, str]:
    """The addresses of an empty database: through the pooler, and directly."""
    return bouncer.new_database()


@pytest.fixture(params=[*KINDS, POSTGRESQL, OLDEST_POSTGRESQL, WITH_BUCKET, WITH_REDIS, WITH_BOUNCER])
def form(request: pytest.FixtureRequest) -> str:
    """Which of the stores."""
    return str(request.param)


@pytest.fixture
def kind(form: str, request: pytest.FixtureRequest) -> str:
    """The setting `store`."""
    if form == OLDEST_POSTGRESQL:
        server: PostgresqlServer = request.getfixturevalue("oldest_postgresql")
        return server.new_schema()
    if form == WITH_BOUNCER:
        return str(request.getfixturevalue("pooled_database")[0])
    return form if form in KINDS else str(request.getfixturevalue("database"))


@pytest.fixture
def store(
    form: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    blobs = ""
    if form == WITH_BUCKET:
        monkeypatch.setattr("patchbay.stores.postgresql.large_blobs.LARGE_BYTES", 2)
        blobs = request.getfixturevalue("bucket")
    bus = request.getfixturevalue("redis_server").address if form == WITH_REDIS else ""
    bus = request.getfixturevalue("pooled_database")[1] if form == WITH_BOUNCER else bus
    opened = open_store(kind, tmp_path, bus_address=bus, blobs=blobs)
    yield opened
    opened.close()


@pytest.fixture
def clock(kind: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch) if kind in KINDS else DatabaseClock(monkeypatch, kind)
