"""The newest head of each run, in every process: `script-runs` in the journal has them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict

import orjson

from patchbay.scripting.suspended.run_records import KEPT_SECONDS, PAGE, SUSPENDED_SECONDS, RunHead
from patchbay.store import Journal
from patchbay.topics import SCRIPT_RUNS

FORGET_SECONDS = 60.0
"""Seconds between two looks for heads whose time is over."""


class RunHeads:
    """The heads of the runs that are kept. `now` returns the Unix time. Thread-safe."""

    def __init__(self, journal: Journal, now: Callable[[], float]) -> None:
        self._journal = journal
        self._now = now
        self._lock = threading.Lock()
        self._seq = 0
        self._heads: dict[str, RunHead] = {}
        self._owned: dict[str, dict[str, RunHead]] = {}
        """The same heads by their principal."""
        self._forgets_at = 0.0

    def all(self) -> list[RunHead]:
        """Return the newest head of each run that is kept, newest first."""
        with self._lock:
            self._catch_up()
            return sorted(self._heads.values(), key=lambda one: one.began, reverse=True)

    def of(self, principal: str) -> list[RunHead]:
        """Return the newest head of each run of a principal that is kept, newest first."""
        with self._lock:
            self._catch_up()
            return sorted(self._owned.get(principal, {}).values(), key=lambda one: one.began, reverse=True)

    def get(self, id: str) -> RunHead | None:
        """Return the newest head of a run; None for an unknown one."""
        with self._lock:
            self._catch_up()
            return self._heads.get(id)

    def _catch_up(self) -> None:
        while entries := self._journal.read(SCRIPT_RUNS, self._seq, PAGE):
            for entry in entries:
                self._seq = entry.seq
                with suppress(ValueError, TypeError):
                    head = RunHead(**orjson.loads(entry.data))
                    self._forget(head.id)
                    self._heads[head.id] = head
                    self._owned.setdefault(head.principal, {})[head.id] = head
        if (now := self._now()) < self._forgets_at:
            return
        self._forgets_at = now + FORGET_SECONDS
        for one in list(self._heads.values()):
            if now > (one.ended + KEPT_SECONDS if one.ended else one.until + SUSPENDED_SECONDS):
                self._forget(one.id)

    def _forget(self, id: str) -> None:
        known = self._heads.pop(id, None)
        if known is not None:
            own = self._owned[known.principal]
            del own[id]
            if not own:
                del self._owned[known.principal]


def index_entry(head: RunHead) -> tuple[str, bytes, float]:
    """Return the entry of a head: its topic, its bytes, and the seconds that it is kept."""
    return SCRIPT_RUNS, orjson.dumps(asdict(head)), KEPT_SECONDS if head.ended else SUSPENDED_SECONDS
