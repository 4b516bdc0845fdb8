"""One call of a Python definition in a worker process, as events.

The thread that reads the events writes the call and reads the worker's pipe: a fast call costs one write and one read.
One that lasts is waited for together with its printed output and the end of its process. While the thread does not
read, the pipe fills and the tool waits. When the call is abandoned, the worker is signalled (its function may clean up)
and then killed with everything it started.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

from patchbay.activation import PAUSE, Call, Events, Handler, pauses, slices
from patchbay.errors import MissingCapability, ServerFailed, ToolFailed
from patchbay.events import Ask, Detach, Event, Log
from patchbay.kinds.python.context import CAPABILITY
from patchbay.kinds.python.workers import frames
from patchbay.kinds.python.workers.frames import BadFrame
from patchbay.kinds.python.workers.hub_service import TOOL_REQUESTS, parse_request, serve_request
from patchbay.kinds.python.workers.worker_connection import END_SECONDS, WorkerConnection, WorkerGone
from patchbay.kinds.python.workers.worker_order import WorkerOrder
from patchbay.kinds.python.workers.worker_pool import WorkerPool

log = logging.getLogger(__name__)

PRINT_LOGGERS = ("stdout", "stderr", "output")
"""The loggers of a tool's printed output."""

CLEANUP_SECONDS = 1.0
"""Seconds in which the function of a cancelled call may clean up."""

DEADLINE_CLEANUP_SECONDS = 0.5
"""Seconds in which a function may clean up after its deadline."""

MAX_STARTS = 3
"""Maximum number of new workers that may end before they receive the call."""


def hosted_handler(pool: WorkerPool, order: WorkerOrder) -> Handler:
    """Return the handler that runs the functions of a definition in workers. The first call starts one.

    A call waits for the packages that the definition requires.

    The handler raises the function's errors (an exception that is not the hub's own keeps its name and message), and
    ToolFailed when the worker ends, or no worker is free before the deadline.
    """
    packages = order.packages

    def handle(call: Call) -> Events:
        if packages is not None:
            yield from packages.wait(call)
        conversation = yield from _start_conversation(pool, order, call)
        worker = conversation.worker
        try:
            yield from conversation.run()
        except BadFrame as problem:
            raise ToolFailed(f"the tool's process sent something that is not a message: {problem}") from problem
        except WorkerGone as problem:
            raise ToolFailed(worker.describe_end(END_SECONDS)) from problem
        finally:
            if conversation.ended:
                pool.give_back(worker)
            else:
                conversation.abandon(pool, CLEANUP_SECONDS if call.left() > 0 else DEADLINE_CLEANUP_SECONDS)

    return handle


def _start_conversation(pool: WorkerPool, order: WorkerOrder, call: Call) -> Generator[Event, Any, Conversation]:
    """Return a conversation whose call is on its way to a running worker. Raises ToolFailed."""
    message = call_frame(call)
    tries = 0
    while tries < MAX_STARTS:
        worker = pool.take_idle(order) or (yield from pool.wait_for_worker(order, call))
        tries += worker.calls == 0  # any number of used workers may have ended, such as all with their fork server
        try:
            if not worker.backlog:
                return Conversation(worker, call, worker.write(message))
            unsent, worker.backlog = worker.backlog + message, b""
            return Conversation(worker, call, unsent)
        except WorkerGone:  # it ended while it was idle, and has not received the call
            pool.stop(worker)
    raise ServerFailed(f"{order.name}: its processes end before they get a call")


def call_frame(call: Call) -> bytes:
    """Return the frame of a call."""
    return frames.pack_frame(
        frames.CALL,
        (
            call.target,
            call.arguments,
            call.deadline,
            call.principal,
            call.capabilities,
            call.log_level,
            call.progress_token,
            call.meta,
            call.chain,
            call.hub is not None,
        ),
    )


