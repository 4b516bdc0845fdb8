"""Records one running call: its events and its ending.

Every entry point that runs code records its calls here. MCP does so in `dispatch.py`; any other entry point does

    with services.activity.begin("tools/call", name, server, wire, arguments) as run:
        call.meta = run.calls(descriptor, call)
        for event in server.activate(descriptor, call):
            run.saw(event)
        run.end(Result(0, fold.result()))

Recording a call must cost only a few microseconds; the writer in the background (`recorder.py`) does the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from hashlib import sha256
from types import TracebackType
from typing import Any, Protocol, Self

from patchbay.access.principals import Principal
from patchbay.activation import DISCONNECTED, Call
from patchbay.activity.event_summaries import MAX_EVENTS_PER_CALL, Moment, moment
from patchbay.activity.tracing import Trace
from patchbay.boot.grants import Grants
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import PatchbayError
from patchbay.events import Event, Failed, Pause, Progress
from patchbay.jsonrpc import Failure, Message, Rendered, Result, Sign
from patchbay.messages.callers import LegacySession, TransportInfo
from patchbay.raised.exceptions import Raised
from patchbay.raised.forms import RAISED_KEY, raised_to_json

DIGEST_DIGITS = 16
"""Hexadecimal digits of the digest that stands for the id of a task or session."""

MAX_NAME_CHARACTERS = 512
"""Limit on the characters of a name, and of a client's name, in a record."""

MAX_LOGGED_CHARACTERS = 140
"""Limit on the characters of a name in a line of the log."""

CURRENT_CALL: ContextVar[CallRecording | None] = ContextVar("patchbay_call", default=None)
"""The MCP call that this thread works for."""

_LISTS = {"tools/call": "tools", "prompts/get": "prompts", "resources/read": "resources"}


def digest_of(id: str) -> str:
    """Return the digest of a secret id for records: it shows which ids are equal, and it cannot be used as the id."""
    return sha256(id.encode("utf-8", "replace")).hexdigest()[:DIGEST_DIGITS]


class Recorder(Protocol):
    """The receiver of finished calls."""

    running: set[CallRecording]

    def record_answer(self, run: CallRecording, answer: Mapping[str, Any] | Rendered) -> None:
        """Measure the answer of a call that ends, and keep it if the settings allow that."""
        ...

    def enqueue(self, run: CallRecording) -> None:
        """Queue a finished call."""
        ...


