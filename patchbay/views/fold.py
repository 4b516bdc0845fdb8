"""Folds the events of an activation into one MCP tool result.

Every view that gives a whole answer uses this file, so that the buffered and the streamed answer of one call are equal.
The result has the form of the newest revision; `protocol/translate.py` adapts it to older revisions. Progress, Log,
Pause and Ask do not change the result.
Source: MCP specification 2026-07-28, server/tools.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from patchbay.activation import CallPlace, Events
from patchbay.events import Content, Data, Done, Ending, Event, Failed, Pause, Text, ToolUse

MAX_INDENTED_BYTES = 100_000
"""Bytes of the longest JSON that is indented: indenting can make deeply nested JSON hundreds of times longer."""

UNFINISHED = Failed("ended without a result")
"""The ending of a stream of events that stops without one."""


MAX_BEGINNING_CHARACTERS = 200
"""Characters of text that a fold of a value keeps."""


class Fold:
    """Collects events; `result()` returns the result so far at any time.

    `ending` is the Done or Failed event, or None before it; its `error` replaces the result by a JSON-RPC error.
    """

    def __init__(self) -> None:
        self.ending: Ending | None = None
        self._items: list[dict[str, Any]] = []
        self._pieces: list[str] = []
        self._data: list[Data] = []
        self._uses: list[str] = []

    def add(self, event: Event) -> None:
        """Add one event. Events after an ending change nothing."""
        if self.ending is not None:
            return
        if isinstance(event, Text):
            self._pieces.append(event.text)
        elif isinstance(event, Content):
            self._put(dict(event.block))
        elif isinstance(event, Data):
            self._add_data(event)
        elif isinstance(event, ToolUse):
            self._uses.append(f"Using tool: {event.name}")
        elif isinstance(event, (Done, Failed)):
            self.ending = event

    def result(self, ending: Ending | None = None) -> dict[str, Any]:
        """Return the tool result: `content`, `structuredContent` (of a successful call), `isError`.

        `ending` is the ending to assume; without it, the ending that was added.

        The structured content is the last Data that adds nothing to the text (a command gives lines as text, and its
        exit code as such Data), or else the only Data. If there is no other content, its JSON is also the text.
        """
        ending = ending or self.ending or UNFINISHED
        if ending.result is not None:
            return dict(ending.result)
        content = [*self._items, *self._open_text()]
        if self._uses and not any(item["type"] == "text" for item in content):
            content += [_text(use) for use in self._uses]
        if isinstance(ending, Failed):
            return {"content": [*content, _text(ending.message)], "isError": True}
        result: dict[str, Any] = {"content": content}
        without_text = [one for one in self._data if one.text == ""]
        if without_text or len(self._data) == 1:
            last = (without_text or self._data)[-1]
            result["structuredContent"] = last.value
            if not content:
                content.append(_text(format_value(last.value)))
        return result

    def _add_data(self, event: Data) -> None:
        self._data.append(event)
        if event.text is None:
            self._put(_text(format_value(event.value)))
        else:
            self._pieces.append(event.text)

    def _put(self, item: dict[str, Any]) -> None:
        self._items += self._open_text()
        self._pieces.clear()
        self._items.append(item)

    def _open_text(self) -> list[dict[str, Any]]:
        text = "".join(self._pieces)
        return [{"type": "text", "text": text}] if text else []


class ValueFold(Fold):
    """Collects the ending and, if it is `wanted`, the structured value, for a stream that passes its events on."""

    def __init__(self, wanted: bool) -> None:
        super().__init__()
        self._wanted = wanted
        self._beginning = ""
        self._kinds: dict[str, None] = {}

    def beginning(self) -> list[dict[str, Any]]:
        """Return the content in short: up to MAX_BEGINNING_CHARACTERS of text, and the kinds of other blocks."""
        text = [_text(self._beginning)] if self._beginning else []
        return [*text, *({"type": kind} for kind in self._kinds)]

    def add(self, event: Event) -> None:
        """Add one event: keep the ending, the last Data without text, or up to two Data with text."""
        if isinstance(event, (Done, Failed)):
            super().add(event)
        elif not self._wanted or self.ending is not None:
            return
        elif isinstance(event, Text):
            if len(self._beginning) < MAX_BEGINNING_CHARACTERS:
                self._beginning = (self._beginning + event.text)[:MAX_BEGINNING_CHARACTERS]
        elif isinstance(event, Content):
            self._kinds[str(event.block.get("type"))] = None
        elif isinstance(event, Data):
            if event.text == "":
                self._data = [event]
            elif len(self._data) < 2 and not any(one.text == "" for one in self._data):
                self._data.append(event)


def folded(
    events: Events,
    into: Fold,
    ending: Callable[[Ending], Ending] = lambda event: event,
    place: CallPlace | None = None,
) -> Events:
    """Yield the events and add each to a fold; `ending` may replace the ending. `place` is released at the end.

    Closing this generator closes the events. If `ending` raises, the events stay open, so that the caller gets a
    failure and not a cancelled call.
    """
    reply: Any = None
    try:
        if place is not None and place.delay:
            time.sleep(place.delay)
        while True:
            event: Event = events.send(reply)
            if isinstance(event, Done) or isinstance(event, Failed):  # noqa: SIM101 (quicker than with a tuple)
                event = ending(event)
            elif place is not None and isinstance(event, Pause) and event.mailbox is not None:
                event = Pause(place.while_waiting(event.mailbox), event.until)
            into.add(event)
            reply = yield event
    except StopIteration:
        return
    except GeneratorExit:
        events.close()
        raise
    finally:
        if place is not None:
            place.release()


def fold(events: Iterable[Event]) -> dict[str, Any]:
    """Return the tool result of a whole stream of events."""
    collected = Fold()
    for event in events:
        collected.add(event)
    return collected.result()


def format_value(value: Any) -> str:
    """Return a JSON value as text: a string unchanged, any other value as JSON, indented unless it is too long."""
    if isinstance(value, str):
        return value
    try:
        flat = orjson.dumps(value)
        return (flat if len(flat) > MAX_INDENTED_BYTES else orjson.dumps(value, option=orjson.OPT_INDENT_2)).decode()
    except TypeError:  # integers beyond 64 bits, which orjson does not write
        long = json.dumps(value, ensure_ascii=False)
        return long if len(long) > MAX_INDENTED_BYTES else json.dumps(value, indent=2, ensure_ascii=False)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