class Conversation:
    """One call on one worker. `ended` means that the worker has finished it and can be used again."""

    __slots__ = ("_busy", "_call", "_is_soon", "_silence", "_unsent", "ended", "worker")

    def __init__(self, worker: WorkerConnection, call: Call, unsent: bytes) -> None:
        self.worker = worker
        self.ended = False
        self._call = call
        self._unsent = unsent
        self._silence = pauses(call)
        self._busy = False
        self._is_soon = True
        worker.begin_call()

    def run(self) -> Events:
        """Yield the events of the call. Raises the function's exception, ToolFailed, BadFrame, WorkerGone."""
        worker = self.worker
        if self._unsent:
            yield from self._send(self._unsent)
        while not self.ended:
            try:
                found = self._read()
            except ToolFailed:  # its last printed lines often show the reason
                yield from self._last_words()
                raise
            if worker.printed:
                yield from self._printed()
            if not found:
                if found is None:
                    yield PAUSE
                continue
            for kind, body in found:
                if kind == frames.END or kind == frames.END_SILENT:
                    self._finish()
                    worker.seconds = frames.duration_of(body)
                    if kind == frames.END_SILENT and not worker.has_output:
                        return
                elif 10 <= kind & ~frames.SLOW < 20:
                    event = frames.event_of(kind, body)
                    if type(event) is Ask:
                        yield from self._ask_caller(event)
                    elif type(event) is Detach:
                        yield event
                        yield from self._send(frames.pack_frame(frames.ANSWER, self._call.deadline))
                    else:
                        if type(event) is Log:
                            self._log_printed(event)
                        yield event
                else:
                    yield from self._handle(kind, body)
        yield from self._last_words()

    def _read(self) -> list[tuple[int, bytes]] | None:
        """Return the frames that arrive; None when none do in time, or the call is cancelled."""
        if self._is_soon:  # most calls end soon after the hub has written
            self._is_soon = False
            found = self.worker.read_soon()
            if found is not None:
                return found
        for wait in slices(self._call, next(self._silence)):
            found = self.worker.read(wait)
            if found is not None:
                return found
        return None

    def _last_words(self) -> Iterator[Event]:
        if self.worker.take_last_output():
            yield from self._printed()

    def _printed(self) -> Iterator[Event]:
        printed, self.worker.printed = self.worker.printed, []
        for event in printed:
            self._log_printed(event)
            yield event

    def _log_printed(self, event: Log) -> None:
        """Write a tool's printed output to the hub's log too."""
        if event.logger in PRINT_LOGGERS:
            log.debug("%s printed: %s", self._call.server, event.data)

    def _handle(self, kind: int, body: bytes) -> Events:
        """Handle the frames that are not for the caller."""
        plain = kind & ~frames.SLOW
        if plain == frames.RAISED:
            problem = frames.failure_of(frames.unpacked(kind, body))
            self._finish()
            yield from self._last_words()
            raise problem
        if plain == frames.REQUEST:
            yield from self._serve_request(frames.unpacked(kind, body))
        elif plain == frames.RETIRE:
            self.worker.spent = True
        elif plain == frames.SLOW_START:
            self.worker.slow = True
        else:
            raise BadFrame(f"a frame of kind {plain}")

    def _finish(self) -> None:
        self.ended = True
        if self._busy:  # the reply to a request is still on its way
            self.worker.spent = True

    def _ask_caller(self, asked: Ask) -> Events:
        for question in asked.questions.values():
            needed = CAPABILITY.get(question.method, question.method)
            if needed not in self._call.capabilities:
                raise MissingCapability({needed: {}})
        answer = yield asked
        yield from self._send(frames.pack_frame(frames.ANSWER, answer))

    def _serve_request(self, body: Any) -> Events:
        number, method, arguments = parse_request(body)
        if self._busy:
            raise BadFrame("a second request before the reply to the first")
        if method in TOOL_REQUESTS:
            self._busy = True
            threading.Thread(
                target=self._serve_in_thread, args=(number, method, arguments), name="hub for a tool", daemon=True
            ).start()
        else:
            yield from self._send(serve_request(number, method, arguments, self._call))

    def _serve_in_thread(self, number: int, method: str, arguments: list[Any]) -> None:
        answer = serve_request(number, method, arguments, self._call)
        self._busy = False
        self.worker.write_all(answer)

    def _send(self, data: bytes) -> Events:
        """Write everything, with a Pause while the worker does not read."""
        while data := self.worker.write(data):
            self.worker.wait_for_room(next(self._silence))
            yield PAUSE
        self._is_soon = True

    def abandon(self, pool: WorkerPool, grace: float) -> None:
        """Abandon the call: signal the function, which has some seconds to clean up, then end the worker.

        The caller does not wait for that; the end of the hub does, because it kills all workers. Requests of the
        function during its cleanup are served on a thread of their own.
        """
        why = "given up" if self._call.cancelled or self._call.left() <= 0 else "lost"
        self.worker.signal_end(grace)
        try:
            threading.Thread(
                target=self._end_worker, args=(pool, grace, why), name="end of a tool", daemon=False
            ).start()
        except RuntimeError:  # no more threads: it ends without cleanup
            pool.stop(self.worker, why)

    def _end_worker(self, pool: WorkerPool, grace: float, why: str) -> None:
        until = time.monotonic() + grace
        try:
            while (left := until - time.monotonic()) > 0:
                for kind, body in self.worker.read(left) or ():
                    if kind & ~frames.SLOW == frames.REQUEST:
                        number, method, arguments = parse_request(frames.unpacked(kind, body))
                        if method not in TOOL_REQUESTS:
                            self._serve_in_thread(number, method, arguments)
        except (ToolFailed, BadFrame):
            pass  # it has ended
        finally:
            pool.stop(self.worker, why)
