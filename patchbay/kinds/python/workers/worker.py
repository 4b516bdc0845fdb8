"""One worker: a process with one thread that knows one definition and runs one call at a time.

It reads frames from its pipe, runs the function exactly as the hub itself would (`functions.py`), and writes events
back; a full pipe makes the function wait. SIGUSR2 means that the call is over: `Stopped` is raised in the function,
which may clean up; then the worker ends. Leftovers of a function (a running child, many open descriptors, memory) end
the worker after the call.

A call of a pure function, which uses nothing outside Python (`blocking.py`), makes two system calls: it receives and
it sends. It can leave nothing behind but memory, which is measured when such calls have run for MEASURED_SECONDS. All
other calls, and one of CHECKED_CALLS, begin in the empty working folder, and all of their leftovers are looked for.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import orjson

from patchbay.activation import Call, ended_itself
from patchbay.environments.activation import activate_environment
from patchbay.errors import ServerFailed, ToolFailed
from patchbay.events import Ask, Detach, Event, Log, Question
from patchbay.kinds.python.definitions import Definition
from patchbay.kinds.python.functions import run_function
from patchbay.kinds.python.workers import frames
from patchbay.kinds.python.workers.hub_proxy import RemoteHub
from patchbay.kinds.python.workers.leftovers import WorkingFolder, has_children, has_threads, open_descriptors
from patchbay.kinds.python.workers.output import CapturedOutput
from patchbay.processes.confinement.denials import Rules
from patchbay.processes.confinement.paths import AllowedPaths, existing_folders
from patchbay.processes.confinement.protections import Protections
from patchbay.processes.limits import (
    MIB,
    CpuTime,
    die_with_parent,
    limit_memory,
    limit_process,
    name_process,
    peak_memory_bytes,
)
from patchbay.processes.process_trees import adopt_orphans
from patchbay.settings import adopt
from patchbay.threads.interrupts import Stopped

SLOW_LOAD_SECONDS = 0.1
"""Seconds of loading after which a definition counts as slow, and gets a worker that has loaded it in advance."""

MAX_OPEN_DESCRIPTORS = 64
"""Descriptors that a definition may keep open from one call to the next."""

CHECKED_CALLS, MEASURED_SECONDS = 100, 0.002
"""One of so many calls of pure functions is checked like all others; memory is measured after so many seconds of them,
because less time fills no relevant part of it.
"""

SIGNALS = (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)
"""The signals that a worker handles: the end of its call; SIGTERM and SIGINT, which it ignores."""


class Link:
    """The worker's end of the pipe. Any thread of a tool may send; one at a time may ask and wait."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(True)
        self._frames = frames.Frames()
        self._waiting: list[tuple[int, bytes]] = []
        self._sending = threading.Lock()
        self._sender = 0
        self._is_stop_postponed = False
        self._asking = threading.Lock()
        self._requests = 0

    def send(self, data: bytes) -> None:
        """Write frames; waits while the hub does not read. Raises Stopped when the hub is gone or a stop is due."""
        with self._sending:
            self._sender = threading.get_ident()
            try:
                self._socket.sendall(data)
            except OSError as problem:
                raise Stopped from problem
            finally:
                self._sender = 0
            is_postponed, self._is_stop_postponed = self._is_stop_postponed, False
        if is_postponed:
            raise Stopped

    def postpones_stop(self) -> bool:
        """Postpone Stopped for a signal handler: `send` raises it when the frame that it writes is complete.

        Half a frame would swallow later requests of a function that cleans up.
        """
        self._is_stop_postponed = self._sender == threading.get_ident()
        return self._is_stop_postponed

    def receive(self) -> tuple[int, bytes]:
        """Return the next frame. Ends the process when the hub has closed its end."""
        while not self._waiting:
            data = self._socket.recv(65536)
            if not data:
                os._exit(0)
            self._waiting = self._frames.feed(data)
        return self._waiting.pop(0)

    def ask(self, data: bytes) -> Any:
        """Send a question's frame and return the value of its answer."""
        with self._asking:
            self.send(data)
            while True:
                kind, body = self.receive()
                if kind & ~frames.SLOW == frames.ANSWER:
                    return frames.unpacked(kind, body)

    def request(self, method: str, arguments: Sequence[Any]) -> tuple[bool, Any]:
        """Send a request; return whether it succeeded, and its value. Raises TypeError or ValueError for non-JSON
        values.

        Requests are numbered: the reply to an interrupted one may arrive while the next one waits.
        """
        with self._asking:
            self._requests += 1
            self.send(frames.pack_frame(frames.REQUEST, [self._requests, method, *arguments]))
            while True:
                kind, body = self.receive()
                if kind & ~frames.SLOW == frames.REPLY:
                    number, granted, value = frames.unpacked(kind, body)
                    if number == self._requests:
                        return granted, value

    def close(self) -> None:
        self._socket.close()


