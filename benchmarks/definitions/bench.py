"""The tools of the benchmark: they do nothing, so that the benchmark measures the hub."""

import time
from collections.abc import Iterator


def echo(message: str) -> str:
    """Return the message."""
    return message


def moment(pause: float) -> Iterator[str]:
    """Yield the time at which that is done, between two pauses of so many seconds."""
    time.sleep(pause)
    yield repr(time.monotonic())
    time.sleep(pause)
