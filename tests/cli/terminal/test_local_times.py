"""The times that commands show to people."""

from __future__ import annotations

import time

import pytest

from patchbay.cli.terminal.local_times import format_local_clock, format_local_time


def test_times_are_those_of_the_time_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "UTC-02:00")
        time.tzset()
        assert format_local_time(0.0) == "1970-01-01 02:00:00"
        assert format_local_clock(0.0) == "02:00:00"
    time.tzset()
