"""Which processes of a hub are alive: each one that runs tasks or writes streams records beats in the journal.

A process writes `alive/<process>` every `BEAT_SECONDS`. When its last beat is older than `LOST_SECONDS`, the process
counts as lost (killed, restarted, suspended), and any other process may end its tasks and streams as failed.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time

from patchbay.store import Store
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
        return bool(beats) and time.time() - beats[0].at <= LOST_SECONDS


class Heartbeat:
    """Beats in a thread while this process writes streams. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self.liveness = ProcessLiveness(store)
        self._lock = threading.Lock()
        self._streams = 0
        self._beating = False
        self._never = threading.Event()

    def begin(self) -> None:
        """Count a stream. This process has recorded a beat when this returns."""
        with self._lock:
            if not self._beating:
                self.liveness.beat()
            self._streams += 1
            if self._beating:
                return
            self._beating = True
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def end(self) -> None:
        """Count the end of a stream."""
        with self._lock:
            self._streams -= 1

    def _beat(self) -> None:
        """Beat until no stream is left."""
        try:
            while True:
                self._never.wait(BEAT_SECONDS)
                with self._lock:
                    if not self._streams or self.liveness.store.check() is not None:
                        self._beating = False
                        return
                    self.liveness.beat()
        except Exception:
            self._beating = False
            log.exception("this process cannot record that it is alive; other processes will end its streams")
