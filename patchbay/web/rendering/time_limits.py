"""Work of a page that may take long for some texts: done on a thread, and broken off when its time is over.

Python code is broken off between two steps; a step in a library ends by itself, so texts are bounded too. At most
`MOST_AT_ONCE` pieces of such work run at the same time: others are refused rather than made to wait.
Source: issue "Safe as shipped", item 6; THREATS 1.4.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty
from typing import TypeVar

from patchbay.errors import PatchbayError, ToolFailed
from patchbay.events import Data
from patchbay.kinds.python.runner_threads import Pool

T = TypeVar("T")

MOST_AT_ONCE = 8

_POOL = Pool("pages", MOST_AT_ONCE)


class TookTooLong(PatchbayError):
    """The work was broken off, or there was no place for it."""

    code, status = -32600, 413


def within(seconds: float, work: Callable[[], T], what: str) -> T:
    """What the work returns. Raises what it raises, and TookTooLong, which names `what`."""
    try:
        job = _POOL.start(lambda _: [Data(work())])
    except ToolFailed as problem:
        raise TookTooLong(f"{what}: {MOST_AT_ONCE} others are being rendered; try again later") from problem
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
