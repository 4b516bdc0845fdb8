"""How a worker collects cyclic garbage while it serves: seldom, and never what start-up made.

A full collection looks at every object of the process and stops all threads meanwhile; with the modules, schemas and
servers of a hub that takes about 100 ms. What start-up made lasts as long as the worker, so it is left out. A cycle
among these objects that is replaced later, such as a changed server, stays in memory until the worker ends.
"""

from __future__ import annotations

import gc

THRESHOLDS = (20_000, 20, 20)
"""Objects made more than freed before the youngest generation is collected; its collections before the next one is;
the same for the oldest."""


def leave_out_what_lasts() -> None:
    """Leave what is in memory now out of all later collections, and collect more seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