class WorkerCall:
    """One call as the function sees it.

    `stopping` is set when the hub abandoned
    the call: the function may clean up, and use the hub for it, but emit no further event. `over` is set when the call
    has ended.
    """

    def __init__(self, link: Link, call: Call, allow: Callable[[float], None]) -> None:
        self._allow = allow
        self.call = call
        self.loop: Any = None
        self.stopping = False
        self.over = False
        self._link = link

    def emit(self, event: Event) -> None:
        """Emit an event; waits until it is taken. Raises Stopped when the call is over.

        For a Detach it waits for the answer: the call may get another deadline.
        """
        self._check_over()
        if type(event) is Detach:
            self.call.deadline = self._link.ask(frames.event_frame(event))
            self._allow(self.call.left())
        else:
            self._link.send(frames.event_frame(event))

    def ask(self, questions: Mapping[str, Question]) -> Any:
        """Send questions and wait for the answer. Raises Stopped when the call is over."""
        self._check_over()
        return self._link.ask(frames.event_frame(Ask(questions)))

    def request(self, method: str, *arguments: Any) -> Any:
        """Send a request to the hub and return its result. Raises the hub's error, Stopped when the call has ended."""
        if self.over:
            raise Stopped
        try:
            granted, value = self._link.request(method, arguments)
        except (TypeError, ValueError) as problem:
            raise ToolFailed(f"the hub takes JSON values: {problem}") from problem
        if not granted:
            raise frames.failure_of(value)
        return value

    def _check_over(self) -> None:
        if self.over or self.stopping:
            raise Stopped


