"""How long the requests of a worker have run: a connection that is quiet for longer waits for no answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


class AtWork:
    """Measures the age of the oldest running request of a worker. `patience` is in seconds.

    A request does not count while its body arrives and after its answer has begun. `cut_off` are the other ends of the
    connections that the hub has shut down and that are not closed yet.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.cut_off: set[str] = set()
        self._begun: dict[object, float] = {}

    def begin(self) -> int:
        """Count a request that this thread runs from now on; return the thread, for `end`."""
        thread = threading.get_ident()
        self._begun[thread] = time.monotonic()
        return thread

    def end(self, request: object) -> None:
        """Stop counting a request: that of a thread, or one that waits without a thread."""
        del self._begun[request]

    def leave_thread(self, thread: int) -> object:
        """Keep counting the request of a thread after it has left the thread; return its identity, for `end`."""
        request = object()
        self._begun[request] = self._begun.pop(thread)
        return request

    def apart(self, read: Callable[[Any, int], bytes], stream: Any, wanted: int) -> bytes:
        """Read the body of this thread's request, which does not count as running meanwhile."""
        thread = threading.get_ident()
        del self._begun[thread]
        try:
            return read(stream, wanted)
        finally:
            self._begun[thread] = time.monotonic()

    def oldest(self) -> float:
        """Return the seconds since the oldest running request began; 0 without any."""
        begun = self._begun.copy().values()
        return time.monotonic() - min(begun) if begun else 0.0
