"""What one activation says, as frozen values: the vocabulary of the whole program.

Grammar of one activation (DESIGN: the one idea):

    (Text | Content | Data | Progress | Log | ToolUse | Ask | Detach | Pause)*  (Done | Failed)

All transitions live in `activation.py`; this file knows neither who speaks nor who listens.
Sources: REQUIREMENTS SUB-22 to SUB-24, SUB-C4, SUB-C5; MCP specification, server/tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
    """A JSON value a tool returned; `content_type` names its media type or kind when the tool said one.

    `text` is what it adds to the text of the result: "" nothing, None its JSON in a piece of its own.
    """

    value: Any
    content_type: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the work is. `progress` only grows; `total` in the same unit, when known."""

    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """A log line; `level` is one of RFC 5424's eight names as MCP spells them, `data` any JSON value."""

    level: str
    data: Any
    logger: str | None = None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The activation uses another tool on its own behalf."""

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
    """Questions to the caller under the author's keys; answered through the generator by a map of results."""

    questions: Mapping[str, Question]


@dataclass(frozen=True, slots=True)
class Detach:
    """The rest takes long: the caller may hang up now and fetch the result later, where it knows how.

    With `required` the call cannot go on for a caller that does not (tasks extension, SPEC-DIGEST 1.14).
    """

    required: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Alive, nothing to say."""


@dataclass(frozen=True, slots=True)
class Done:
    """The end of an activation that worked.

    `result` is the whole MCP result, where another server gave it whole: it counts as it is.
    """

    result: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of an activation that did not work.

    `message` is for the caller. `error` is set when the failure is to be a JSON-RPC error
    (a missing client capability, an unknown resource) instead of a tool result. `result` is the whole tool result,
    where another server gave it whole: it counts as it is.
    """

    message: str
    error: Exception | None = None
    result: Mapping[str, Any] | None = None


Ending = Done | Failed
Event = Text | Content | Data | Progress | Log | ToolUse | Ask | Detach | Pause | Done | Failed

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
