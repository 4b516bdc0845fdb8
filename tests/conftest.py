"""What every test may ask for: settings that touch nothing outside its own folder, and a store in memory."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore
from tests.buckets import BucketServer
from tests.databases import PostgresqlServer
from tests.interaction.programs import NODES, WORKERS
from tests.locks import holding
from tests.redises import RedisServer

pytest_plugins = ["tests.crashed_workers", "tests.full_runs", "tests.second_run"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workers",
        type=int,
        help="web worker processes of each hub that a test starts as a program, unless the test states a number",
    )

    parser.addoption(
        "--nodes",
        type=int,
        help="hubs on one PostgreSQL, behind nginx without affinity, in place of each hub that `running_hub` starts",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process for the tests.

    `--workers` becomes the hub's own setting in the environment, where each started hub finds it. A hub whose test
    states a number has it as an option, which has precedence. `--nodes` goes to `running_hub` the same way.
    PYTHONDONTWRITEBYTECODE, where the machine sets it, would let each started hub compile all of its modules again.
    A shell's background job begins with Ctrl-C ignored, and programs started from it too; tests send it.
    Hypothesis by default fails an example that takes 200 ms, which a busy machine reaches with any code.
    """
    if (workers := config.getoption("--workers")) is not None:
        os.environ[WORKERS] = str(workers)
    if (nodes := config.getoption("--nodes")) is not None:
        os.environ[NODES] = str(nodes)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis_settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    hypothesis_settings.load_profile("any speed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector: all that is made here stays until the end of the run.

    Each worker of pytest-xdist collects all tests, and the collector would take 40 % of that time. Afterwards, it
    leaves out what exists already, so that it has to look only at the objects of the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


FIRST = ("tests/zoo/",)
"""Tests that wait for a minute with little work: they begin early, so that others run beside them until the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the modules that run alone before all others, and then the tests of FIRST.

    At the beginning, a module that runs alone waits for no long test of another worker, and the type checks, which
    take one processor, run beside it (`scripts/test`).
    """
    items.sort(key=lambda item: (item.get_closest_marker("alone") is None, not item.nodeid.startswith(FIRST)))


@pytest.fixture(autouse=True)
def _module_lock(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Wait while another worker runs a module alone. The tests of such a module have the marker `alone`."""
    if "PYTEST_XDIST_WORKER" not in os.environ or request.node.get_closest_marker("alone"):
        yield
        return
    with holding(tmp_path_factory.getbasetemp().parent, alone=False):
        yield


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


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A PostgreSQL of this test process."""
    server = PostgresqlServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def bucket_server() -> Iterator[BucketServer]:
    """An S3 server of this test process."""
    server = BucketServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis of this test process."""
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture
def bucket(bucket_server: BucketServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty prefix in a bucket; the environment leads there."""
    for name, value in bucket_server.environment.items():
        monkeypatch.setenv(name, value)
    return bucket_server.new_prefix()


@pytest.fixture
def database(postgresql: PostgresqlServer) -> str:
    """The address of an empty schema in PostgreSQL."""
    return postgresql.new_schema()
