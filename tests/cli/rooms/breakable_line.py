"""A connection to a hub that a test can break, as a network does: both ends lose it without a close."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.cli.rooms.closed_network import join


class BreakableLine:
    """Passes connections to `url` on to a hub."""

    def __init__(self, hub: str) -> None:
        self._hub = urlsplit(hub)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._passes = True
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def break_all(self) -> None:
        """Break the connections that are open now; later ones are passed on."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def hold(self) -> None:
        """Break later connections too, until `let_pass`."""
        self._passes = False

    def let_pass(self) -> None:
        """Pass connections on again."""
        self._passes = True

    def close(self) -> None:
        self.break_all()
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                inside, _ = self._listener.accept()
            except OSError:
                return
            if not self._passes:
                inside.close()
                continue
            outside = socket.create_connection((self._hub.hostname or "", self._hub.port or 0))
            self._open += [inside, outside]
            join(inside, outside)


@contextmanager
def breakable_line(hub: str) -> Iterator[BreakableLine]:
    """A line for one test."""
    line = BreakableLine(hub)
    try:
        yield line
    finally:
        line.close()
