"""`patchbay stdio`: one server on standard input and output.

Standard output belongs to the protocol: other output of the process goes to standard error. The process ends when the
input ends (running calls may finish), when the reader of the output is gone, or on a signal.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from functools import partial
from types import FrameType

from patchbay.access.principals import LOCAL_OPERATOR
from patchbay.assembly import assemble
from patchbay.errors import ConfigError
from patchbay.processes.confinement.protections import protect_hub
from patchbay.serving import logs
from patchbay.serving.drain import SIGNALS, Drain
from patchbay.settings import Settings
from patchbay.topics import ENDING
from patchbay.wire.native_stdio import NativePipe
from patchbay.wire.stdio import Pipe

CALL_GRACE_SECONDS = 5.0
"""Seconds that calls may run after the end of the input. A client can end them earlier with a signal."""

CANCELLED_GRACE_SECONDS = 1.8
"""Seconds that cancelled calls may take to end. Clients kill the process two seconds after their signal."""


class EndSignal:
    """Lets the main thread wait for the end of the process: a signal, or a call of `notify`."""

    def __init__(self) -> None:
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_writer.setblocking(False)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, _ignore_signal)

    def notify(self) -> None:
        """Wake the main thread."""
        with suppress(BlockingIOError):  # the main thread has a wake-up already
            self._wake_writer.send(b"\0")

    def wait(self) -> None:
        """Wait for a signal or `notify`."""
        self._wake_reader.recv(1)


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Do nothing: the interpreter writes the signal to the wake-up descriptor."""


def serve_stdio(settings: Settings, server: str, native: bool = False) -> None:
    """Serve one server (`name` or `name@cid`), or with `native` the whole hub, until the end of the process.

    Raises UnknownServer, UnavailableServer, ConfigError or ContentError before it reads input.
    """
    protect_hub(settings.protections)
    source, sink = take_standard_streams()
    end_signal = EndSignal()
    logs.begin(settings)
    drain = Drain(CANCELLED_GRACE_SECONDS)
    dispatcher = assemble(settings, drain.seconds_left)
    catalogue = dispatcher.services.catalogue
    drain.on_begin(lambda: catalogue.store.bus.publish_here(ENDING))
    try:
        dispatcher.server(server, LOCAL_OPERATOR, operator=True)
        speak = NativePipe if native else partial(Pipe, endpoint=server)
        client = speak(dispatcher, read=partial(os.read, source), write=partial(os.write, sink), gone=end_signal.notify)

        def read() -> None:
            client.serve()
            drain.begin()
            client.finish(CALL_GRACE_SECONDS)
            end_signal.notify()

        threading.Thread(target=read, name="input", daemon=True).start()
        end_signal.wait()
        drain.begin()
        client.close(CANCELLED_GRACE_SECONDS)
    finally:
        dispatcher.services.activity.close()
        catalogue.close()
        catalogue.store.close()


def take_standard_streams() -> tuple[int, int]:
    """Duplicate standard input and output for the protocol; redirect the originals, so that no other code uses them.

    Raises ConfigError when one of them is closed.
    """
    for stream, name, side in ((sys.stdin, "input", "writes to it"), (sys.stdout, "output", "reads it")):
        if stream is None:
            raise ConfigError(f"standard {name}", "", f"expected a client that {side}, but it is closed")
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    for descriptor in (source, sink):
        os.set_blocking(descriptor, True)
    return source, sink
