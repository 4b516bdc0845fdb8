"""Summaries of the events of a call: the time, the kind, and a few words of the content.

The first `MAX_EVENTS_PER_CALL` events get a summary of at most `MAX_SUMMARY_CHARACTERS` characters, because many
recordings wait in a queue and an event may be large. This runs for every event and takes less than a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from patchbay.events import Ask, Content, Data, Done, Failed, Log, Progress, Text, ToolUse

MAX_EVENTS_PER_CALL = 64
"""Limit on the event summaries of one call."""

MAX_SUMMARY_CHARACTERS = 160
"""Limit on the characters of a summary."""

Moment = tuple[float, str, str]
"""A `time.monotonic()` time, the kind of the event in lower case, and a few words."""


def moment(now: float, event: Any) -> Moment:
    """Return the summary of one event."""
    kind = type(event)
    if kind is Text:
        return now, "text", f"{len(event.text)} characters"
    if kind is Done:
        return now, "done", ""
    words = _WORDS.get(kind)
    return now, kind.__name__.lower(), words(event)[:MAX_SUMMARY_CHARACTERS] if words is not None else ""


def _progress(event: Progress) -> str:
    far = f"{event.progress:g}" if event.total is None else f"{event.progress:g} of {event.total:g}"
    return f"{far}: {event.message[:MAX_SUMMARY_CHARACTERS]}" if event.message else far


def _log(event: Log) -> str:
    data = event.data
    if isinstance(data, Mapping):
        data = data.get("message", f"an object of {len(data)} values")
    return f"{event.level}: {data[:MAX_SUMMARY_CHARACTERS]}" if isinstance(data, str) else event.level


_WORDS: dict[type, Callable[[Any], str]] = {
    Progress: _progress,
    Log: _log,
    ToolUse: lambda event: str(event.name),
    Ask: lambda event: ", ".join(question.method for question in list(event.questions.values())[:4]),
    Content: lambda event: str(event.block.get("type", "")),
    Data: lambda event: event.content_type or "JSON",
    Failed: lambda event: str(event.message[:MAX_SUMMARY_CHARACTERS]),
}
