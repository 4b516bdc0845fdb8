"""The official suite waits 1.5 seconds for some messages: its tests run alone, and before other work of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.locks import holding

PRIORITY = -10
"""The nice value of these tests, and of the hubs and suites that they start, where this user may choose it."""


@pytest.fixture(scope="module", autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run the tests of a module while no other worker runs a test."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    with holding(tmp_path_factory.getbasetemp().parent, alone=True):
        yield


@pytest.fixture(scope="module", autouse=True)
def _priority() -> Iterator[None]:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    yield
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder: a test that waited for the lock of its own module would wait forever."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.alone)
