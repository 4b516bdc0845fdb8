"""Who hears that documents changed: told on a thread of its own, many changes at once, so that no writer waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from patchbay.documents.index import DocumentChange

log = logging.getLogger(__name__)

EVERY = 0.25
"""Seconds between two rounds: what changes meanwhile is told together."""

Listener = Callable[[Sequence[DocumentChange]], None]


class ListenerThread:
    """Tells one listener. The first change is told at once; a listener that fails is told the next time again."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._waiting: dict[str, DocumentChange] = {}
        self._some = threading.Condition()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self, changes: Sequence[DocumentChange]) -> None:
        """Have these told soon. Of several changes of one document only the last one is."""
        if not changes:
            return
        with self._some:
            for change in changes:
                before = self._waiting.get(change.key)
                relisted = change.relisted or (before is not None and before.relisted)
                self._waiting[change.key] = replace(change, relisted=relisted)
            if self._thread is None and not self._ending.is_set():
                self._thread = threading.Thread(target=self._run, name="library notices", daemon=True)
                self._thread.start()
            self._some.notify()

    def close(self) -> None:
        """Tell nobody any more."""
        with self._some:
            self._ending.set()
            self._some.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while True:
            with self._some:
                self._some.wait_for(lambda: self._waiting or self._ending.is_set())
                if self._ending.is_set():
                    return
                changes, self._waiting = list(self._waiting.values()), {}
            try:
                self._listener(changes)
            except Exception:
                log.exception("that documents changed could not be told")
            if self._ending.wait(EVERY):
                return
