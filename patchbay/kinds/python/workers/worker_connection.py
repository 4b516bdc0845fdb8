"""The hub's end of one host: its pipe, what it prints, and how it ended.

One thread at a time talks to a host, by system calls of its own: nothing is handed to another
thread. Whoever answers a host's wish in a second thread only writes.
Sources: DESIGN section 6; THREATS X2, X3.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson

from patchbay.errors import ToolFailed
from patchbay.events import Log
from patchbay.kinds.python.workers.frames import LOST, MAX_FRAME_BYTES, Frames
from patchbay.kinds.python.workers.output import Lines

CHUNK = 65536
STORY = 2.0
"""Seconds within which a host that closed its pipe has to have ended."""


LOST_LINK = "the tool's process closed its connection to the hub"


class WorkerGone(Exception):
    """The host does not take anything any more."""


class WorkerConnection:
    """One host process. `stop` tells its zygote to end it after so many seconds.

    `order` says what it may run, `spent` that it is not to be used again, `slow` that its definition
    loads slowly, `backlog` what is to be written before anything else, `since` when it became idle, `seconds` how long
    its last call took, where that worked. `has_output` says that something printed was there, or is not a whole line
    yet, at the last look.
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
        link.setblocking(False)
        os.set_blocking(output, False)
        self._poll = select.poll()
        # In this order: what was printed before the last frame is seen together with it.
        for descriptor in (link.fileno(), fate, output):
            self._poll.register(descriptor, select.POLLIN)

    def write(self, data: bytes) -> bytes:
        """Write what goes without waiting; answers the rest. Raises Gone."""
        try:
            return data[self._socket.send(data) :]
        except BlockingIOError:
            return data
        except OSError as problem:
            raise WorkerGone from problem

    def wait_for_room(self, seconds: float) -> None:
        """Wait until something can be written, or the host ended, or the time is over."""
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        poll.register(self._fate, select.POLLIN)
        poll.poll(seconds * 1000)

    def write_all(self, data: bytes) -> None:
        """Write everything, from any thread; gives up when the host is gone or has been given up."""
        with self._writing:
            try:
                while data := self.write(data):
                    self.wait_for_room(1.0)
            except (WorkerGone, ValueError):  # ValueError: closed meanwhile, so there is nobody to write to
                return

    def read(self, seconds: float) -> list[tuple[int, bytes]] | None:
        """Frames that came within the time, and output into `printed`; None when nothing did.

        Raises ToolFailed when the host has ended or sends what it should not, BadFrame for what is no frame.
        """
        ready = self._poll.poll(int(seconds * 1000) + 1)
        if not ready:
            return None
        found: list[tuple[int, bytes]] = []
        self.has_output = bool(self._lines.bytes)
        ended, data = False, b""
        for descriptor, _ in ready:
            if descriptor == self._output:
                self.has_output = True
                self._take_output()
            elif descriptor == self._fate:
                ended = True
            else:
                data = self._receive()
                ended = ended or not data
                found = self._frames.take(data)
        if ended and not data:  # as long as something comes, more of a frame may be behind it
            raise ToolFailed(self.story(STORY))
        return found

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(CHUNK)
        except (BlockingIOError, ConnectionResetError):
            return b""
        self.received += len(data)
        if self.received > MAX_FRAME_BYTES:
            raise ToolFailed(f"the tool was stopped: it sent more than {MAX_FRAME_BYTES} bytes")
        return data

    def _take_output(self) -> None:
        try:
            data = os.read(self._output, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._poll.unregister(self._output)
        self.printed.extend(self._lines.take(data))

    def take_last_output(self) -> bool:
        """At the end of a call: put what was written and not read yet into `printed`; whether there is anything."""
        try:
            self.printed.extend(self._lines.take(os.read(self._output, CHUNK)))
        except BlockingIOError:
            if not self._lines.bytes:
                return False
        self.printed.extend(self._lines.rest())
        return bool(self.printed)

    def story(self, seconds: float) -> str:
        """How the host ended, as a sentence; waits so long for it to end."""
        poll = select.poll()
        poll.register(self._fate, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return LOST_LINK
        told = os.read(self._fate, 4096)
        return _sentence(orjson.loads(told)) if told else "the tool's process was lost: the process that held it ended"

    def ended(self) -> bool:
        """Whether the host has ended and nothing of it is left."""
        poll = select.poll()
        poll.register(self._fate, select.POLLIN)
        return bool(poll.poll(0))

    def warn(self, grace: float) -> None:
        """Tell its function that the call is over; the host is killed after so many seconds."""
        self._stop(grace)

    def end(self) -> None:
        """Have it end now, with everything it started."""
        self._stop(0.0)
        self.hang_up()

    def hang_up(self) -> None:
        """Stop talking; how it ends can still be asked."""
        with suppress(OSError):  # it hung up first
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
        """Let go of the last descriptor."""
        if self._fate >= 0:
            os.close(self._fate)
            self._fate = -1


def _sentence(story: dict[str, object]) -> str:
    if "unborn" in story:
        return f"no process can be started for the tool: {story['unborn']}"
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
