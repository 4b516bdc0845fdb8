"""How long the requests of a worker have run: a connection that is quiet for longer waits for no answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, MutableMapping
from functools import partial
from typing import Any

from patchbay.wire.replies.reply import late_part

AT_WORK = "patchbay.at_work"
"""Name in the environ of this worker's AtWork; absent if the worker closes no connections."""


class AtWork:
    """WSGI middleware that measures the age of the oldest running request. `patience` is in seconds.

    A request does not count while its body arrives and after its answer has begun. `cut_off` are the other ends of the
    connections that the hub has shut down and that are not closed yet.
    """

    def __init__(self, app: Callable[[Any, Any], Iterable[bytes]], patience: float) -> None:
        self._app = app
        self.patience = patience
        self.cut_off: set[str] = set()
        self._begun: dict[object, float] = {}

    def __call__(self, environ: MutableMapping[str, Any], start_response: Any) -> Iterable[bytes]:
        environ[AT_WORK] = self
        thread = self.begin()
        late = None
        try:
            body = self._app(environ, start_response)
            late = late_part(body)
        finally:
            if late is None:
                self.end(thread)
        if late is not None:
            late.at_choice = partial(self.end, self.leave_thread(thread))
        return body

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
