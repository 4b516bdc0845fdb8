"""Reports changed documents to a listener on a separate thread, in batches, so that a writer does not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from patchbay.background import BackgroundLoop
from patchbay.documents.index import DocumentChange

BATCH_SECONDS = 0.25
"""Seconds between two calls of a listener; the changes in between form one batch."""

CLOSE_SECONDS = 5.0
"""Seconds that `close` waits for a listener that runs."""

Listener = Callable[[Sequence[DocumentChange]], None]


class ListenerThread:
    """Calls one listener with changes. The first change is reported at once; a failing listener gets later batches."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._waiting: dict[str, DocumentChange] = {}
        self._is_due = False
        self._lock = threading.Lock()
        self._loop = BackgroundLoop("library notices", self._run, "the listener of a library failed", retry_seconds=0.0)

    def report(self, changes: Sequence[DocumentChange], always: bool = False) -> None:
        """Report these changes soon. Of several changes of one document the listener gets only the last.

        With `always`, the listener also gets an empty list: that of a folder without documents.
        """
        if not changes and not always:
            return
        with self._lock:
            self._is_due = True
            for change in changes:
                before = self._waiting.get(change.key)
                relisted = change.relisted or (before is not None and before.relisted)
                self._waiting[change.key] = replace(change, relisted=relisted)
        self._loop.start()
        self._loop.wake()

    def close(self) -> None:
        """Stop calling the listener."""
        self._loop.close(CLOSE_SECONDS)

    def _run(self) -> float:
        """Call the listener with the changes that wait; return the seconds until the next round, unless woken."""
        with self._lock:
            is_due, changes = self._is_due, list(self._waiting.values())
            self._waiting, self._is_due = {}, False
        if not is_due:
            return threading.TIMEOUT_MAX
        try:
            self._listener(changes)
        finally:
            # Changes in this time form the next batch, so this waits for the end alone.
            self._loop.ending.wait(BATCH_SECONDS)
        return 0.0
