"""Direct calls of a program: the caller's own thread writes the request and reads the answer.

The official client passes every request between threads and tasks, which takes longer than a call of a small program.
So a plain request is written from the calling thread, with the same content as the official session would send, and
the thread reads the output until its answer arrives (`output_pipe.py`). Answers for other requests that it reads go to
their threads. Every other line (a notification, a question, an error, noise) is read on the event loop, by the same
rules as without direct calls.

Source: MCP specification, basic/transports, stdio.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable

from mcp import ClientSession

from patchbay.client.connection.message_streams import MessageRouter
from patchbay.client.connection.programs.stdio import ChildProcess
from patchbay.client.connection.requests import Json, RequestEnd, RequestRun, encode_request
from patchbay.errors import PatchbayError
from patchbay.jsonrpc import load_json

FIRST_ID = 2**30
"""The first id of direct requests; those of the official session begin at zero, and many programs expect numbers."""


class DirectCall:
    """One request of a thread: `id` is its id in the message."""

    def __init__(self, id: int, run: RequestRun, calls: DirectCalls) -> None:
        self.id = id
        self._run, self._calls = run, calls
        self._has_turn = False

    def take_turn(self) -> None:
        """Take the turn before the request is written, so that the event loop does not wake for the answer."""
        self._has_turn = self._calls.output.try_take()

    def close(self) -> None:
        """Give the turn back, if the thread has it."""
        if self._has_turn:
            self._has_turn = False
            self._calls.output.give_back()

    def leave(self) -> None:
        """Note that the event loop will tell the program that the caller has left."""
        self._calls.unsent.add(self.id)

    def wait(self, seconds: float | None) -> None:
        """Wait until the request has an item or its end, up to `seconds`; read the output unless another one does."""
        end = None if seconds is None else time.monotonic() + seconds
        run, output = self._run, self._calls.output
        try:
            while not run.has_news:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return
                if self._has_turn or output.try_take():
                    self._has_turn = self._calls.read(left)
                else:
                    run.sleep(left)
        finally:
            self.close()


class DirectCalls:
    """Direct calls of one program, in a session that has agreed on a revision."""

    def __init__(self, child: ChildProcess, session: ClientSession, router: MessageRouter) -> None:
        self.output = child.output
        self._inlet, self._session, self._router = child.inlet, session, router
        child.take_answer = self._take_answer
        self._ids = itertools.count(FIRST_ID)
        self._is_closed = not self.output.is_shared
        self.unsent: set[object] = set()
        """Messages that the event loop has to write before a later request."""

    def send(self, run: RequestRun, method: str, params: Json) -> bool:
        """Send a request; its run reads the answer. False when the official client has to send it.

        That is so for a time limit, which the event loop keeps, for a request that may come back with questions, and
        while the program does not read its input. It is so too while the event loop has to write an answer or a
        cancellation: a program that waits for it would take the request in its place.
        """
        if run.seconds not in (None, math.inf) or (self._router.modern and not run.manual_input):
            return False
        if self.unsent or self._router.questions.count:
            return False
        call = DirectCall(next(self._ids), run, self)
        line = self._build_line(call.id, run, method, params)
        self._router.register(run, call.id)
        if not self._is_closed:  # checked after the registration: `close` ends registered requests
            call.take_turn()
            run.exchange = run.reader = call
            if self._inlet.try_write(line):
                return True
            call.close()
        run.exchange = run.reader = None
        self._router.unregister(run)
        return False

    def _build_line(self, id: int, run: RequestRun, method: str, params: Json) -> bytes:
        """Build the request that the official session would send: its stamp adds the fields of its revision."""
        return encode_request(id, run, method, params, self._session._stamp)[0] + b"\n"

    def read(self, seconds: float | None) -> bool:
        """Read once, and end the requests that are answered; return whether this thread still has the turn."""
        lines = self.output.read_lines(seconds)
        for number, line in enumerate(lines):
            if not self._take_answer(line):
                self.output.pass_to_loop(lines[number:])
                return False
        if self.output.has_ended:
            self.output.pass_to_loop(())
        return not self.output.has_ended

    def _take_answer(self, line: bytes) -> bool:
        """End the request that a line answers; False for any other line."""
        try:
            message = load_json(line)
        except ValueError:
            return False
        if type(message) is not dict or message.get("jsonrpc") != "2.0" or "method" in message or "error" in message:
            return False
        id, result = message.get("id"), message.get("result")
        run = self._router.runs.get(id) if type(id) is int else None
        if run is None or run.reader is None or type(result) is not dict:
            return False
        self._router.heard_at = time.monotonic()
        self._router.unregister(run)
        run.finish(RequestEnd(result))
        return True

    def close(self, describe_loss: Callable[[RequestRun], PatchbayError]) -> None:
        """End all requests, because the connection ends; on the event loop."""
        self._is_closed = True
        for run in [*self._router.runs.values()]:
            if run.reader is not None:
                self._router.unregister(run)
                run.finish(RequestEnd(problem=describe_loss(run)))
