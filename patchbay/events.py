"""The events of one activation, as frozen values. Every part of the program uses these types.

Grammar of one activation:

    (Text | Content | Data | Progress | Log | ToolUse | Ask | Detach | Pause)*  (Done | Failed)

`activation.py` holds all transitions; this file knows no handler and no view.
Source: MCP specification, server/tools.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from patchbay.raised.exceptions import Raised


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text output; adjacent pieces belong together."""

    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """One MCP content block as a JSON object (`image`, `audio`, `resource`, `resource_link`, `text`)."""

    block: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Data:
    """A JSON value that a tool returned; `content_type` is its media type or kind, if the tool gave one.

    `text` goes into the text of the result: "" adds nothing, None adds the JSON of the value as a separate piece.
    """

    value: Any
    content_type: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the call. `progress` only grows; `total` is in the same unit, None if unknown."""

    progress: float
    total: float | None = None
    message: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether this is a piece of text that the tool yields, which MCP carries as a message without a total."""
        return bool(self.message) and self.total is None


@dataclass(frozen=True, slots=True)
class Log:
    """A log line; `level` is one of RFC 5424's eight names as MCP spells them, `data` any JSON value."""

    level: str
    data: Any
    logger: str | None = None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The activation calls another tool."""

    name: str
    input: Any = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One request to the caller: `elicitation/create`, `sampling/createMessage` or `roots/list` with its params."""

    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """Questions to the caller under the author's keys. The generator receives a mapping of results as the answer.

    `account` is set where the caller has to connect an account first, on the page of the one question: the key of the
    server behind the hub, and the id of the account that it refused, "" without one.
    """

    questions: Mapping[str, Question]
    account: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Detach:
    """The rest of the call takes long: a caller that supports tasks may disconnect and fetch the result later.

    With `required` the call fails for a caller without the tasks extension (MCP 2026-07-28, SEP-1686).
    """

    required: bool = False


class Mailbox(Protocol):
    """What a generator waits for: it has a message, or is closed, at some time."""

    @property
    def closed(self) -> bool:
        """Whether no message can come any more."""
        ...

    def wait(self, timeout: float) -> None:
        """Wait until there is a message, or it is closed, no longer than `timeout` seconds."""
        ...

    def call_when_ready(self, callback: Callable[[], None]) -> bool:
        """Call back once, from whichever thread, when there is a message or it is closed.

        False when that is so now: then nothing is called.
        """
        ...

    def cancel_call(self) -> bool:
        """Forget the callback; False when it was called, or is being called."""
        ...


@dataclass(frozen=True, slots=True)
class Pause:
    """A sign that the activation still runs.

    With a `mailbox`, it goes on at once when that has a message, and waits for one until the `time.monotonic()` time
    `until`. So its reader may ask for the next event only then, and use the thread for something else meanwhile.
    """

    mailbox: Mailbox | None = None
    until: float = 0.0

    @property
    def wait(self) -> Wait | None:
        """The wait before the next event; None if the activation itself knows when it goes on."""
        return None if self.mailbox is None else Wait(self.mailbox, max(0.0, self.until - time.monotonic()))


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a successful activation.

    `result` is a whole MCP result from another server, which the hub passes on unchanged.
    """

    result: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of a failed activation.

    `message` is for the caller. `error` is set when the failure becomes a JSON-RPC error (a missing client capability,
    an unknown resource) instead of a tool result. `result` is a whole tool result from another server, which the hub
    passes on unchanged. `raised` is what the author's code raised, for the operator only.
    """

    message: str
    error: Exception | None = None
    result: Mapping[str, Any] | None = None
    raised: Raised = field(default=(), compare=False)


Ending = Done | Failed
Event = Text | Content | Data | Progress | Log | ToolUse | Ask | Detach | Pause | Done | Failed

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


@dataclass(frozen=True, slots=True)
class Wait:
    """In place of an item of a generator: it has nothing to do before `mailbox` has a message or `seconds` are over.

    What runs the generator waits, with a thread or without, and asks it for the next item.
    """

    mailbox: Mailbox
    seconds: float


Item = TypeVar("Item")


def wait_blocking(steps: Iterable[Item | Wait]) -> Iterator[Item]:
    """The items of a generator that waits; holds the thread while it waits. Closing it closes the generator."""
    try:
        for step in steps:
            if isinstance(step, Wait):
                step.mailbox.wait(step.seconds)
            else:
                yield step
    finally:
        closing = getattr(steps, "close", None)
        if closing is not None:
            closing()
