"""The official suite waits 1.5 seconds for some messages on any machine: so it runs before other work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

PRIORITY = -10
"""The nice value of these tests, and of the hubs and suites that they start, where this user may choose it."""


@pytest.fixture(scope="package", autouse=True)
def _priority() -> Iterator[None]:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    yield
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, before)
