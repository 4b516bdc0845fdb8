"""Processes that run jq expressions, within limits of time, memory and size (`jq_child.py` is their program)."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from patchbay.errors import ToolFailed
from patchbay.processes import jq_child

MAX_PROCESSES = 4
"""Processes of one pool; further runs wait for one of them."""

MAX_RUNS = 1000
"""Runs after which a process is replaced, so that it cannot grow."""

WALL_SECONDS = 10.0
"""Time that one run may take, in seconds; it is longer than its processor time where the machine has other work."""

CPU_SECONDS = 2
"""Processor time that one run may take, in seconds."""

CHECK_SECONDS = 0.2
"""Seconds after which a run that waits looks whether its caller still wants it."""

READ_BYTES = 1 << 18
"""Bytes of an answer that one read takes at most."""

START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from patchbay.processes.jq_child import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)


class ExpressionFailed(ToolFailed):
    """An expression gave no single value. The message may hold parts of the value that it was given."""


class ExpressionInvalid(ToolFailed):
    """The text is not an expression of jq; the message has the reason, with its line and column."""


class ExpressionStopped(ExpressionFailed):
    """An expression was ended because of a limit, or because its caller needs it no more."""


class _Process:
    """One process that runs expressions. One thread at a time may use it. Raises ToolFailed if it cannot be started."""

    def __init__(self, cpu_seconds: int) -> None:
        self.runs = 0
        self._cpu_seconds = cpu_seconds
        self._link, theirs = socket.socketpair()
        paths = json.dumps([os.path.abspath(one) for one in sys.path])  # noqa: PTH100 (an entry may be a file)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", START, paths, str(theirs.fileno()), str(cpu_seconds)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={},
                    cwd="/",
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError as problem:
            self._link.close()
            raise ToolFailed(f"no process can be started for a jq expression: {problem.strerror}") from problem
        # The kernel keeps these limits: a timeout of Python would cost one more system call for each read and write.
        limit = struct.pack("@ll", 0, int(CHECK_SECONDS * 1_000_000))
        for which in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._link.setsockopt(socket.SOL_SOCKET, which, limit)

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, expression: bytes, value: bytes, until: float, is_over: Callable[[], bool]) -> tuple[bytes, bytes]:
        """Return the kind and the bytes of the answer. Raises ExpressionStopped; then the process is of no more use."""
        self.runs += 1
        try:
            self._send(jq_child.HEAD.pack(len(expression), len(value)) + expression + value, until, is_over)
            return self._receive(until, is_over)
        except OSError as problem:
            raise ExpressionStopped(self._explain_end()) from problem

    def _send(self, data: bytes, until: float, is_over: Callable[[], bool]) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[self._link.send(left) :]
            except BlockingIOError:
                _check(until, is_over)

    def _receive(self, until: float, is_over: Callable[[], bool]) -> tuple[bytes, bytes]:
        """Return the kind and the bytes of the answer; a small one comes whole with the first read."""
        found, kind, size = bytearray(), b"", jq_child.ANSWER.size
        while len(found) < size:
            try:
                data = self._link.recv(READ_BYTES)
            except BlockingIOError:
                _check(until, is_over)
                continue
            if not data:
                raise ConnectionResetError
            found += data
            if not kind and len(found) >= size:
                kind, length = jq_child.ANSWER.unpack_from(found)
                size += length
        return kind, bytes(found[jq_child.ANSWER.size :])

    def _explain_end(self) -> str:
        """Return why the process has ended by itself."""
        with suppress(subprocess.TimeoutExpired):
            ended = self._process.wait(CHECK_SECONDS)
            if ended == -signal.SIGXCPU:
                return f"it takes more than {self._cpu_seconds} s of processor time"
            if ended >= 0:
                return f"its process has ended with exit code {ended}"
        return f"it needs more than {jq_child.MEMORY_MIB} MiB of memory, or nests values too deeply"

    def close(self) -> None:
        """End the process."""
        self._link.close()
        self._process.kill()
        self._process.wait()


class _Turns:
    """The places of a pool, given out fairly. Thread-safe.

    A free place goes to the waiting caller that holds the fewest places; among these to the one that waits longest.
    One caller never holds all places of a pool of several, so that another one finds a place at once.
    """

    def __init__(self, limit: int) -> None:
        self._free, self._most = limit, max(1, limit - 1)
        self._held: Counter[str] = Counter()
        self._waiting: dict[object, str] = {}  # callers, in the order in which they came
        self._changed = threading.Condition()

    def take(self, caller: str, until: float, is_over: Callable[[], bool]) -> None:
        """Take a place for a caller; wait for it until a time. Raises ExpressionStopped."""
        ticket = object()
        with self._changed:
            self._waiting[ticket] = caller
            try:
                while self._next() is not ticket:
                    _check(until, is_over)
                    self._changed.wait(max(0.0, min(CHECK_SECONDS, until - time.monotonic())))
                self._free -= 1
                self._held[caller] += 1
            finally:
                del self._waiting[ticket]
                self._changed.notify_all()

    def give_back(self, caller: str) -> None:
        """Give back a place of a caller."""
        with self._changed:
            self._free += 1
            self._held[caller] -= 1
            if not self._held[caller]:
                del self._held[caller]
            if self._waiting:
                self._changed.notify_all()

    def _next(self) -> object | None:
        """Return the ticket whose turn it is. Requires the lock."""
        if not self._free:
            return None
        able = [ticket for ticket, caller in self._waiting.items() if self._held[caller] < self._most]
        return min(able, key=lambda ticket: self._held[self._waiting[ticket]], default=None)


class JqProcesses:
    """Runs jq expressions in at most `limit` processes, which start when they are needed. Thread-safe.

    A run takes at most `cpu_seconds` of processor time, rounded up to whole ones of its process.
    """

    def __init__(self, limit: int = MAX_PROCESSES, cpu_seconds: int = CPU_SECONDS) -> None:
        self._turns = _Turns(limit)
        self._cpu_seconds = cpu_seconds
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._closed = False

    def run(
        self,
        expression: str,
        value: bytes,
        seconds: float,
        is_over: Callable[[], bool] = lambda: False,
        caller: str = "",
    ) -> bytes:
        """Return the one value of an expression for a JSON value, as JSON.

        It takes at most `seconds`, the wait for a process included, and ends soon when `is_over` says so. Callers take
        turns: `caller` names the one for whom it runs.

        Raises ExpressionInvalid; ExpressionFailed when the expression fails, or gives no value or several; and
        ExpressionStopped.
        """
        if len(value) > jq_child.MAX_VALUE_BYTES:
            raise ExpressionStopped(f"its input has more than {jq_child.MAX_VALUE_BYTES} bytes")
        until = time.monotonic() + seconds
        self._turns.take(caller, until, is_over)
        try:
            process = self._take()
            try:
                limit = min(until, time.monotonic() + WALL_SECONDS)
                kind, answer = process.run(expression.encode("utf-8", "replace"), value, limit, is_over)
            except BaseException:
                self._drop(process)
                raise
            self._give_back(process)
        finally:
            self._turns.give_back(caller)
        return _value_of(kind, answer)

    def check(self, expression: str, seconds: float) -> None:
        """Compile an expression without running it. Raises ExpressionInvalid, ExpressionStopped."""
        self.run(expression, b"", seconds)

    def pids(self) -> list[int]:
        """Return the ids of the processes that run now."""
        with self._lock:
            return [one.pid for one in (*self._idle, *self._busy)]

    def close(self) -> None:
        """End all processes. A run that goes on fails."""
        with self._lock:
            self._closed = True
            ended = [*self._idle, *self._busy]
            self._idle.clear()
        for one in ended:
            one.close()

    def _take(self) -> _Process:
        with self._lock:
            if self._closed:
                raise ToolFailed("the hub is ending")
            process = self._idle.pop() if self._idle else _Process(self._cpu_seconds)
            self._busy.add(process)
            return process

    def _give_back(self, process: _Process) -> None:
        if process.runs >= MAX_RUNS:
            self._drop(process)
            return
        with self._lock:
            self._busy.discard(process)
            if not self._closed:
                self._idle.append(process)

    def _drop(self, process: _Process) -> None:
        with self._lock:
            self._busy.discard(process)
        process.close()


def _check(until: float, is_over: Callable[[], bool]) -> None:
    """Raise ExpressionStopped when the time is over, or the caller needs the value no more."""
    if is_over():
        raise ExpressionStopped("its call has ended")
    if time.monotonic() >= until:
        raise ExpressionStopped("it takes too long")


def _value_of(kind: bytes, answer: bytes) -> bytes:
    """Return the value of an answer. Raises ExpressionInvalid and ExpressionFailed."""
    if kind == jq_child.VALUE:
        return answer
    if kind == jq_child.LARGE:
        raise ExpressionStopped(f"it gives more than {jq_child.MAX_VALUE_BYTES} bytes")
    if kind == jq_child.SEVERAL:
        if answer == b"0":
            raise ExpressionFailed("it gives no value; expected exactly one, such as [...] around it")
        raise ExpressionFailed("it gives several values; expected exactly one, such as [...] around it")
    sentence = answer.decode("utf-8", "replace")
    raise ExpressionInvalid(sentence) if kind == jq_child.INVALID else ExpressionFailed(sentence)
