"""Work of a request that lasts until a test ends it."""

from __future__ import annotations

import threading

from tests.waiting import BOUND


class Blocking:
    """Work that says on which thread it runs, and waits until it may end."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.end = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        self.begun.set()
        self.end.wait(BOUND)
