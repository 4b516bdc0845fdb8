"""What the worker of a running hub holds, and whether it comes back to what it held before."""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple

from tests.kinds.python.workers.conversing import family
from tests.serving.running import Worker
from tests.waiting import until


class Held(NamedTuple):
    """Processes below a worker however deep, what its descriptors lead to, and its threads."""

    processes: int
    descriptors: Counter[str]
    threads: int


def held(worker: Worker) -> Held:
    """What a worker holds now."""
    return Held(len(family(worker.pid)), worker.descriptors(), worker.threads())


def back_to(before: Held, worker: Worker) -> None:
    """Wait until a worker holds no more of anything than it did before."""

    def no_more() -> bool:
        now = held(worker)
        return all(mine <= then for mine, then in zip(now, before, strict=True))  # type: ignore[operator]

    until(no_more, lambda: f"no more than {before}, but {held(worker)}")


def settled(worker: Worker, seconds: float) -> Held:
    """What a worker holds, once that has not changed for so many seconds."""
    last, since = held(worker), time.monotonic()

    def quiet() -> bool:
        nonlocal last, since
        if (now := held(worker)) != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since > seconds

    until(quiet, lambda: f"it holds the same for {seconds:g} s, which is now {held(worker)}")
    return last
