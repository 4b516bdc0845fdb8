"""What is kept of the events of a call: when each came, of what kind it was, and a few words of what it said.

Only the first `MOST` events are kept, and of each no more than `LONGEST` characters: a run waits in a queue with many
others, and an event may be large. To be called for every event, so it has to take less than a microsecond.
Source: patchbay/events.py (the kinds).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from patchbay.events import Ask, Content, Data, Done, Failed, Log, Progress, Text, ToolUse

MOST = 64
"""Events of one call that are kept."""

LONGEST = 160
"""Characters of what an event said."""

Moment = tuple[float, str, str]
"""When (a `time.monotonic()` moment), the kind of the event in lower case, and a few words."""


def moment(now: float, event: Any) -> Moment:
    """What is kept of one event."""
    kind = type(event)
    if kind is Text:
        return now, "text", f"{len(event.text)} characters"
    if kind is Done:
        return now, "done", ""
    words = _WORDS.get(kind)
    return now, kind.__name__.lower(), words(event)[:LONGEST] if words is not None else ""


def _progress(event: Progress) -> str:
    far = f"{event.progress:g}" if event.total is None else f"{event.progress:g} of {event.total:g}"
    return f"{far}: {event.message[:LONGEST]}" if event.message else far


def _log(event: Log) -> str:
    data = event.data
    if isinstance(data, Mapping):
        data = data.get("message", f"an object of {len(data)} values")
    return f"{event.level}: {data[:LONGEST]}" if isinstance(data, str) else event.level


_WORDS: dict[type, Callable[[Any], str]] = {
    Progress: _progress,
    Log: _log,
    ToolUse: lambda event: str(event.name),
    Ask: lambda event: ", ".join(question.method for question in list(event.questions.values())[:4]),
    Content: lambda event: str(event.block.get("type", "")),
    Data: lambda event: event.content_type or "JSON",
    Failed: lambda event: str(event.message[:LONGEST]),
}
