"""One host: a process with one thread that knows one definition and runs one call at a time.

It reads frames from its link, runs the function exactly as the hub itself would (`functions.py`),
and writes events back; a full pipe makes the function wait. SIGUSR2 says that the call is over:
`Stopped` is raised in the function, which may clean up; then the host ends. What a function leaves
behind (a child that still runs, many open descriptors, memory) ends the host after the call.
Sources: DESIGN section 6; REQUIREMENTS T12.5, X-15, X-19; THREATS 1.6.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import orjson

from patchbay.activation import Call, described
from patchbay.errors import ToolFailed
from patchbay.events import Ask, Detach, Event, Log, Question
from patchbay.kinds.python.definitions import Definition
from patchbay.kinds.python.functions import work
from patchbay.kinds.python.runner_threads import Stopped
from patchbay.kinds.python.workers import frames
from patchbay.kinds.python.workers.hub_proxy import RemoteHub
from patchbay.kinds.python.workers.leftovers import WorkingFolder, has_children, open_descriptors
from patchbay.kinds.python.workers.output import CapturedOutput
from patchbay.processes.confinement.paths import AllowedPaths, existing
from patchbay.processes.confinement.protections import Protections
from patchbay.processes.limits import (
    MIB,
    CpuTime,
    adopt_orphans,
    bound_memory,
    bound_process,
    die_with_parent,
    name_process,
    peak,
)
from patchbay.settings import adopt

SLOW_LOAD_SECONDS = 0.1
"""Seconds of loading after which a definition counts as slow, and gets a host that is warm."""

OPEN = 64
"""Descriptors that a definition may keep open from one call to the next."""

TRACE = 4000
"""Characters of a traceback that the hub's log gets."""


SIGNALS = (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)
"""What a host handles: its call is over; and two that are not for it."""