class CallRecording:
    """The recording of one running call. One thread at a time may use it.

    As a context manager: leaving the block without an ending counts as cancelled, or as an error after an exception.
    Times are `time.monotonic()` times, except `at`, which is Unix time.
    """

    # Defaults of the class: most calls change few of them, and setting each takes time.
    session: LegacySession | None = None
    client: Any = None
    revision = ""
    descriptor: Descriptor | None = None
    trace: Trace | None = None
    deadline = float("inf")
    arguments: bytes | None = None
    answer: bytes | None = None
    arguments_digest: bytes | None = None
    answer_digest: bytes | None = None
    sender: Principal | None = None
    grants: Grants | None = None
    first = 0.0
    ended = 0.0
    events = 0
    progress = 0
    moments: list[Moment] | None = None
    sent = 0
    size = 0
    outcome = ""
    code: int | None = None
    task: str | None = None
    approval = ""
    reason = ""
    """Why a cancelled call ended."""

    script_run = ""
    script_place: tuple[int, ...] = ()
    """The line, the number and the depth of a call of a script; empty for any other call."""

    raised: Raised = ()
    _call: Call | None = None

    def __init__(self, recorder: Recorder, method: str, name: str, server: Server, wire: TransportInfo) -> None:
        self._recorder = recorder
        self.method = method
        self.name = name
        self.server = server
        # Not the wire itself: it holds the whole request, and thousands of finished calls may wait in the queue.
        self.way = wire.way or ("in process" if wire.headers is None else "http")
        self.endpoint = wire.endpoint
        self.principal = wire.principal
        self.connection = wire.connection
        self.at = time.time()
        self.begun = time.monotonic()

    def calls(self, descriptor: Descriptor | None, call: Call) -> Mapping[str, Any]:
        """Note the descriptor and the deadline; return the `_meta` for the call, with the trace context of its span."""
        self.descriptor = descriptor
        self.deadline = call.deadline
        self._call = call
        return call.meta if self.trace is None else self.trace.handed_on(call.meta)

    def note_refused(self) -> None:
        """Note that the call does not begin after all."""
        self.deadline = float("inf")

    @property
    def has_begun(self) -> bool:
        """Whether the call began: nothing refused it."""
        return self.deadline != float("inf")

    @property
    def called(self) -> Descriptor | None:
        """The called descriptor, also of a call that did not begin; None if the server does not list it."""
        if self.descriptor is not None:
            return self.descriptor if self._is_listed(self.descriptor) else None
        found = _LISTS.get(self.method)
        return getattr(self.server, found).get(self.name) if found else None

    @property
    def recorded_name(self) -> str:
        """Return the name in records: that of the called descriptor, or the one that the caller gave."""
        descriptor = self.called
        return (descriptor.name if descriptor is not None else self.name)[:MAX_NAME_CHARACTERS]

    def _is_listed(self, descriptor: Descriptor) -> bool:
        """Whether the server lists the called descriptor. A mounted server may have resources that it does not list;
        their
        URIs come from the caller.
        """
        if descriptor.kind != "resource":
            return True
        return descriptor.name in self.server.resources or descriptor.name in self.server.skill_files

    @property
    def present_run(self) -> str:
        """The id of the run of a script that a running call belongs to; "" without one."""
        return self.script_run if self._call is None else self._call.run

    def saw(self, event: Event) -> None:
        """Record one event of the activation."""
        kind = type(event)
        if kind is Pause:
            return
        now = time.monotonic()
        if self.moments is None:
            self.first = now
            self.moments = []
        if self.events < MAX_EVENTS_PER_CALL:
            self.moments.append(moment(now, event))
        self.events += 1
        if kind is Progress:
            self.progress += 1
        elif isinstance(event, Failed):
            self.raised = event.raised

    def end(self, answer: Result | Failure | None) -> None:
        """Record the ending: a result, an error, or None for a cancelled call. A second ending changes nothing."""
        if self.ended:
            return
        self.ended = time.monotonic()
        flag = self._call.cancelled if self._call is not None else None
        if self._call is not None:
            # Not the call itself: thousands of finished calls may wait in the queue.
            # Its deadline may have moved with progress or with a wait for a person.
            self.deadline = max(self.deadline, self._call.deadline)
            self.approval, self.script_run, self._call = self._call.approval, self._call.run, None
        late = self.ended >= self.deadline
        if answer is None:
            self.outcome = "cancelled"
            self.reason = (flag.reason if flag is not None else None) or DISCONNECTED
        elif type(answer) is Failure:
            self.outcome, self.code = "timeout" if late else "error", answer.error.get("code")
            self._recorder.record_answer(self, answer.error)
        elif type(answer) is Result:
            result = answer.result
            self.outcome = _outcome(result, late)
            if self.outcome == "task" and type(result) is dict and "taskId" in result:
                self.task = digest_of(str(result["taskId"]))
                result = {**result, "taskId": self.task}
            self._recorder.record_answer(self, result)
        if self.trace is not None:
            self.trace.end(self.outcome, self.code, answer.error.get("message") if type(answer) is Failure else None)
        self._recorder.enqueue(self)

    def watch(
        self, answers: Generator[Message | Sign, None, None], shows_raised: Callable[[], bool]
    ) -> Iterator[Message | Sign]:
        """Yield the answers to a request; the last one is the ending of the call.

        `shows_raised` says whether the caller is the operator, who gets what the author's code raised. The record has
        the answer of every other caller.
        """
        running = self._recorder.running
        running.add(self)
        try:
            while True:
                before = CURRENT_CALL.set(self)  # lines that are logged meanwhile name this call
                try:
                    answer = next(answers, None)
                finally:
                    CURRENT_CALL.reset(before)
                if answer is None:
                    return
                if type(answer) is Result or type(answer) is Failure:
                    self.end(answer)
                    if self.raised and shows_raised():
                        answer = with_raised(answer, self.raised)
                yield answer
        finally:
            answers.close()
            running.discard(self)
            self.end(None)

    def describe(self) -> dict[str, Any]:
        """Return what finds the record of this call: its method, server, name, time, and trace if it has one."""
        described = {
            "method": self.method,
            "server": self.server.name,
            "name": self.recorded_name[:MAX_LOGGED_CHARACTERS],
        }
        trace = self.trace.id if self.trace is not None else None
        return {**described, "at": self.at} | ({"trace": trace} if trace is not None else {})

    def __enter__(self) -> Self:
        self._recorder.running.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.running.discard(self)
        if self.ended:
            return
        if isinstance(problem, PatchbayError):
            self.end(Failure(0, {"code": problem.code, "message": problem.message}))
        elif isinstance(problem, Exception):
            self.end(Failure(0, {"code": PatchbayError.code, "message": "internal error"}))
        else:
            self.end(None)


def with_raised(answer: Result | Failure, raised: Raised) -> Result | Failure:
    """Return an answer with what the author's code raised: in `_meta` of a result, in `data` of an error."""
    shown = {RAISED_KEY: raised_to_json(raised)}
    if isinstance(answer, Failure):
        data = answer.error.get("data")
        more = data if isinstance(data, dict) else {} if data is None else {"data": data}
        return replace(answer, error={**answer.error, "data": {**more, **shown}})
    if isinstance(answer.result, Rendered):
        return answer
    return replace(answer, result={**answer.result, "_meta": {**answer.result.get("_meta", {}), **shown}})


def _outcome(result: Mapping[str, Any] | Rendered, late: bool) -> str:
    if isinstance(result, Rendered):
        return "ok"
    if result.get("isError"):
        return "timeout" if late else "tool_error"
    kind = result.get("resultType", "complete")
    return kind if kind in ("input_required", "task") else "ok"
