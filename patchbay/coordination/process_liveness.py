"""Which processes of a hub are alive: each one that runs tasks or writes streams records beats in the journal.

A process writes `alive/<process>` every `BEAT_SECONDS`. When its last beat is older than `LOST_SECONDS`, the process
counts as lost (killed, restarted, suspended), and any other process may end its tasks and streams as failed.
"""

from __future__ import annotations

import logging
import secrets
import threading

from patchbay.background import BackgroundLoop
from patchbay.store import CLOSED, Store
from patchbay.topics import ALIVE

log = logging.getLogger(__name__)


BEAT_SECONDS = 1.0
"""Seconds between two beats of a process."""

LOST_SECONDS = 6.0
"""Seconds without a beat after which a process counts as lost."""


class ProcessLiveness:
    """Beats of this process, and those of others. `process` identifies this one. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.process = secrets.token_hex(8)

    def beat(self) -> None:
        """Record that this process is alive."""
        self.store.journal.append(ALIVE + self.process, b"", LOST_SECONDS * 10)

    def is_alive(self, process: str) -> bool:
        """Whether a process has recorded a beat in the last `LOST_SECONDS`."""
        topic = ALIVE + process
        last = self.store.journal.last(topic)
        beats = self.store.journal.read(topic, last - 1, 1) if last else []
        return bool(beats) and self.store.now() - beats[0].at <= LOST_SECONDS


class Heartbeat:
    """Beats in a thread while this process writes streams. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self.liveness = ProcessLiveness(store)
        self._lock = threading.Lock()
        self._streams = 0
        self._is_beating = False
        self._is_failing = False
        self._loop = BackgroundLoop(
            "heartbeat", self._beat, "this process cannot record that it is alive", first_after=BEAT_SECONDS
        )

    def begin(self) -> None:
        """Count a stream. This process has recorded a beat when this returns.

        Raises ContentError if the store fails, RuntimeError if the system has no thread left; the stream is not counted
        then.
        """
        with self._lock:
            if not self._is_beating:
                self.liveness.beat()
                self._loop.start()
                self._is_beating = True
            self._streams += 1

    def end(self) -> None:
        """Count the end of a stream."""
        with self._lock:
            self._streams -= 1

    def _beat(self) -> float | None:
        """Beat, unless no stream is left. A beat that fails is logged, and the next one is tried a second later."""
        with self._lock:
            if not self._streams or self.liveness.store.check() == CLOSED:
                self._is_beating = False
                return None
            try:
                self.liveness.beat()
                self._is_failing = False
            except Exception as problem:
                if not self._is_failing:
                    log.error("this process cannot record that it is alive (%s); it tries again each second", problem)
                self._is_failing = True
        return BEAT_SECONDS