class Worker:
    """The main loop of one worker."""

    def __init__(self, descriptor: int, folder: Path, protections: Protections) -> None:
        self._link = Link(descriptor)
        self._folder = folder
        self._working_folder = WorkingFolder(folder)
        self._protections = protections
        self._pid = os.getpid()
        self._cpu = CpuTime()
        self._job: WorkerCall | None = None
        self._definition: Definition | None = None
        self._rules: Rules | None = None
        self._memory = 0
        self._name = ""
        self._loaded = False
        self._base = 0
        self._calls = 0
        self._unmeasured = 0.0
        self._pure: dict[str, bool] = {}
        self._has_threads = False
        self._out = CapturedOutput(self._print, "stdout", "debug")
        self._err = CapturedOutput(self._print, "stderr", "warning")

    def run(self) -> NoReturn:
        """Serve until the hub is gone, or ends this worker."""
        self._out.install()
        self._err.install()
        signal.signal(signal.SIGUSR2, self._stop)
        signal.signal(signal.SIGTERM, _ignore)
        signal.signal(signal.SIGINT, _ignore)
        os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals, after_in_child=self._forked)
        while True:
            kind, body = self._link.receive()
            if kind == frames.LOAD:
                self._load(body)
            elif kind & ~frames.SLOW == frames.CALL:
                self._call(orjson.loads(body) if kind == frames.CALL else frames.unpacked(kind, body))
            elif kind == frames.WARM:
                Context().run(self._warm)

    def _load(self, body: bytes) -> None:
        head, _, source = body.partition(b"\n")
        self._name, cid, self._memory, variables, own, writes, packages, sandbox = orjson.loads(head)
        folder = str(self._folder)
        adopt({"TMPDIR": folder} | variables)
        tempfile.tempdir = None
        name_process(self._name)
        places = AllowedPaths(
            own=(self._folder, *existing_folders(own)),
            writes=existing_folders(writes),
            shown=existing_folders(packages[:1]),
        )
        self._protections.apply(places, self._memory)
        self._rules = self._protections.describe(self._name, places, sandbox)
        if packages:
            activate_environment(*map(Path, packages))
        self._definition = Definition(source, cid, self._name)
        limit_memory(self._memory)

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
        function = target.get("function", "main")
        self._calls += 1
        is_pure = self._calls % CHECKED_CALLS > 0 and self._pure.get(function, False) and not self._has_threads
        if not is_pure:
            self._working_folder.enter()
        self._cpu.allow(call.left())
        self._job = job
        result = Context().run(self._outcome, job, is_pure)
        if not is_pure:
            self._end_call()
        self._job = None
        if job.stopping:
            os._exit(0)
        job.over = True
        self._link.send(frames.frame(frames.RETIRE) + result if self._is_spent(is_pure) else result)
        if not is_pure:
            self._working_folder.empty()
            self._note_function(function)

    def _end_call(self) -> None:
        """End what a function may have begun outside Python: a fork of this process, an incomplete line of output."""
        if os.getpid() != self._pid:
            os._exit(0)  # a forked process that returned from the function
        self._out.end()
        self._err.end()

    def _note_function(self, name: str) -> None:
        """Note whether the next call of a function leaves nothing outside Python, and no thread does meanwhile."""
        assert self._definition is not None
        self._has_threads = has_threads()
        if self._loaded and name not in self._pure:
            with suppress(ToolFailed):  # the definition has no such function
                self._pure[name] = self._definition.is_pure(name)

    def _outcome(self, job: WorkerCall, is_pure: bool) -> bytes:
        """Return the last frames of a call, however it ended."""
        assert self._definition is not None
        try:
            slow = self._make_ready()
            begun = time.monotonic()
            events = run_function(self._definition, job.call, job)
            seconds = time.monotonic() - begun
            self._unmeasured += seconds
            ending = frames.ending(seconds, is_pure)
            return slow + b"".join([frames.event_frame(event) for event in events]) + ending
        except Stopped:
            raise
        except Exception as problem:
            return self._failure(problem)
        except BaseException as problem:
            return frames.failure(ended_itself(problem), self._definition.find_raised(problem))

    def _failure(self, problem: Exception) -> bytes:
        assert self._definition is not None
        raised = self._definition.find_raised(problem)
        if isinstance(problem, MemoryError) or isinstance(problem.__cause__, MemoryError):
            self._base = -1  # a worker that ran out of memory is not used again
            words = f"ran out of memory (limit {self._memory} MiB)"
            problem = ServerFailed(f"{self._name} {words}", hidden=f"it {words}")
        return frames.failure(problem, raised, self._rules.explain(problem) if self._rules is not None else "")

    def _make_ready(self) -> bytes:
        """Load the definition once; return the frame that reports slow loading. Raises ToolFailed."""
        if self._loaded:
            return b""
        assert self._definition is not None
        begun = time.monotonic()
        self._definition.load()
        self._loaded = True
        self._base = peak_memory_bytes()
        gc.collect()
        return frames.frame(frames.SLOW_START) if time.monotonic() - begun > SLOW_LOAD_SECONDS else b""

    def _warm(self) -> None:
        """Load in advance of the first call; an error is reported to the first caller."""
        self._cpu.allow(3600.0)
        try:
            self._make_ready()
        except ToolFailed:
            self._loaded = False

    def _is_spent(self, is_pure: bool) -> bool:
        """Whether a call left something behind that would affect the next one."""
        if is_pure and self._base >= 0 and self._unmeasured < MEASURED_SECONDS:
            return False
        self._unmeasured = 0.0
        if has_children() or self._base < 0 or peak_memory_bytes() - self._base > self._memory * MIB // 2:
            return True
        return self._calls % 16 == 1 and open_descriptors() > MAX_OPEN_DESCRIPTORS

    def _print(self, event: Log) -> None:
        job = self._job
        if job is not None and not job.over and not job.stopping:
            job.emit(event)

    def _stop(self, number: int, where: FrameType | None) -> None:
        """Handle SIGUSR2: the call is over."""
        job = self._job
        if job is None:
            os._exit(0)
        if not job.stopping:
            job.stopping = True
            job.call.cancelled.set("the call is over")
            if not self._link.postpones_stop():
                raise Stopped

    def _forked(self) -> None:
        """Detach a process that the tool forked from the connection to the hub."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _let_signals()
        self._link.close()
        if self._job is not None:
            self._job.over = True


def _ignore(number: int, where: FrameType | None) -> None:
    """Ignore SIGTERM and SIGINT, which are for the hub; unlike SIG_IGN, exec resets this."""


def _hold_signals() -> None:
    """Block signals before a fork, so that the child does not lose one before it has its handlers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _let_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def run_worker(descriptor: int, parent: int, folder: Path, protections: Protections) -> NoReturn:
    """Become a worker, in a process that was just forked for it. Never returns.

    `parent` is the process that it ends with; 0 where that is outside this namespace.
    """
    code = 1
    try:
        die_with_parent(parent)
        adopt_orphans()
        limit_process()
        os.chdir(folder)
        sys.argv = ["tool"]
        gc.enable()
        Worker(descriptor, folder, protections).run()
    except Stopped:
        code = frames.LOST
    finally:
        os._exit(code)
