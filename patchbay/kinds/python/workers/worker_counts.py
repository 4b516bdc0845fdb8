"""Numbers of a pool's workers, for pages and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ENDINGS = ("spent", "idle", "given up", "lost")
"""Why workers end: after many calls, with leftovers or at a restart; after an idle time; with a call that was cancelled
or took too long; on their own, during a call or between two.
"""


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """Numbers of a pool's workers: the maximum, how many are `busy`, `idle`, `blank` and `ending` now, and how many
    were started and have ended since the pool began, the latter by reason (ENDINGS).
    """

    most: int
    now: Mapping[str, int]
    started: int
    ended: Mapping[str, int]
