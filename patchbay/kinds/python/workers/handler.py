"""One call of a Python definition in a host process, as events.

The thread that wants the events writes the call, waits on the host's pipe and reads: a fast call
costs one write and one read. While it does not read, the pipe fills and the tool waits. When the
call is given up, the host is told (its function may clean up) and then killed with everything it
started.
Sources: DESIGN section 6; REQUIREMENTS T12.5, X-15, X-19; THREATS X2, X3.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from patchbay.activation import PAUSE, Call, Events, Handler, pauses
from patchbay.errors import MissingCapability, ToolFailed
from patchbay.events import Ask, Detach, Event, Log
from patchbay.kinds.python.context import CAPABILITY
from patchbay.kinds.python.workers import frames
from patchbay.kinds.python.workers.frames import BadFrame
from patchbay.kinds.python.workers.hub_service import LONG, grant, parse_request
from patchbay.kinds.python.workers.worker_connection import STORY, WorkerConnection, WorkerGone
from patchbay.kinds.python.workers.worker_pool import WorkerOrder, WorkerPool
from patchbay.processes.limits import Limits

log = logging.getLogger(__name__)

PRINTED = ("stdout", "stderr", "output")
"""The loggers of what a tool printed."""

CLEANUP_SECONDS = 1.0
"""Seconds in which a function whose call was cancelled may clean up."""

LATE_GRACE = 0.5
"""The same at a deadline."""

TRIES = 3
"""How many new hosts are tried that turn out to be gone before they got the call."""


def hosted_handler(
    hosts: WorkerPool,
    source: bytes,
    cid: str,
    name: str,
    limits: Limits,
    environment: Mapping[str, str] | None = None,
    own: Path | None = None,
) -> Handler:
    """What runs the functions of a definition in hosts. Nothing is started before the first call.

    `environment` is for the hosts, with its references (`settings.resolved`); `own` is the folder of the server.

    The handler raises what the function raises (a failure that is not the hub's own keeps its name
    and message), and ToolFailed when the host ends, or none is free before the deadline.
    """
    order = WorkerOrder(name, cid, source, limits, environment or {}, own)

    def handle(call: Call) -> Events:
        conversation = yield from _begun(hosts, order, call)
        host = conversation.host
        try:
            yield from conversation.run()
        except BadFrame as problem:
            raise ToolFailed(f"the tool's process sent something that is no message: {problem}") from problem
        except WorkerGone as problem:
            raise ToolFailed(host.story(STORY)) from problem
        finally:
            if conversation.ended:
                hosts.give_back(host)
            else:
                conversation.part(hosts, CLEANUP_SECONDS if call.left() > 0 else LATE_GRACE)

    return handle


def _begun(hosts: WorkerPool, order: WorkerOrder, call: Call) -> Generator[Event, Any, Conversation]:
    """A conversation whose call is on its way to a host that is there. Raises ToolFailed."""
    message = call_frame(call)
    tries = 0
    while tries < TRIES:
        host = hosts.at_once(order) or (yield from hosts.soon(order, call))
        tries += host.calls == 0  # of used ones any number may be gone, such as all with their zygote
        try:
            if not host.backlog:
                return Conversation(host, call, host.write(message))
            unsent, host.backlog = host.backlog + message, b""
            return Conversation(host, call, unsent)
        except WorkerGone:  # it ended while it was idle, and has not seen the call
            hosts.stop(host)
    raise ToolFailed(f"{order.name}: its processes end before they get a call")


def call_frame(call: Call) -> bytes:
    """A call as a host gets it."""
    return frames.packed(
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
    """One call on one host. `ended` says that the host has finished it and can be used again."""

    __slots__ = ("_busy", "_call", "_silence", "_unsent", "ended", "host")

    def __init__(self, host: WorkerConnection, call: Call, unsent: bytes) -> None:
        self.host = host
        self.ended = False
        self._call = call
        self._unsent = unsent
        self._silence = pauses(call)
        self._busy = False
        host.received = 0

    def run(self) -> Events:
        """The events of the call. Raises what the function raised, ToolFailed, BadFrame, Gone."""
        host = self.host
        if self._unsent:
            yield from self._send(self._unsent)
        while not self.ended:
            try:
                found = host.read(next(self._silence))
            except ToolFailed:  # what it printed last is often why
                yield from self._last_words()
                raise
            if host.printed:
                yield from self._printed()
            if not found:
                if found is None:
                    yield PAUSE
                continue
            for kind, body in found:
                if kind == frames.END or kind == frames.END_AT_ONCE:
                    self._finish()
                    host.seconds = frames.duration_of(body)
                    # What was printed before frames that come all at once was seen by the poll that saw them.
                    if kind == frames.END_AT_ONCE and not host.has_output:
                        return
                elif 10 <= kind & ~frames.SLOW < 20:
                    event = frames.event_of(kind, body)
                    if type(event) is Ask:
                        yield from self._asked(event)
                    elif type(event) is Detach:
                        yield event
                        yield from self._send(frames.packed(frames.ANSWER, self._call.deadline))
                    else:
                        if type(event) is Log:
                            self._note(event)
                        yield event
                else:
                    yield from self._heard(kind, body)
        yield from self._last_words()

    def _last_words(self) -> Iterator[Event]:
        if self.host.take_last_output():
            yield from self._printed()

    def _printed(self) -> Iterator[Event]:
        printed, self.host.printed = self.host.printed, []
        for event in printed:
            self._note(event)
            yield event

    def _note(self, event: Log) -> None:
        """What a tool prints stands in the hub's log too, for those who look for it."""
        if event.logger in PRINTED:
            log.debug("%s printed: %s", self._call.server, event.data)

    def _heard(self, kind: int, body: bytes) -> Events:
        """What is not for the caller."""
        plain = kind & ~frames.SLOW
        if plain == frames.RAISED:
            problem = frames.failure_of(frames.unpacked(kind, body))
            self._finish()
            yield from self._last_words()
            raise problem
        if plain == frames.REQUEST:
            yield from self._requested(frames.unpacked(kind, body))
        elif plain == frames.RETIRE:
            self.host.spent = True
        elif plain == frames.SLOW_START:
            self.host.slow = True
        else:
            raise BadFrame(f"a frame of kind {plain}")

    def _finish(self) -> None:
        self.ended = True
        if self._busy:  # an answer to it is still on its way, which nobody waits for any more
            self.host.spent = True

    def _asked(self, asked: Ask) -> Events:
        for question in asked.questions.values():
            needed = CAPABILITY.get(question.method, question.method)
            if needed not in self._call.capabilities:
                raise MissingCapability({needed: {}})
        answer = yield asked
        yield from self._send(frames.packed(frames.ANSWER, answer))

    def _requested(self, body: Any) -> Events:
        number, method, arguments = parse_request(body)
        if self._busy:
            raise BadFrame("a second wish before the first was granted")
        if method in LONG:
            self._busy = True
            threading.Thread(
                target=self._grant, args=(number, method, arguments), name="hub for a tool", daemon=True
            ).start()
        else:
            yield from self._send(grant(number, method, arguments, self._call))

    def _grant(self, number: int, method: str, arguments: list[Any]) -> None:
        answer = grant(number, method, arguments, self._call)
        self._busy = False
        self.host.write_all(answer)

    def _send(self, data: bytes) -> Events:
        """Write everything, saying Pause while the host does not read."""
        while data := self.host.write(data):
            self.host.wait_for_room(next(self._silence))
            yield PAUSE

    def part(self, hosts: WorkerPool, grace: float) -> None:
        """Give the call up: the function is told, and has some seconds to clean up, then the host ends.

        The caller does not wait for that; the end of the hub does, because all hosts are killed when it is gone.
        What the function wishes while it cleans up is granted on a thread of its own.
        """
        why = "given up" if self._call.cancelled or self._call.left() <= 0 else "lost"
        self.host.warn(grace)
        try:
            threading.Thread(target=self._see_off, args=(hosts, grace, why), name="end of a tool", daemon=False).start()
        except RuntimeError:  # no more threads: it has to end without a farewell
            hosts.stop(self.host, why)

    def _see_off(self, hosts: WorkerPool, grace: float, why: str) -> None:
        until = time.monotonic() + grace
        try:
            while (left := until - time.monotonic()) > 0:
                for kind, body in self.host.read(left) or ():
                    if kind & ~frames.SLOW == frames.REQUEST:
                        number, method, arguments = parse_request(frames.unpacked(kind, body))
                        if method not in LONG:
                            self._grant(number, method, arguments)
        except (ToolFailed, BadFrame):
            pass  # it has ended, or has nothing more to say
        finally:
            hosts.stop(self.host, why)
