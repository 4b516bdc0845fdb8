"""Work that ends with the test, for the tests of threads and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.wire.front.blocking import Blocking


@pytest.fixture
def blocking() -> Iterator[Callable[[], Blocking]]:
    """Make work that ends with the test at the latest."""
    made: list[Blocking] = []

    def make() -> Blocking:
        made.append(Blocking())
        return made[-1]

    yield make
    for each in made:
        each.end.set()
