"""What the main thread of a worker process does: it starts the web server, and ends with the signals."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

from patchbay.serving.drain import SIGNALS
from patchbay.serving.signal_event import SignalEvent
from patchbay.wire.front.front import Front
from patchbay.wire.server.http_server import HttpServer


def serve_front(front: Front, listener: socket.socket, threads: int, most: int, on_start: Callable[[], None]) -> None:
    """Serve the requests of a listening socket until a signal ends this process; return when the last one is answered.

    `most` limits the connections. `on_start` is called when the server takes requests. Main thread only.
    """
    ended = SignalEvent()
    for number in SIGNALS:
        signal.signal(number, lambda *_: ended.set())
    server = HttpServer(listener, front, threads, most, front.loop)
    server.start()
    on_start()
    ended.wait()
    server.stop()
    server.wait_closed()
    front.finish()
