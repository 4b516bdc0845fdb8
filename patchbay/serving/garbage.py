"""When a process collects cyclic garbage: not while it imports modules, and in a worker seldom while it serves.

A full collection looks at every object of the process and stops all threads meanwhile; with the modules, schemas and
servers of a hub that takes about 100 ms. What start-up made lasts as long as the worker, so it is left out. A cycle
among these objects that is replaced later, such as a changed server, stays in memory until the worker ends. While
modules are imported, collections find nothing, and take an eighth of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 20, 20)
"""Objects made more than freed before the youngest generation is collected; its collections before the next one is;
the same for the oldest."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Import modules, or start a hub, without collections. Later collections leave out what exists at the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def leave_out_what_lasts() -> None:
    """Leave what is in memory now out of all later collections, and collect more seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
