"""Time limits for work of a page, such as highlighting: the work runs on a thread, which is stopped after its time.

The limit is processor time of the thread where the system measures it, so that a busy machine renders the same texts. A
thread stops between two steps of Python code; a step inside a library cannot be stopped, so texts have length limits
too. At most `MAX_CONCURRENT_JOBS` jobs run at the same time; more are refused at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty
from typing import ClassVar, TypeVar

from patchbay.errors import PatchbayError, ToolFailed
from patchbay.events import Data
from patchbay.threads.runner_threads import Pool

T = TypeVar("T")

MAX_CONCURRENT_JOBS = 8

MAX_WAIT_FACTOR = 10
"""Work may take this multiple of its processor time by the clock, on a busy machine."""

RECHECK_SECONDS = 0.1
"""Seconds between two checks of the processor time of work that exceeds its time by the clock."""

_POOL = Pool("pages", MAX_CONCURRENT_JOBS)


class TookTooLong(PatchbayError):
    """The work took too long."""

    code, status = -32600, 413


class TooManyJobs(TookTooLong):
    """Too many jobs are running; the same request works later (RFC 9110, section 15.6.4)."""

    status = 503
    headers: ClassVar[dict[str, str]] = {"Retry-After": "1"}


def run_within(seconds: float, work: Callable[[], T], what: str) -> T:
    """Return the result of the work, which may take `seconds` of processor time.

    Raises its errors, and TookTooLong or TooManyJobs, which name `what`.
    """
    spent = _ProcessorTime()

    def measured() -> T:
        spent.begin()
        return work()

    try:
        job = _POOL.start(lambda _: [Data(measured())])
    except ToolFailed as problem:
        raise TooManyJobs(
            f"{what} cannot be rendered now: {MAX_CONCURRENT_JOBS} other texts are being rendered; try again later"
        ) from problem
    wait, until = seconds, time.monotonic() + seconds * MAX_WAIT_FACTOR
    while True:
        try:
            found = job.out.get(timeout=wait)
            break
        except Empty as problem:
            if spent.seconds() < seconds and time.monotonic() < until:
                wait = RECHECK_SECONDS
                continue
            job.runner.abandon(job)
            sentence = f"{what} takes longer than {seconds:g} seconds to render; send less at a time"
            raise TookTooLong(sentence) from problem
    if isinstance(found, Exception):
        raise found
    assert isinstance(found, list), found
    (only,) = found
    assert isinstance(only, Data)
    value: T = only.value
    return value


class _ProcessorTime:
    """The processor time of one thread since `begin` was called on it."""

    def __init__(self) -> None:
        self._clock: int | None = None
        self._begun = 0.0
        self._started = False

    def begin(self) -> None:
        """Start to measure the present thread."""
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
            self._begun = time.clock_gettime(self._clock)
        self._started = True

    def seconds(self) -> float:
        """Seconds so far: 0 before the start, infinite where the system has no clock for a thread."""
        if self._clock is None:
            return float("inf") if self._started else 0.0
        return time.clock_gettime(self._clock) - self._begun
