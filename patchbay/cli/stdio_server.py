"""`patchbay stdio`: one server on standard input and output, for as long as a client wants it.

Standard output belongs to the protocol: its descriptor is taken away first, and what anybody else prints goes to
standard error. Ends when the input ends (calls may still finish), when nobody reads the output, or on a signal.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from functools import partial
from types import FrameType

from patchbay.assembly import assemble
from patchbay.processes.confinement.protections import protect_hub
from patchbay.serving import logs
from patchbay.serving.drain import SIGNALS, Drain
from patchbay.settings import Settings
from patchbay.topics import ENDING
from patchbay.wire.native_stdio import NativePipe
from patchbay.wire.stdio import Pipe

CALL_GRACE_SECONDS = 5.0
"""Seconds in which calls may still finish when the input has ended. Clients send a signal when they want it sooner."""

END = 1.8
"""Seconds in which cancelled calls may leave. Clients kill two seconds after their signal."""


class EndSignal:
    """What ends the process, heard by its main thread: a signal, or somebody who calls `tell`."""

    def __init__(self) -> None:
        self._ear, self._mouth = socket.socketpair()
        self._mouth.setblocking(False)
        signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, _heard)

    def tell(self) -> None:
        """Say that it is time to end."""
        with suppress(BlockingIOError):  # full of what says the same
            self._mouth.send(b"\0")

    def wait(self) -> None:
        """Wait until it is time to end."""
        self._ear.recv(1)


def _heard(number: int, frame: FrameType | None) -> None:
    """A handler that does nothing: the interpreter itself writes the signal to the wake-up descriptor."""


def pipe(settings: Settings, server: str, native: bool = False) -> None:
    """Serve one server, by its name or `name@cid`, or natively the whole hub, until it is time to end.

    Raises UnknownServer or UnavailableServer, ConfigError or ContentError before anything is read.
    """
    protect_hub(settings.protections)
    source, sink = take_over()
    told = EndSignal()
    logs.begin(settings)
    drain = Drain(END)
    dispatcher = assemble(settings, drain.left)
    catalogue = dispatcher.desk.catalogue
    drain.on_begin(lambda: catalogue.store.bus.publish(ENDING))
    try:
        dispatcher.server(server, operator=True)
        speak = NativePipe if native else partial(Pipe, endpoint=server)
        client = speak(dispatcher, read=partial(os.read, source), write=partial(os.write, sink), gone=told.tell)

        def read() -> None:
            client.serve()
            drain.begin()
            client.finish(CALL_GRACE_SECONDS)
            told.tell()

        threading.Thread(target=read, name="input", daemon=True).start()
        told.wait()
        drain.begin()
        client.close(END)
    finally:
        dispatcher.desk.activity.close()
        catalogue.close()
        catalogue.store.close()


def take_over() -> tuple[int, int]:
    """Descriptors of the process's own input and output, which nothing else can get at from now on."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    for descriptor in (source, sink):
        os.set_blocking(descriptor, True)
    return source, sink
