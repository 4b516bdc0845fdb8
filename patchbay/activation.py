"""Handlers, which run tools, and `activate`, which runs one call of a handler.

A handler only yields events, returns or raises. `activate` alone adds the single ending, the deadline and the
cancellation. A handler that waits yields a Pause a quarter of a second after the start and then at least every two
seconds, so that `activate` can check the deadline and the cancellation.

Grammar: (Text | Content | Data | Progress | Log | ToolUse | Ask | Detach | Pause)*  (Done | Failed)
"""

from __future__ import annotations

import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from patchbay.errors import (
    MissingCapability,
    PatchbayError,
    ProtocolError,
    ResourceNotFound,
    TimedOut,
    ToolFailed,
    WrongArguments,
)
from patchbay.events import Done, Event, Failed, Mailbox, Pause, Progress
from patchbay.raised.exceptions import Raised, attach_raised, raised_of
from patchbay.raised.forms import format_raised

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.25
"""Seconds without an event after which a handler yields its first Pause. The transport then chooses a stream."""

CANCEL_CHECK_SECONDS = 0.2
"""Seconds after which a handler that waits for its tool sees that the call was cancelled."""

NEXT_PAUSE = 2.0
"""Seconds without an event between later Pauses."""


CREDENTIALS_ENDED = "the credentials of the caller are no longer valid"
"""The reason of a cancellation by the hub."""

TASKS = "io.modelcontextprotocol/tasks"
"""The id of the extension for tasks in the capabilities of a client (MCP specification, extension tasks)."""

DISCONNECTED = "the caller disconnected"
"""The reason of a cancellation by the end of a connection."""


class Stopping(PatchbayError):
    """The hub stops, and the call did not end within the time for running calls."""


WIRED = (MissingCapability, ProtocolError, ResourceNotFound, Stopping, WrongArguments)
"""Failures that may become a JSON-RPC error instead of a result; ResourceNotFound only in answers to resources/read."""


