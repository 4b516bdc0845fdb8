"""Makes the vectors of changed documents on a thread of its own, in steps with pauses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from patchbay.background import BackgroundLoop
from patchbay.documents.meaning import Meaning
from patchbay.sqlite import fault_of, sqlite3

log = logging.getLogger(__name__)

START_DELAY_SECONDS = 1.0
"""Seconds after the library is opened, so that the start of a hub, and what a first caller waits for, come first."""

STEP_SECONDS = 0.25
"""Seconds of one step. A step ends earlier when all is done."""

PAUSE_FACTOR = 0.25
"""Pause after a step, as a multiple of its time, for the other threads."""

SCAN_WAIT_SECONDS = 0.25
"""Seconds between two looks at whether the first scan of the folder is over."""

IDLE_SECONDS = 30.0
"""Seconds until the next look at an index that another process may have changed; a change here wakes the thread."""

CLOSE_SECONDS = 5.0
"""Seconds that `stop` waits for a step."""


class MeaningLoop:
    """Calls `embed` of the present `Meaning` until nothing is missing, again after each `wake`.

    It begins when `is_ready` returns True, and ends at once where there is no model.
    """

    def __init__(self, meaning: Callable[[], Meaning], is_ready: Callable[[], bool]) -> None:
        self._meaning = meaning
        self._is_ready = is_ready
        self._is_logged = False
        self._loop = BackgroundLoop(
            "library meaning", self._run, "the vectors of a library were not made", first_after=START_DELAY_SECONDS
        )

    def start(self) -> None:
        """Start the thread, where there is a model."""
        if self._meaning().is_possible:
            self._loop.start()

    def wake(self) -> None:
        """Say that documents have changed. Without effect before `start`."""
        if self._loop.is_started:
            self._loop.wake()

    def stop(self) -> None:
        """End the thread after the batch that it makes."""
        self._loop.close(CLOSE_SECONDS)

    def _run(self) -> float | None:
        meaning = self._meaning()
        if not self._is_ready():
            return SCAN_WAIT_SECONDS
        if not meaning.has_documents:  # a library that is not used loads no model
            return IDLE_SECONDS
        if meaning.model is None:
            return None
        begun = time.monotonic()
        try:
            is_left = meaning.embed(STEP_SECONDS, self._loop.ending.is_set)
        except sqlite3.DatabaseError as problem:
            self._report(problem)
            return IDLE_SECONDS
        self._is_logged = False
        return PAUSE_FACTOR * (time.monotonic() - begun) if is_left else IDLE_SECONDS

    def _report(self, problem: sqlite3.DatabaseError) -> None:
        """Log once why vectors cannot be stored; documents without them are found by their words."""
        if not self._is_logged:
            log.warning(
                "the vectors of a library cannot be stored now (%s: %s); its new documents are found by words only",
                *(fault_of(problem), problem),
            )
        self._is_logged = True
