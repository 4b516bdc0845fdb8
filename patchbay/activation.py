"""What a tool is (a Handler), and how one run of it is made trustworthy.

A handler is naive: it yields events, returns or raises. `activate` alone adds the one ending,
the deadline and the cancellation. A handler that waits has to say Pause now and then (a quarter
of a second after the start, then at least every two seconds), so that both can be noticed.

Grammar: (Text | Content | Data | Progress | Log | ToolUse | Ask | Detach | Pause)*  (Done | Failed)
Sources: DESIGN sections 1 and 6; REQUIREMENTS SUB-C6, T12.5, X-15, X-19.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
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
from patchbay.events import Done, Event, Failed, Pause, Progress

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.25
"""Seconds of silence after which a handler says Pause for the first time: the moment to choose a stream."""

NEXT_PAUSE = 2.0
"""Seconds of silence between later Pauses."""


class Stopping(PatchbayError):
    """The hub ends, and the call has had the time that was left to it."""


WIRED = (MissingCapability, ProtocolError, ResourceNotFound, Stopping, WrongArguments)
"""Failures that may be a JSON-RPC error instead of a result; a missing resource only where one is read."""


class Memory(MutableMapping[str, Any]):
    """JSON values under string keys, kept in the store. What a call does at once, all other calls see at once."""

    @abstractmethod
    def starting(self, prefix: str) -> list[str]:
        """The keys that begin with a text, sorted; their values are not read."""

    @abstractmethod
    def several(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values of those keys that are there."""

    @abstractmethod
    def swap(self, changes: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
        """Set all these keys (None takes one away) if each expected one still has its value (None: is not there).

        False, and nothing is changed, when one has another. Whoever reads, computes and swaps again until it works
        never loses what another call did meanwhile. Raises ToolFailed for what JSON cannot say.
        """


class Closing(Protocol):
    """What lasts longer than a call: it is closed when the hub ends."""

    def close(self) -> None: ...


class Hub(Protocol):
    """What a running tool may ask of the hub it runs in."""

    def read(self, uri: str, call: Call) -> dict[str, Any]:
        """One MCP resource content (`uri`, `mimeType`, `text` or `blob`). Raises ResourceNotFound, ToolFailed."""
        ...

    def call(self, server: str, tool: str, arguments: dict[str, Any], call: Call) -> dict[str, Any]:
        """A tool result (`content`, `structuredContent`, `isError`) of another server's tool."""
        ...

    def configured(self, kind: str) -> dict[str, str]:
        """The texts of all `variables`, or the definitions of all `servers` that are switched on, by name."""
        ...

    def changed(self, server: str, kind: str) -> None:
        """Say that a server's `tools`, `resources` or `prompts` may have changed: its transforms run again."""
        ...

    def updated(self, server: str, uri: str) -> None:
        """Say that the content of a resource changed."""
        ...

    def start(self, function: str, arguments: dict[str, Any], call: Call) -> None:
        """Run a function of the calling definition by itself: nobody waits for it. Raises ToolFailed."""
        ...

    def state(self, server: str) -> Memory:
        """A server's own small memory."""
        ...

    def over(self) -> bool:
        """Whether the hub ends and has no more time for what still runs."""
        ...

    def folder(self, server: str) -> Path:
        """The folder for files of a server's own; it need not be there yet."""
        ...

    def kept(self, server: str, make: Callable[[], Closing]) -> Any:
        """What `make` gave the first time this server asked in this process; closed when the hub ends."""
        ...


class Cancelled(ToolFailed):
    """The caller no longer wants the answer."""


class CancelFlag:
    """Set once, from any thread; whoever waits for it wakes up."""

    __slots__ = ("_event", "reason")

    def __init__(self) -> None:
        self._event: threading.Event | None = None
        self.reason: str | None = None

    def set(self, reason: str = "cancelled") -> None:
        self.reason = self.reason or reason
        if self._event is not None:
            self._event.set()

    def __bool__(self) -> bool:
        return self.reason is not None

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; whether it is set."""
        if self._event is None:
            self._event = threading.Event()
            if self.reason is not None:
                self._event.set()
        return self._event.wait(timeout)


@dataclass(slots=True)
class Call:
    """One request to run something: target, arguments, limits, and who asks.

    `target` is the descriptor's own (`{"function": "main"}`, `{"argv": [...]}`); `deadline` is a
    `time.monotonic()` moment; `capabilities` is the ClientCapabilities object of the caller;
    `depth` counts how many tools called each other to get here.
    """

    server: str
    target: Mapping[str, Any]
    arguments: dict[str, Any]
    deadline: float
    hub: Hub | None = None
    principal: str = "local"
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    log_level: str | None = None
    progress_token: str | int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    cancelled: CancelFlag = field(default_factory=CancelFlag)

    def left(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self.deadline - time.monotonic())


Events = Generator[Event, Any, None]
Handler = Callable[[Call], Events]


def activate(handler: Handler, call: Call, mask: bool = False) -> Events:
    """Run a handler: its events, then exactly one Done or Failed.

    An answer sent in reply to an Ask reaches the handler. Closing this generator cancels the call.
    `mask` hides the message of an exception that the tool did not mean for the caller.
    """
    begun = time.monotonic()
    events = handler(call)
    answer: Any = None
    highest = float("-inf")
    try:
        while True:
            event = events.send(answer) if answer is not None else next(events)
            answer, kind = None, type(event)
            if kind is Done or kind is Failed:
                yield event
                return
            if isinstance(event, Progress):
                if event.progress <= highest:
                    continue
                highest = event.progress
            silent = kind is Pause
            if silent:
                _check(call, begun)
            answer = yield event
            if not silent:
                # Only now, so that what the tool had to say when its time was over is kept.
                _check(call, begun)
    except StopIteration:
        yield Done()
    except GeneratorExit:
        call.cancelled.set("the caller went away")
        raise
    except Cancelled as problem:
        yield Failed(problem.message)
    except PatchbayError as problem:
        yield Failed(problem.message, problem if isinstance(problem, WIRED) else None)
    except Exception as problem:
        log.info("tool of %s raised", call.server, exc_info=problem)
        yield Failed("the tool failed" if mask else described(problem))
    finally:
        events.close()


def _check(call: Call, begun: float) -> None:
    if call.cancelled:
        raise Cancelled(f"cancelled: {call.cancelled.reason}")
    now = time.monotonic()
    if now >= call.deadline:
        raise TimedOut(f"timed out after {now - begun:.1f} s")
    if call.hub is not None and call.hub.over():
        raise Stopping(f"the hub is stopping; the call was given up after {now - begun:.1f} s")


def described(problem: BaseException) -> str:
    """An exception as its type and message, never its trace (T5.5)."""
    text = message_of(problem)
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def message_of(problem: BaseException) -> str:
    """What an exception says; nothing for one of an author's own that fails to say it."""
    try:
        return str(problem)
    except Exception:
        return ""


def pauses(call: Call) -> Generator[float, None, None]:
    """How long a waiting handler may stay silent each time: seconds, shortened by the deadline."""
    wait = FIRST_PAUSE
    while True:
        yield max(0.001, min(wait, call.left()))
        wait = NEXT_PAUSE


PAUSE = Pause()
