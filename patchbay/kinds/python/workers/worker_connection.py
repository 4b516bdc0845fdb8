"""The hub's end of one worker: its pipe, its printed output, and its exit status.

One thread at a time talks to a worker, by its own system calls, without handing data to another thread: a quick call
takes one `send` and one `recv`. A second thread that replies to a request only writes.

Sources: socket(7), SO_RCVTIMEO; poll(2).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Any

import orjson

from patchbay.errors import ToolFailed
from patchbay.events import Log
from patchbay.kinds.python.workers.frames import LOST, MAX_FRAME_BYTES, Frames
from patchbay.kinds.python.workers.output import Lines

CHUNK_BYTES = 65536
END_SECONDS = 2.0
"""Seconds within which a worker that closed its pipe must end."""

SOON_MICROSECONDS = 20_000
"""Microseconds for which the hub waits for frames alone; from then on also for printed output and the exit status."""

_TIMEVAL = Struct("@ll")

LOST_LINK = "the tool's process closed its connection to the hub"


class WorkerGone(Exception):
    """The worker accepts no more data."""


class WorkerConnection:
    """One worker process. `stop` has its fork server end it after this many seconds.

    `order` is the definition it may run, `spent` means that it is not used again, `slow` that its definition loads
    slowly, `backlog` is data to be written first, `since` the time when it became idle. `seconds` is how long its last
    call ran, if that worked. `has_output` means that the call printed something beside its frames.
    """

    def __init__(self, stop: Callable[[float], None], link: socket.socket, output: int, fate: int) -> None:
        self.order: Any = None
        self.backlog = b""
        self.calls = 0
        self.spent = False
        self.slow = False
        self.since = 0.0
        self.seconds: float | None = None
        self.received = 0
        self.printed: list[Log] = []
        self.has_output = False
        self._stop = stop
        self._socket = link
        self._output = output
        self._fate = fate
        self._frames = Frames()
        self._lines = Lines("output", "debug")
        self._writing = threading.Lock()
        link.setblocking(True)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(0, SOON_MICROSECONDS))
        os.set_blocking(output, False)
        self._poll = select.poll()
        # In this order, output printed before the last frame is seen together with it.
        for descriptor in (link.fileno(), fate, output):
            self._poll.register(descriptor, select.POLLIN)

    def begin_call(self) -> None:
        """Count what the worker sends anew."""
        self.received = 0
        self.has_output = False

    def write(self, data: bytes) -> bytes:
        """Write as much as is possible without waiting; return the rest. Raises WorkerGone."""
        try:
            return data[self._socket.send(data, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            return data
        except OSError as problem:
            raise WorkerGone from problem

    def wait_for_room(self, seconds: float) -> None:
        """Wait until data can be written, the worker has ended, or the time is over."""
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        poll.register(self._fate, select.POLLIN)
        poll.poll(seconds * 1000)

    def write_all(self, data: bytes) -> None:
        """Write everything, from any thread; stops when the worker is gone or abandoned."""
        with self._writing:
            try:
                while data := self.write(data):
                    self.wait_for_room(1.0)
            except (WorkerGone, ValueError):  # ValueError: closed in the meantime
                return

    def read_soon(self) -> list[tuple[int, bytes]] | None:
        """Return the frames that arrive within SOON_MICROSECONDS; None when none do, or when `read` says why.

        Raises ToolFailed when the worker sends too much, BadFrame for invalid frames.
        """
        data = self._receive(0)
        return self._frames.feed(data) if data else None

    def read(self, seconds: float) -> list[tuple[int, bytes]] | None:
        """Return the frames that arrive within the time, and put output into `printed`; None when nothing arrives.

        Raises ToolFailed when the worker has ended or sends too much, BadFrame for invalid frames.
        """
        ready = self._poll.poll(int(seconds * 1000) + 1)
        if not ready:
            return None
        found: list[tuple[int, bytes]] = []
        ended, data = False, b""
        for descriptor, _ in ready:
            if descriptor == self._output:
                self.has_output = True
                self._take_output()
            elif descriptor == self._fate:
                ended = True
            else:
                data = self._receive(socket.MSG_DONTWAIT)
                ended = ended or not data
                found = self._frames.feed(data)
        if ended and not data:  # while data arrives, the rest of a frame may follow
            raise ToolFailed(self.describe_end(END_SECONDS))
        return found

    def _receive(self, flags: int) -> bytes:
        try:
            data = self._socket.recv(CHUNK_BYTES, flags)
        except (BlockingIOError, ConnectionResetError):
            return b""
        self.received += len(data)
        if self.received > MAX_FRAME_BYTES:
            raise ToolFailed(f"the tool was stopped: it sent more than {MAX_FRAME_BYTES} bytes")
        return data

    def _take_output(self) -> None:
        try:
            data = os.read(self._output, CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._poll.unregister(self._output)
        self.printed.extend(self._lines.feed(data))

    def take_last_output(self) -> bool:
        """Put unread output into `printed` at the end of a call; return whether there is any."""
        try:
            self.printed.extend(self._lines.feed(os.read(self._output, CHUNK_BYTES)))
        except BlockingIOError:
            if not self._lines.bytes:
                return False
        self.printed.extend(self._lines.rest())
        return bool(self.printed)

    def describe_end(self, seconds: float) -> str:
        """Return how the worker ended, as a sentence; waits this many seconds for its end."""
        poll = select.poll()
        poll.register(self._fate, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return LOST_LINK
        report = os.read(self._fate, 4096)
        return (
            _sentence(orjson.loads(report)) if report else "the tool's process was lost: the process that held it ended"
        )

    def has_ended(self) -> bool:
        """Whether the worker has ended with everything it started."""
        poll = select.poll()
        poll.register(self._fate, select.POLLIN)
        return bool(poll.poll(0))

    def signal_end(self, grace: float) -> None:
        """Signal its function that the call is over; the worker is killed after this many seconds."""
        self._stop(grace)

    def end(self) -> None:
        """End it now, with everything it started."""
        self._stop(0.0)
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection; its exit status can still be read."""
        with suppress(OSError):  # it closed the connection first
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._writing:
            self._socket.close()
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._fate < 0

    def close(self) -> None:
        """Close the last descriptor."""
        if self._fate >= 0:
            os.close(self._fate)
            self._fate = -1


def _sentence(story: dict[str, object]) -> str:
    if "error" in story:
        return f"no process can be started for the tool: {story['error']}"
    if story["ending"]:
        return "the tool's process was ended: the hub is ending"
    code = int(str(story["code"]))
    if code == LOST:
        return LOST_LINK
    if code >= 0:
        return f"the tool ended its process with exit code {code}"
    name = signal.Signals(-code).name if -code in {one.value for one in signal.Signals} else str(-code)
    if -code == signal.SIGKILL:
        return f"the tool's process was killed ({name}), as the system does when memory runs out"
    if -code == signal.SIGXCPU:
        return f"the tool used up its CPU time ({name})"
    return f"the tool's process was ended by {name} ({signal.strsignal(-code)})"
