"""Reports changed documents to a listener on a separate thread, in batches, so that a writer does not wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from patchbay.documents.index import DocumentChange

log = logging.getLogger(__name__)

BATCH_SECONDS = 0.25
"""Seconds between two calls of a listener; the changes in between form one batch."""

Listener = Callable[[Sequence[DocumentChange]], None]


class ListenerThread:
    """Calls one listener with changes. The first change is reported at once; a failing listener gets later batches."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._waiting: dict[str, DocumentChange] = {}
        self._is_due = False
        self._wake = threading.Condition()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def report(self, changes: Sequence[DocumentChange], always: bool = False) -> None:
        """Report these changes soon. Of several changes of one document the listener gets only the last.

        With `always`, the listener also gets an empty list: that of a folder without documents.
        """
        if not changes and not always:
            return
        with self._wake:
            self._is_due = True
            for change in changes:
                before = self._waiting.get(change.key)
                relisted = change.relisted or (before is not None and before.relisted)
                self._waiting[change.key] = replace(change, relisted=relisted)
            if self._thread is None and not self._ending.is_set():
                self._thread = threading.Thread(target=self._run, name="library notices", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        """Stop calling the listener."""
        with self._wake:
            self._ending.set()
            self._wake.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._is_due or self._ending.is_set())
                if self._ending.is_set():
                    return
                changes, self._waiting, self._is_due = list(self._waiting.values()), {}, False
            try:
                self._listener(changes)
            except Exception:
                log.exception("the listener of a library failed")
            if self._ending.wait(BATCH_SECONDS):
                return
