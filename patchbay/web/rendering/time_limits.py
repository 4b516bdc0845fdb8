"""Time limits for work of a page, such as highlighting: the work runs on a thread, which is stopped after its time.

A thread stops between two steps of Python code; a step inside a library cannot be stopped, so texts have length limits
too. At most `MAX_CONCURRENT` jobs run at the same time; more are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty
from typing import TypeVar

from patchbay.errors import PatchbayError, ToolFailed
from patchbay.events import Data
from patchbay.kinds.python.runner_threads import Pool

T = TypeVar("T")

MAX_CONCURRENT = 8

_POOL = Pool("pages", MAX_CONCURRENT)


class TookTooLong(PatchbayError):
    """The work took too long, or too many jobs are running."""

    code, status = -32600, 413


def run_within(seconds: float, work: Callable[[], T], what: str) -> T:
    """Run `work` with a time limit; return its result. Raises its errors, and TookTooLong, which names `what`."""
    try:
        job = _POOL.start(lambda _: [Data(work())])
    except ToolFailed as problem:
        raise TookTooLong(
            f"{what} cannot be rendered now: {MAX_CONCURRENT} other texts are being rendered; try again later"
        ) from problem
    try:
        found = job.out.get(timeout=seconds)
    except Empty as problem:
        job.runner.abandon(job)
        raise TookTooLong(f"{what} takes longer than {seconds:g} seconds to render; send less at a time") from problem
    if isinstance(found, Exception):
        raise found
    assert isinstance(found, list), found
    (only,) = found
    assert isinstance(only, Data)
    value: T = only.value
    return value
