"""One fork server process as the hub sees it: start it, order workers from it, and have them ended.

It gets a short list of environment variables, two of the hub's descriptors (the control socket and standard error, for
its own failures; workers get neither) and no other resource of the hub.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from patchbay.errors import ToolFailed
from patchbay.kinds.python.workers.fork_server import END_ALL_SECONDS, ORDER, PING, SPAWN, STOP
from patchbay.kinds.python.workers.worker_connection import WorkerConnection
from patchbay.settings import environment

ALLOWED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""The environment variables that a definition may see."""

START_POLL_SECONDS = 0.1
"""Seconds between two checks whether it has ended before its first line."""

START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from patchbay.kinds.python.workers.fork_server import main; "
    "main(int(sys.argv[2]), sys.argv[3], *json.loads(sys.argv[4]))"
)


class ForkServerClient:
    """A fork server process; `walls` is the command line of its sandbox. Thread-safe.

    `wanted` are the protections of its workers, `hidden` the folders that they may not read, `kept` those that they may
    not change. Raises ToolFailed when it cannot be started.
    """

    def __init__(
        self,
        walls: Sequence[str] = (),
        wanted: Sequence[str] = (),
        hidden: Sequence[Path] = (),
        kept: Sequence[Path] = (),
    ) -> None:
        self._lock = threading.Lock()
        self._asked = 0.0
        self._heard = b""
        self._hearing = threading.Lock()
        self._numbers = 0
        self._folder = tempfile.mkdtemp(prefix="patchbay-hosts-")
        self._control, theirs = socket.socketpair()
        python = [sys.executable, "-E", "-s", "-c", START, json.dumps([os.path.abspath(one) for one in sys.path])]  # noqa: PTH100 (an entry may be a file)
        further = json.dumps([list(wanted), *([str(one.absolute()) for one in some] for some in (hidden, kept))])
        self._control.setblocking(False)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [*walls, *python, str(theirs.fileno()), self._folder, further],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env=environment(ALLOWED),
                    cwd="/",
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError as problem:
            self._control.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise ToolFailed(f"no process can be started for the tool: {problem.strerror}") from problem

    @property
    def pid(self) -> int:
        """Its process id, or that of the sandbox around it."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether it can still start workers."""
        return self._process.poll() is None

    def silent_seconds(self) -> float:
        """Ping it; return for how many seconds it has not answered."""
        now = time.monotonic()
        self._listen()
        if self._asked:
            return now - self._asked
        with suppress(OSError), self._lock:  # its end is noticed elsewhere
            self._control.send(ORDER.pack(PING, 0, 0.0))
            self._asked = now
        return 0.0

    def protections(self, seconds: float) -> dict[str, Any]:
        """Return its first line: the `names` of the active protections; the version of `landlock`.

        Empty when it has not written it within this many seconds.
        """
        until = time.monotonic() + seconds
        while b"\n" not in self._heard and (left := until - time.monotonic()) > 0 and self.alive():
            select.select([self._control], [], [], min(left, START_POLL_SECONDS))
            self._listen()
        line, found, _ = self._heard.partition(b"\n")
        return dict(json.loads(line)) if found else {}

    def _listen(self) -> None:
        with suppress(OSError, ValueError), self._hearing:
            while words := self._control.recv(4096):
                self._asked = 0.0
                self._heard = self._heard or words

    def kill(self) -> None:
        """Kill it with all its workers, because it does not answer."""
        self._process.kill()
        self.close()

    def spawn(self) -> WorkerConnection:
        """Order a worker; it can be written to at once. Raises ToolFailed when it cannot be started."""
        try:
            with ExitStack() as ours, ExitStack() as theirs:
                link, far = socket.socketpair()
                ours.callback(link.close)
                theirs.callback(far.close)
                ends = [far.fileno()]
                near = []
                for _ in range(2):
                    reader, writer = os.pipe()
                    ours.callback(os.close, reader)
                    theirs.callback(os.close, writer)
                    near.append(reader)
                    ends.append(writer)
                with self._lock:
                    self._numbers += 1
                    socket.send_fds(self._control, [ORDER.pack(SPAWN, self._numbers, 0.0)], ends)
                    number = self._numbers
                ours.pop_all()
                return WorkerConnection(partial(self.stop, number), link, *near)
        except OSError as problem:
            raise ToolFailed(f"no process can be started for the tool: {problem.strerror}") from problem

    def stop(self, number: int, grace: float) -> None:
        """Have a worker signalled that its call is over, and killed after this many seconds; at once for 0."""
        with suppress(OSError), self._lock:  # it is gone, and its workers with it
            self._control.sendall(ORDER.pack(STOP, number, grace))

    def close(self) -> None:
        """End it with all its workers, and wait for the end."""
        self._control.close()
        try:
            self._process.wait(END_ALL_SECONDS + 3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