class Link:
    """The host's end of the pipe. Any thread of a tool may send; one at a time may ask and wait."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(True)
        self._frames = frames.Frames()
        self._waiting: list[tuple[int, bytes]] = []
        self._sending = threading.Lock()
        self._sender = 0
        self._put_off = False
        self._asking = threading.Lock()
        self._wishes = 0

    def send(self, data: bytes) -> None:
        """Write frames; waits while the hub does not read. Raises Stopped when it never will, and what was put off."""
        with self._sending:
            self._sender = threading.get_ident()
            try:
                self._socket.sendall(data)
            except OSError as problem:
                raise Stopped from problem
            finally:
                self._sender = 0
            put_off, self._put_off = self._put_off, False
        if put_off:
            raise Stopped

    def puts_off(self) -> bool:
        """For a signal handler that wants to raise Stopped: whether `send` does it, when the frame it writes is whole.

        Half a frame would swallow what a function that cleans up asks of the hub.
        """
        self._put_off = self._sender == threading.get_ident()
        return self._put_off

    def receive(self) -> tuple[int, bytes]:
        """The next frame. Ends the process when the hub closed its end."""
        while not self._waiting:
            data = self._socket.recv(65536)
            if not data:
                os._exit(0)
            self._waiting = self._frames.take(data)
        return self._waiting.pop(0)

    def ask(self, data: bytes) -> Any:
        """Send a question's frame; the answer's value."""
        with self._asking:
            self.send(data)
            while True:
                kind, body = self.receive()
                if kind & ~frames.SLOW == frames.ANSWER:
                    return frames.unpacked(kind, body)

    def request(self, method: str, arguments: Sequence[Any]) -> tuple[bool, Any]:
        """Send a wish; whether it was granted, and what came of it. Raises TypeError or ValueError for no JSON.

        Wishes are numbered: one that was broken off may still be answered while the next one waits.
        """
        with self._asking:
            self._wishes += 1
            self.send(frames.packed(frames.REQUEST, [self._wishes, method, *arguments]))
            while True:
                kind, body = self.receive()
                if kind & ~frames.SLOW == frames.REPLY:
                    number, granted, value = frames.unpacked(kind, body)
                    if number == self._wishes:
                        return granted, value

    def close(self) -> None:
        self._socket.close()


class WorkerCall:
    """One call as the function sees it.

    `has_spoken` says that a frame of this call has been sent before its end. `stopping` is set when the hub gave the
    call up: the function may clean up, and use the hub for it, but not say anything more. `over` is set when the call
    has ended.
    """

    def __init__(self, link: Link, call: Call, allow: Callable[[float], None]) -> None:
        self._allow = allow
        self.call = call
        self.has_spoken = False
        self.loop: Any = None
        self.stopping = False
        self.over = False
        self._link = link

    def emit(self, event: Event) -> None:
        """Send an event up; waits while nobody takes it. Raises Stopped when the call is over.

        A Detach is waited for: the call may have another deadline after it.
        """
        self._go_on()
        self.has_spoken = True
        if type(event) is Detach:
            self.call.deadline = self._link.ask(frames.event_frame(event))
            self._allow(self.call.left())
        else:
            self._link.send(frames.event_frame(event))

    def ask(self, questions: Mapping[str, Question]) -> Any:
        """Send questions up and wait for what comes back. Raises Stopped when the call is over."""
        self._go_on()
        self.has_spoken = True
        return self._link.ask(frames.event_frame(Ask(questions)))

    def request(self, method: str, *arguments: Any) -> Any:
        """Have the hub do something; its answer. Raises what the hub raised, Stopped when the call has ended."""
        if self.over:
            raise Stopped
        self.has_spoken = True
        try:
            granted, value = self._link.request(method, arguments)
        except (TypeError, ValueError) as problem:
            raise ToolFailed(f"the hub takes JSON values: {problem}") from problem
        if not granted:
            raise frames.failure_of(value)
        return value

    def _go_on(self) -> None:
        if self.over or self.stopping:
            raise Stopped


class Worker:
    """The life of one host."""

    def __init__(self, descriptor: int, folder: Path, protections: Protections) -> None:
        self._link = Link(descriptor)
        self._folder = folder
        self._working_folder = WorkingFolder(folder)
        self._protections = protections
        self._pid = os.getpid()
        self._cpu = CpuTime()
        self._job: WorkerCall | None = None
        self._definition: Definition | None = None
        self._memory = 0
        self._name = ""
        self._loaded = False
        self._base = 0
        self._calls = 0
        self._out = CapturedOutput(self._print, "stdout", "debug")
        self._err = CapturedOutput(self._print, "stderr", "warning")

    def run(self) -> NoReturn:
        """Serve until the hub is gone, or tells this host to end."""
        self._out.install()
        self._err.install()
        signal.signal(signal.SIGUSR2, self._stop)
        signal.signal(signal.SIGTERM, _heard)
        signal.signal(signal.SIGINT, _heard)
        os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals, after_in_child=self._forked)
        while True:
            kind, body = self._link.receive()
            if kind == frames.LOAD:
                self._load(body)
            elif kind == frames.CALL:
                self._call(orjson.loads(body) if not kind & frames.SLOW else frames.unpacked(kind, body))
            elif kind == frames.WARM:
                Context().run(self._warm)

    def _load(self, body: bytes) -> None:
        head, _, source = body.partition(b"\n")
        self._name, cid, self._memory, variables, own, writes = orjson.loads(head)
        folder = str(self._folder)
        adopt({"TMPDIR": folder} | variables)
        tempfile.tempdir = None
        name_process(self._name)
        places = AllowedPaths(own=(self._folder, *existing(own)), writes=existing(writes))
        self._protections.take_on(places, self._memory)
        self._definition = Definition(source, cid, self._name)
        bound_memory(self._memory)

    def _call(self, fields: list[Any]) -> None:
        target, arguments, deadline, principal, capabilities, level, token, meta, chain, hub = fields
        call = Call(
            self._name,
            target,
            arguments,
            deadline,
            principal=principal,
            capabilities=capabilities,
            log_level=level,
            progress_token=token,
            meta=meta,
            chain=tuple(chain),
        )
        job = WorkerCall(self._link, call, self._cpu.allow)
        if hub:
            call.hub = RemoteHub(job.request, len(chain))
        self._working_folder.enter()
        self._cpu.allow(call.left())
        self._job = job
        result = Context().run(self._outcome, job)
        if os.getpid() != self._pid:
            os._exit(0)  # a fork that came back from the function
        self._out.end()
        self._err.end()
        self._job = None
        if job.stopping:
            os._exit(0)
        job.over = True
        self._link.send(frames.frame(frames.RETIRE) + result if self._is_spent() else result)
        self._working_folder.empty()

    def _outcome(self, job: WorkerCall) -> bytes:
        """The last frames of a call, however it ended."""
        assert self._definition is not None
        try:
            slow = self._make_ready()
            begun = time.monotonic()
            events = work(self._definition, job.call, job)
            ending = frames.ending(time.monotonic() - begun, not job.has_spoken)
            return slow + b"".join([frames.event_frame(event) for event in events]) + ending
        except Stopped:
            raise
        except Exception as problem:
            return self._failure(problem)
        except BaseException as problem:
            return frames.failure(ToolFailed(f"the tool ended itself: {described(problem)}"))

    def _failure(self, problem: Exception) -> bytes:
        if isinstance(problem, MemoryError) or isinstance(problem.__cause__, MemoryError):
            self._base = -1  # nothing that ran out of memory is used again
            problem = ToolFailed(f"{self._name} ran out of memory (limit {self._memory} MiB)")
        trace = "".join(traceback.format_exception(problem))[-TRACE:]
        return frames.failure(problem, trace)

    def _make_ready(self) -> bytes:
        """Load the definition unless it is; answers the frame that tells of a slow one. Raises ToolFailed."""
        if self._loaded:
            return b""
        assert self._definition is not None
        begun = time.monotonic()
        self._definition.load()
        self._loaded = True
        self._base = peak()
        gc.collect()
        return frames.frame(frames.SLOW_START) if time.monotonic() - begun > SLOW_LOAD_SECONDS else b""

    def _warm(self) -> None:
        """Load ahead of the first call; what goes wrong is told when there is a caller."""
        self._cpu.allow(3600.0)
        try:
            self._make_ready()
        except ToolFailed:
            self._loaded = False

    def _is_spent(self) -> bool:
        """Whether a call left something behind that the next one should not find."""
        self._calls += 1
        if has_children() or self._base < 0 or peak() - self._base > self._memory * MIB // 2:
            return True
        return self._calls % 16 == 1 and open_descriptors() > OPEN

    def _print(self, event: Log) -> None:
        job = self._job
        if job is not None and not job.over and not job.stopping:
            job.emit(event)

    def _stop(self, number: int, where: FrameType | None) -> None:
        """SIGUSR2: the call is over."""
        job = self._job
        if job is None:
            os._exit(0)
        if not job.stopping:
            job.stopping = True
            job.call.cancelled.set("the call is over")
            if not self._link.puts_off():
                raise Stopped

    def _forked(self) -> None:
        """In a process that the tool forked: it has no part in the conversation with the hub."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _let_signals()
        self._link.close()
        if self._job is not None:
            self._job.over = True


def _heard(number: int, where: FrameType | None) -> None:
    """SIGTERM and SIGINT mean the hub, which ends its hosts itself; unlike SIG_IGN this ends with an exec."""


def _hold_signals() -> None:
    """Before a fork, so that none is lost on the child before it has handlers of its own."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _let_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def live(descriptor: int, parent: int, folder: Path, tasks: int, protections: Protections) -> NoReturn:
    """Be a host from here on, in a process that was just forked for it. Never returns.

    `parent` is the process that it ends with, 0 where that has no number here.
    """
    code = 1
    try:
        die_with_parent(parent)
        adopt_orphans()
        bound_process(tasks)
        os.chdir(folder)
        sys.argv = ["tool"]
        gc.enable()
        Worker(descriptor, folder, protections).run()
    except Stopped:
        code = frames.LOST
    finally:
        os._exit(code)