class Memory(MutableMapping[str, Any]):
    """JSON values under string keys, in the store. Each change is atomic for all other calls."""

    @abstractmethod
    def starting(self, prefix: str) -> list[str]:
        """Return the keys that begin with `prefix`, sorted, without reading their values."""

    @abstractmethod
    def several(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values of the given keys that exist."""

    @abstractmethod
    def swap(self, changes: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
        """Set all keys in `changes` (None removes a key) if each key in `expected` still has its value (None: absent).

        Returns False and changes nothing when a value differs. To avoid a lost update, read, compute and call `swap`
        again until it returns True. Raises ToolFailed for a value without a JSON form.
        """


class Closing(Protocol):
    """An object that outlives a call. The hub closes it when the hub stops."""

    def close(self) -> None: ...


class Hub(Protocol):
    """The services of the hub for a running tool."""

    def read(self, uri: str, call: Call) -> dict[str, Any]:
        """Return a resource's content (`uri`, `mimeType`, `text` or `blob`). Raises ResourceNotFound, ToolFailed."""
        ...

    def call(self, server: str, tool: str, arguments: dict[str, Any], call: Call) -> dict[str, Any]:
        """Call a tool of another server; return its result (`content`, `structuredContent`, `isError`)."""
        ...

    def pass_on(self, entry: Any, arguments: dict[str, Any], call: Call) -> Events:
        """Return the events of the origin of an entry of a toolset (its descriptor), for a call of that entry.

        Raises ToolFailed when the origin cannot be called.
        """
        ...

    def pass_on_reading(self, entry: Any, uri: str, call: Call) -> Events:
        """Return the events of the origin of a resource, template or prompt of a toolset (its descriptor).

        `uri` is what is read, "" for a prompt. Raises ToolFailed, ResourceNotFound and InvalidParams.
        """
        ...

    def run_saved_script(self, server: Any, script: Any, arguments: dict[str, Any], call: Call) -> Events:
        """Return the events of a script that is a tool of a toolset; the script calls tools of `server`.

        `server` is the toolset, `script` a `patchbay.python_functions.script_function.ScriptFunction`. Raises
        ToolFailed.
        """
        ...

    def configured(self, kind: str, call: Call) -> dict[str, str]:
        """Return by name the texts of all `variables`, or the definitions of all enabled `servers`.

        They are those that the caller of the tool may see.
        """
        ...

    def changed(self, server: str, kind: str) -> None:
        """Report that a server's `tools`, `resources` or `prompts` may have changed: its transforms run again."""
        ...

    def updated(self, server: str, uri: str) -> None:
        """Report that the content of a resource changed."""
        ...

    def emit(self, server: str, event: str, data: Mapping[str, Any], id: str) -> str:
        """Emit an event of a type that the server declares; return its id. Raises ToolFailed."""
        ...

    def missed(self, server: str, event: str) -> None:
        """Tell subscribers that events of this type may be missing. Raises ToolFailed."""
        ...

    def start(self, function: str, arguments: dict[str, Any], call: Call) -> None:
        """Run a function of the calling definition in the background. Raises ToolFailed."""
        ...

    def state(self, server: str, call: Call | None = None) -> Memory:
        """Return the key-value state of a server; its changes count for the caller of `call`, and raise OverQuota."""
        ...

    def over(self) -> bool:
        """Whether the hub stops and the time for running calls is over."""
        ...

    def is_current(self, sender: Any) -> bool:
        """Whether the credentials of the sender of a call are still valid."""
        ...

    def may_use(self, sender: Any, server: str) -> bool:
        """Whether the credentials of the sender of a call are still valid, and its rights show a server."""
        ...

    def folder(self, server: str) -> Path:
        """Return the folder for the files of a server. The folder may not exist yet."""
        ...

    def kept(self, server: str, make: Callable[[], Closing]) -> Any:
        """Return the object that `make` creates at the first call for this server in this process.

        The hub closes the object when the hub stops.
        """
        ...


class Cancelled(ToolFailed):
    """The call was cancelled, by its caller or by the hub."""


class CancelFlag:
    """A flag that any thread can set once, with a reason. Setting it wakes the threads that wait for it.

    `outlives_caller` says that its call goes on as a task when its caller disconnects; `by_hub` that the hub ended the
    call, so that its caller gets an answer; `is_by_caller` that its caller asked for the end of the call, which a
    connection that ended does not.
    """

    __slots__ = ("_event", "by_hub", "is_by_caller", "outlives_caller", "reason")

    def __init__(self) -> None:
        self._event: threading.Event | None = None
        self.by_hub = False
        self.outlives_caller = False
        self.is_by_caller = False
        self.reason: str | None = None

    def set(self, reason: str = "cancelled", is_by_caller: bool = False) -> None:
        self.is_by_caller |= is_by_caller
        self.reason = self.reason or reason
        if self._event is not None:
            self._event.set()

    def end(self, reason: str) -> None:
        """Set the flag because the hub ends the call. The answer to the caller has the reason."""
        if self.reason is None:
            self.by_hub = True
        self.set(reason)

    @property
    def is_unanswered(self) -> bool:
        """Whether the caller cancelled the call or disconnected, and so gets no answer."""
        return self.reason is not None and not self.by_hub

    def describe(self) -> str:
        """Return why the call ended, for its caller."""
        return f"the hub ended this call: {self.reason}" if self.by_hub else f"cancelled: {self.reason}"

    def leave(self) -> None:
        """Set the flag because the caller has disconnected."""
        if not self.outlives_caller:
            self.set(DISCONNECTED)

    def __bool__(self) -> bool:
        return self.reason is not None

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the flag; return whether it is set."""
        if self._event is None:
            self._event = threading.Event()
            if self.reason is not None:
                self._event.set()
        return self._event.wait(timeout)


def find_no_header(name: str) -> None:
    """Find no header: the caller sent no HTTP request."""


@dataclass(slots=True)
class Call:
    """One request to run a target: its arguments, its limits, and the caller.

    `target` comes from the descriptor (`{"function": "main"}`, `{"argv": [...]}`); `deadline` is a `time.monotonic()`
    time; `principal` is the id of the caller, and `sender` the caller itself, whose rights count for everything that
    the call reads and calls in turn (None: the hub's own work, without limits); `capabilities` is the
    ClientCapabilities object of the caller; `chain` names the tools that called each other up to this call;
    `is_repeated` is set when the call ends with questions, and its caller repeats it with the answers; `answered` has
    the keys of the questions that a repeated call brings answers to; `approval` is the id of the approval that the call
    uses, "" for one that asks if it needs one; `client` names the client among those of its principal: its session, its
    connection, or its own name, "" if unknown; `session` is its session or its connection, "" without one;
    `find_base_url` returns the URL by which the caller reached the hub, "" if unknown; `find_header` returns a header
    of the caller's request by its name in lower case, None without one or without HTTP; `shown` names the tool of a
    toolset (`server.tool`) that the caller called instead of this target, "" for any other call; `run` is the id of the
    run of a script that the call belongs to, "" without one, and `run_depth` the number of its runs inside each other
    that lead to the call; `resumes` is the id of the suspended run that the hub goes on with; `can_wait` says that the
    run of a script to which the call belongs can wait for a person, so that the call may end with a question;
    `asks_on_page` says that the page of the run shows the questions, which the client of its caller does not. Each
    progress moves the deadline to `progress_seconds` later, by `extra_seconds` in all; `has_progress` says that it did.
    """

    server: str
    target: Mapping[str, Any]
    arguments: dict[str, Any]
    deadline: float
    hub: Hub | None = None
    principal: str = "local"
    sender: Any = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    log_level: str | None = None
    progress_token: str | int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    cancelled: CancelFlag = field(default_factory=CancelFlag)
    is_repeated: bool = False
    approval: str = ""
    client: str = ""
    session: str = ""
    find_base_url: Callable[[], str] = str
    find_header: Callable[[str], str | None] = find_no_header
    progress_seconds: float = 0.0
    extra_seconds: float = 0.0
    has_progress: bool = False
    shown: str = ""
    run: str = ""
    run_depth: int = 0
    resumes: str = ""
    answered: frozenset[str] = frozenset()
    can_wait: bool = False
    asks_on_page: bool = False

    def for_script(
        self,
        cancelled: CancelFlag,
        deadline: float,
        approval: str,
        capabilities: Mapping[str, Any],
        can_wait: bool,
        asks_on_page: bool,
    ) -> Call:
        """Return this call of a script as the caller of one of its calls, with a flag and a deadline of its own.

        `approval` is that of the call, "" without one; `capabilities` allow the questions that its tool may ask;
        `can_wait` says whether the run can wait for a person, and `asks_on_page` whether its page shows the questions.
        """
        deadline = min(self.deadline, deadline)
        limits: dict[str, Any] = {"cancelled": cancelled, "deadline": deadline, "capabilities": capabilities}
        return self.changed(**limits, approval=approval, resumes="", can_wait=can_wait, asks_on_page=asks_on_page)

    def changed(self, **values: Any) -> Call:
        """Return a copy of this call with other values of these fields.

        Four times as quick as `dataclasses.replace`, which a call through a toolset or of a script would pay each time.
        """
        copied = Call(*_values_of(self))
        for name, value in values.items():
            setattr(copied, name, value)
        return copied

    def find_continuing(self) -> Callable[[], bool]:
        """Return what says later whether the caller may still use the server. It does not keep the call.

        Through a toolset, only the credentials of the caller count: it needs no right to the server behind it.
        """
        hub, sender, server = self.hub, self.sender, self.server
        if hub is None or sender is None:
            return lambda: True
        return partial(hub.is_current, sender) if self.shown else partial(hub.may_use, sender, server)

    def left(self) -> float:
        """Return the seconds until the deadline, never negative."""
        return max(0.0, self.deadline - time.monotonic())

    def note_progress(self) -> None:
        """Give a call that reports progress its limit without progress again, within its limit in all.

        Source: MCP specification 2025-11-25, basic/lifecycle, timeouts.
        """
        added = min(self.extra_seconds, time.monotonic() + self.progress_seconds - self.deadline)
        if added > 0:
            self.deadline += added
            self.extra_seconds -= added
            self.has_progress = True

    def end_by(self, deadline: float) -> None:
        """Let the call end no later than a `time.monotonic()` time, also with progress."""
        self.deadline = min(self.deadline, deadline)
        self.extra_seconds = max(0.0, min(self.extra_seconds, deadline - self.deadline))

    def ends_with_credentials(self) -> bool:
        """Whether the call is cancelled; it is so from the end of its sender's credentials on."""
        is_valid = self.sender is None or self.hub is None or self.hub.is_current(self.sender)
        if not is_valid:
            self.cancelled.end(CREDENTIALS_ENDED)
        return bool(self.cancelled)


_values_of = attrgetter(*(one.name for one in fields(Call)))


class CallPlace(Protocol):
    """A call that is counted until `release`. It begins after `delay` seconds."""

    delay: float

    def while_waiting(self, mailbox: Mailbox) -> Mailbox:
        """Return the mailbox of a Pause of this call; its reader leaves the thread of the call while it waits."""
        ...

    def release(self) -> None: ...


Events = Generator[Event, Any, None]
Handler = Callable[[Call], Events]
"""Returns the events of a call. What it raises is the failure of the call, like what its events raise."""

Conceal = Callable[[PatchbayError, Call], str]
"""Returns what the caller of a call learns of a failure in place of its message; empty for the message itself."""


def activate(
    handler: Handler, call: Call, mask: bool = False, conceal: Conceal | None = None, is_inner: bool = False
) -> Events:
    """Run a handler: yield its events, then exactly one Done or Failed.

    Send the answers to an Ask into this generator; the handler receives them. Closing this generator before its ending
    cancels the call.
    `mask` hides the message of every exception that is not a PatchbayError, and `conceal` that of some that are.
    `is_inner` says that another activation yields these events and checks the same limits after each of them.
    """
    started = time.monotonic()
    events: Events | None = None
    answer: Any = None
    highest = float("-inf")
    has_ended = False
    try:
        events = handler(call)
        while True:
            event = events.send(answer) if answer is not None else next(events)
            answer, kind = None, type(event)
            if kind is Done or kind is Failed:
                has_ended = True
                yield event if conceal is None else _concealed(event, call, conceal)
                return
            if isinstance(event, Progress):
                if event.progress <= highest:
                    continue
                highest = event.progress
                if call.extra_seconds:
                    call.note_progress()
            is_pause = kind is Pause
            if is_pause:
                _check_limits(call, started)
            answer = yield event
            if not (is_pause or is_inner):
                # Check after the yield, so that the last event before the deadline still reaches the caller.
                _check_limits(call, started)
    except StopIteration:
        yield Done()
    except GeneratorExit:
        if not has_ended:
            call.cancelled.set(DISCONNECTED)
        raise
    except Cancelled as problem:
        yield Failed(problem.message)
    except PatchbayError as problem:
        raised = _log_raised(call, problem)
        message = (conceal(problem, call) if conceal is not None else "") or problem.message
        if call.cancelled.by_hub:  # a connection that was closed for this is no failure of its own
            yield Failed(call.cancelled.describe(), raised=raised)
            return
        yield Failed(message, problem if isinstance(problem, WIRED) else None, raised=raised)
    except Exception as problem:
        raised = _log_raised(call, problem)
        if not raised:
            log.info("tool of %s raised", call.server, exc_info=problem)
        yield Failed("the tool failed" if mask else described(problem), raised=raised)
    finally:
        if events is not None:
            events.close()


def without_tasks(capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the capabilities of a client without tasks, for a call whose result the hub has to see."""
    if not has_tasks(capabilities):
        return capabilities
    kept = {name: one for name, one in capabilities["extensions"].items() if name != TASKS}
    return {**capabilities, "extensions": kept}


def has_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client declares the extension for tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and TASKS in extensions


def share_time_limits(outer: Call, inner: Call, events: Events) -> Events:
    """Yield the events of an inner call, which has the time limits of the outer call: a change holds for both.

    The reader of an event may give the outer call more time, as for a task; the handler of the inner one may do so
    while it waits for a person.
    """
    answer: Any = None
    try:
        while True:
            event = events.send(answer)
            outer.deadline, outer.extra_seconds = inner.deadline, inner.extra_seconds
            outer.has_progress = inner.has_progress
            answer = yield event
            inner.deadline, inner.extra_seconds = outer.deadline, outer.extra_seconds
            inner.has_progress = outer.has_progress
    except StopIteration:
        return
    finally:
        events.close()


def _concealed(ending: Event, call: Call, conceal: Conceal) -> Event:
    """Return an ending, or a failure in other words where its error is concealed."""
    if isinstance(ending, Failed) and isinstance(ending.error, PatchbayError):
        message = conceal(ending.error, call)
        return Failed(message) if message else ending
    return ending


def _log_raised(call: Call, problem: Exception) -> Raised:
    """Log once what the author's code raised, with its frames alone; return it."""
    raised = raised_of(problem)
    if raised:
        log.info("tool of %s raised %s", call.server, "\n".join(format_raised(raised)))
    return raised


def _check_limits(call: Call, started: float) -> None:
    now = time.monotonic()
    # A call that began lately has credentials that were checked lately.
    if call.cancelled or (now - started >= FIRST_PAUSE_SECONDS and call.ends_with_credentials()):
        raise Cancelled(call.cancelled.describe())
    if now >= call.deadline:
        raise TimedOut(f"timed out after {now - started:.1f} s{_explain_timeout(call)}")
    if call.hub is not None and call.hub.over():
        raise Stopping(f"the hub is stopping; it cancelled the call after {now - started:.1f} s")


def _explain_timeout(call: Call) -> str:
    """Return the end of a sentence that says which limit a call with progress reached; empty for any other call."""
    if not call.has_progress:
        return ""
    if call.extra_seconds:
        return f": it reported no progress for {call.progress_seconds:g} s"
    return ": it reported progress until its limit in all (progress_timeout)"


def described(problem: BaseException) -> str:
    """Return the type and the message of an exception, without its traceback."""
    text = message_of(problem)
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def ended_itself(problem: BaseException) -> ToolFailed:
    """Return the failure of a tool that raised an exception which would end the process, such as SystemExit."""
    failure = ToolFailed(f"the tool ended itself: {described(problem)}")
    attach_raised(failure, raised_of(problem))
    return failure


def message_of(problem: BaseException) -> str:
    """Return the message of an exception; an empty string when its own `__str__` fails."""
    try:
        return problem.message if isinstance(problem, PatchbayError) else str(problem)
    except Exception:
        return ""


def pauses(call: Call) -> Generator[float, None, None]:
    """Yield the seconds that a waiting handler may wait before its next Pause; the deadline shortens them."""
    wait = FIRST_PAUSE_SECONDS
    while True:
        yield max(0.001, min(wait, call.left()))
        wait = NEXT_PAUSE


def slices(call: Call, seconds: float) -> Generator[float, None, None]:
    """Yield the seconds of waits that make up `seconds` together, and end early when the call is cancelled.

    For a handler whose wait no cancellation wakes.
    """
    until = time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        yield max(0.001, min(left, CANCEL_CHECK_SECONDS))
        if call.cancelled or time.monotonic() >= until:
            return


def pauses_for(call: Call, mailbox: Mailbox) -> Generator[Pause, None, None]:
    """Wait for a mailbox, then give the Pause to yield if it has nothing yet; without end.

    The reader of that Pause may leave the thread until the mailbox has a message.
    """
    waits = pauses(call)
    until = time.monotonic() + next(waits)
    while True:
        mailbox.wait(max(0.0, until - time.monotonic()))
        until = time.monotonic() + next(waits)
        yield Pause(mailbox, until)


PAUSE = Pause()
