"""Limits of tool processes."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import pytest

from patchbay.processes.limits import CpuTime


@pytest.fixture(autouse=True)
def _same_limits_afterwards() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_CPU)
    yield
    resource.setrlimit(resource.RLIMIT_CPU, before)


def _allowed() -> float:
    return resource.getrlimit(resource.RLIMIT_CPU)[0] - time.process_time()


def test_each_call_may_use_all_its_time_on_every_core() -> None:
    cpu = CpuTime()
    for seconds in (0.0, 1.0, 60.0, 60.0, 3600.0, 1.0, 60.0):
        cpu.allow(seconds)
        assert _allowed() > seconds


def test_a_short_call_after_a_long_one_has_a_low_limit_again() -> None:
    cpu = CpuTime()
    cpu.allow(100_000.0)
    cpu.allow(1.0)
    assert _allowed() < 1000
