"""The one fold: the events of an activation become one MCP tool result.

Every view that gives a whole answer uses this file and no other, so that a buffered and a
streamed answer of one call are equal. The result is that of the newest revision; what older
revisions must not see is taken away in `protocol/translate.py`. Progress, Log, Pause and Ask
leave no trace here.
Sources: REQUIREMENTS SUB-22, SUB-23, SUB-C4 to SUB-C6; MCP 2026-07-28, server/tools.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from patchbay.activation import Events
from patchbay.events import Content, Data, Done, Ending, Event, Failed, Text, ToolUse

MOST_INDENTED = 100_000
"""Bytes of the longest JSON that is indented: what nests deeply becomes hundreds of times as long by that."""

UNFINISHED = Failed("ended without a result")
"""What a stream that stops without an ending counts as."""


class Fold:
    """Collects events; `result()` may be asked at any time and gives what there is so far.

    `ending` is the Done or Failed that was seen, or None; its `error` says whether a JSON-RPC
    error is wanted instead of the result.
    """

    def __init__(self) -> None:
        self.ending: Ending | None = None
        self._items: list[dict[str, Any]] = []
        self._pieces: list[str] = []
        self._data: list[Data] = []
        self._uses: list[str] = []

    def add(self, event: Event) -> None:
        """Take one event in. What comes after an ending is not part of the activation and changes nothing."""
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
        """The tool result: `content`, `structuredContent` (of a call that worked), `isError`.

        With `ending`, the result as it is if the events end so.

        Structured is the only Data that there was, or the last that adds nothing to the text: a command says lines,
        which are text, and its exit code. Where nothing else was said, it is the text too (SUB-23).
        """
        ending = ending or self.ending or UNFINISHED
        if ending.result is not None:
            return dict(ending.result)
        content = [*self._items, *self._open_text()]
        if not any(item["type"] == "text" for item in content):
            content += [_text(use) for use in self._uses]
        if isinstance(ending, Failed):
            return {"content": [*content, _text(ending.message)], "isError": True}
        result: dict[str, Any] = {"content": content}
        silent = [one for one in self._data if one.text == ""]
        if silent or len(self._data) == 1:
            last = (silent or self._data)[-1]
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
    """Collects the ending and, if it is `wanted`, the structured value: for events that are passed on."""

    def __init__(self, wanted: bool) -> None:
        super().__init__()
        self._wanted = wanted

    def add(self, event: Event) -> None:
        """Take one event in, if it matters: the last Data that adds nothing to the text, else whether there is one."""
        if isinstance(event, (Done, Failed)):
            super().add(event)
        elif isinstance(event, Data) and self._wanted and self.ending is None:
            if event.text == "":
                self._data = [event]
            elif len(self._data) < 2 and not any(one.text == "" for one in self._data):
                self._data.append(event)


def folded(events: Events, into: Fold, ending: Callable[[Ending], Ending] = lambda said: said) -> Events:
    """The events as they pass, each folded; `ending` gives the one that counts for the one that was said.

    Closing this generator closes the events. A failure of `ending` leaves them open, so that it is told as a failure
    and not as a cancelled call.
    """
    reply: Any = None
    try:
        while True:
            event: Event = events.send(reply)
            if isinstance(event, Done) or isinstance(event, Failed):  # noqa: SIM101 (quicker than with a tuple)
                event = ending(event)
            into.add(event)
            reply = yield event
    except StopIteration:
        return
    except GeneratorExit:
        events.close()
        raise


def fold(events: Iterable[Event]) -> dict[str, Any]:
    """The tool result of a whole stream of events."""
    collected = Fold()
    for event in events:
        collected.add(event)
    return collected.result()


def format_value(value: Any) -> str:
    """A JSON value for reading: a string as it is, anything else as JSON, indented unless it is too long for that."""
    if isinstance(value, str):
        return value
    try:
        flat = orjson.dumps(value)
        return (flat if len(flat) > MOST_INDENTED else orjson.dumps(value, option=orjson.OPT_INDENT_2)).decode()
    except TypeError:  # integers beyond 64 bits, which orjson does not write
        long = json.dumps(value, ensure_ascii=False)
        return long if len(long) > MOST_INDENTED else json.dumps(value, indent=2, ensure_ascii=False)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
