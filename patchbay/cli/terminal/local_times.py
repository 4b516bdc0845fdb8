"""The times that commands show to people: those of the time zone of this machine."""

from __future__ import annotations

from datetime import datetime


def format_local_time(at: float) -> str:
    """Return a Unix time as a date and a time, such as `2026-07-28 09:30:00`."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def format_local_clock(at: float) -> str:
    """Return a Unix time of today as a time, such as `09:30:00`."""
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
