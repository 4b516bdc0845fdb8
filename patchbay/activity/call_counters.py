"""Counts calls by outcome and by duration, for each tool.

Labels are bounded: only names that a server lists become labels, never text from a request. Names beyond
`MAX_COUNTED_NAMES` are counted together under `OTHERS`.
Source: https://prometheus.io/docs/practices/naming/ (labels, units).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

from patchbay.activity.call_recording import CallRecording

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets of durations, in seconds; one more bucket is without a bound."""

MAX_COUNTED_NAMES = 1000
"""Limit on the tools, prompts and resources with separate counters."""

OTHERS = "(others)"

Key = tuple[str, str, str]
"""Server, method, and the name of the tool, prompt or resource; empty if the server does not list it."""


Observe = Callable[[str, str, str, str, float], None]
"""Gets each ended call: its key, the outcome, and the seconds that it took."""


@dataclass(slots=True)
class Count:
    """Calls of one tool: the number by outcome, the number by duration (not cumulative), the total of seconds."""

    outcomes: dict[str, int] = field(default_factory=dict)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0


class CallCounters:
    """Counts since the process began. Safe to use from many threads. `observe` gets each call too."""

    def __init__(self, max_names: int = MAX_COUNTED_NAMES) -> None:
        self.observe: Observe | None = None
        self._max_names = max_names
        self._lock = threading.Lock()
        self._counts: dict[Key, Count] = {}

    def count(self, *runs: CallRecording) -> None:
        """Count finished calls."""
        with self._lock:
            for run in runs:
                self._count(run)

    def _count(self, run: CallRecording) -> None:
        descriptor = run.called
        key = (run.server.name, run.method, descriptor.name if descriptor is not None else "")
        count = self._counts.get(key)
        if count is None:
            if len(self._counts) >= self._max_names:
                key = (OTHERS, run.method, OTHERS)
            count = self._counts.setdefault(key, Count())
        seconds = run.ended - run.begun
        count.outcomes[run.outcome] = count.outcomes.get(run.outcome, 0) + 1
        count.buckets[bisect_left(BOUNDS, seconds)] += 1
        count.seconds += seconds
        if self.observe is not None:
            self.observe(*key, run.outcome, seconds)

    def counts(self) -> dict[Key, Count]:
        """Return copies of the counters."""
        with self._lock:
            return {key: Count(dict(one.outcomes), list(one.buckets), one.seconds) for key, one in self._counts.items()}
