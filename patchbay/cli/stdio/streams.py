"""Standard input and output for a protocol, and the end of the process."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType

from patchbay.errors import ConfigError
from patchbay.serving.drain import SIGNALS

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
