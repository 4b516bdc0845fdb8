"""Frames on the pipe between the hub and a worker: four bytes of length, one byte of kind, and a body.

A body is UTF-8 text or JSON, never code. The hub trusts no frame: an unknown kind, or a body that does not fit its
kind, is BadFrame. orjson writes the JSON; values that it does not support (integers beyond 64 bits, NaN) are written by
the slower json module and marked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

import orjson

from patchbay import activation, errors
from patchbay.errors import PatchbayError, ToolFailed
from patchbay.events import LOG_LEVELS, Ask, Content, Data, Detach, Event, Log, Progress, Question, Text, ToolUse
from patchbay.raised.exceptions import RAISED_ATTRIBUTE, attach_raised
from patchbay.raised.exceptions import Raised as RaisedExceptions
from patchbay.raised.forms import raised_from_json, raised_to_json

HEAD = Struct("<IB")
_DURATION = Struct("<I")
MAX_MICROSECONDS = 2**32 - 1
SLOW = 0x80

LOAD, CALL, ANSWER, REPLY, WARM = 1, 2, 3, 4, 5
"""From the hub: a definition, a call, the answer to a question, the reply to a request, an order to load in advance."""

TEXT, DATA, CONTENT, PROGRESS, LOG, TOOL_USE, DETACH, ASK = 10, 11, 12, 13, 14, 15, 16, 17
"""From a worker: events."""

REQUEST, RETIRE, SLOW_START, END, RAISED, END_SILENT = 20, 21, 22, 23, 24, 25
"""From a worker: a request to the hub; replace this worker; loading was slow; done; failed; done, by a function that
printed nothing beside its frames."""

LOST = 113
"""Exit code of a worker that lost its connection to the hub."""

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Maximum bytes of one frame, and of all frames of one call."""


class BadFrame(Exception):
    """The bytes on the pipe are not a valid frame."""


def frame(kind: int, body: bytes = b"") -> bytes:
    """Return one frame around a body."""
    return HEAD.pack(len(body), kind) + body


def ending(seconds: float, is_silent: bool) -> bytes:
    """The last frame of a call that worked and took so long. `is_silent`: it printed nothing beside its frames."""
    return frame(END_SILENT if is_silent else END, _DURATION.pack(min(int(seconds * 1e6), MAX_MICROSECONDS)))


def duration_of(body: bytes) -> float:
    """The seconds in the body of a last frame. Raises BadFrame."""
    if len(body) != _DURATION.size:
        raise BadFrame(f"an ending of {len(body)} bytes")
    microseconds: int = _DURATION.unpack(body)[0]
    return microseconds / 1e6


def pack_frame(kind: int, value: Any) -> bytes:
    """Return one frame around a JSON value. Raises TypeError or ValueError for a value without JSON form."""
    try:
        body = orjson.dumps(value, default=_to_json_type)
    except TypeError:
        body = json.dumps(value, default=_to_json_type).encode()
        kind |= SLOW
    return HEAD.pack(len(body), kind) + body


def unpacked(kind: int, body: bytes) -> Any:
    """Return the JSON value of a body. Raises BadFrame."""
    try:
        return json.loads(body) if kind & SLOW else orjson.loads(body)
    except (ValueError, RecursionError) as problem:
        raise BadFrame(f"a body that is not JSON: {problem}") from problem


def _to_json_type(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


class Frames:
    """Cuts incoming bytes into frames."""

    __slots__ = ("_needed", "_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._needed = HEAD.size

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that this piece completes. Raises BadFrame for one that is too large."""
        if self._parts:
            self._parts.append(data)
            self._size += len(data)
            if self._size < self._needed:  # joined only when complete: a large frame arrives in many pieces
                return []
            data, self._parts = b"".join(self._parts), []
        found = []
        end, place, needed = len(data), 0, HEAD.size
        while (start := place + HEAD.size) <= end:
            length, kind = HEAD.unpack_from(data, place)
            if length > MAX_FRAME_BYTES:
                raise BadFrame(f"a piece of {length} bytes; the most is {MAX_FRAME_BYTES}")
            if start + length > end:
                needed = HEAD.size + length
                break
            place = start + length
            found.append((kind, data[start:place]))
        if place < end:
            self._parts, self._size, self._needed = [data[place:]], end - place, needed
        return found


def event_frame(event: Event) -> bytes:
    """Return the frame of an event. Raises TypeError for a value without JSON form."""
    if type(event) is Text:
        return frame(TEXT, event.text.encode("utf-8", "replace"))
    kind, parts = _PARTS[type(event)]
    return pack_frame(kind, parts(event))


_PARTS: Mapping[type, tuple[int, Callable[[Any], Any]]] = {
    Data: (DATA, lambda event: [event.value, event.content_type, event.text]),
    Content: (CONTENT, lambda event: event.block),
    Progress: (PROGRESS, lambda event: [event.progress, event.total, event.message]),
    Log: (LOG, lambda event: [event.level, event.data, event.logger]),
    ToolUse: (TOOL_USE, lambda event: [event.name, event.input, event.id]),
    Detach: (DETACH, lambda event: event.required),
    Ask: (ASK, lambda event: {key: [one.method, one.params] for key, one in event.questions.items()}),
}


def event_of(kind: int, body: bytes) -> Event:
    """Return the event of a frame. Raises BadFrame."""
    plain = kind & ~SLOW
    try:
        if plain == TEXT:
            return Text(body.decode("utf-8"))
        return _EVENTS[plain](unpacked(kind, body))
    except BadFrame:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise BadFrame(f"a frame of kind {plain} that is not an event") from problem


def _data(value: Any) -> Data:
    found, content_type, text = value
    return Data(found, _checked(content_type, str, type(None)), _checked(text, str, type(None)))


def _progress(value: Any) -> Progress:
    progress, total, message = value
    number = (int, float)
    return Progress(
        _checked(progress, *number), _checked(total, *number, type(None)), _checked(message, str, type(None))
    )


def _log(value: Any) -> Log:
    level, data, logger = value
    if level not in LOG_LEVELS:
        raise ValueError(level)
    return Log(level, data, _checked(logger, str, type(None)))


def _tool_use(value: Any) -> ToolUse:
    name, given, id = value
    return ToolUse(_checked(name, str), given, _checked(id, str, type(None)))


def _ask(value: Any) -> Ask:
    return Ask(
        {key: Question(_checked(method, str), _checked(params, dict)) for key, (method, params) in value.items()}
    )


def _checked(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds):
        raise TypeError(type(value).__name__)
    return value


_EVENTS: Mapping[int, Callable[[Any], Event]] = {
    DATA: _data,
    CONTENT: lambda value: Content(_checked(value, dict)),
    PROGRESS: _progress,
    LOG: _log,
    TOOL_USE: _tool_use,
    DETACH: lambda value: Detach(_checked(value, bool)),
    ASK: _ask,
}


KNOWN: Mapping[str, type[PatchbayError]] = {
    name: found
    for name, found in {**vars(errors), "Cancelled": activation.Cancelled}.items()
    if isinstance(found, type) and issubclass(found, PatchbayError)
}
"""The exceptions that keep their type on the way; any other keeps its name and message."""


def failure(problem: BaseException, raised: RaisedExceptions = (), hint: str = "") -> bytes:
    """Return the frame of an exception. `raised` is what the author's code raised; `hint` is added to its message."""
    return pack_frame(RAISED, failure_value(problem, raised, hint))


def failure_value(problem: BaseException, raised: RaisedExceptions = (), hint: str = "") -> list[Any]:
    """Return an exception as a JSON value: its type (None: not the hub's own), its fields, what was raised."""
    shown = raised_to_json(raised)
    own = next((found.__name__ for found in type(problem).__mro__ if KNOWN.get(found.__name__) is found), None)
    if own is None:
        text = activation.message_of(problem).encode("utf-8", "replace").decode()
        message = f"{text}. {hint}" if hint else text
        return [None, {"name": type(problem).__name__, "message": message}, shown]
    try:
        own_fields = {name: value for name, value in vars(problem).items() if name != RAISED_ATTRIBUTE}
        return [own, orjson.loads(orjson.dumps(own_fields, default=_to_json_type)), shown]
    except TypeError:  # its data has no JSON form, but its message has
        return ["ToolFailed", {"message": activation.message_of(problem), "data": None}, shown]


def failure_of(value: Any) -> Exception:
    """Return the exception of a frame, to be raised on this side. Raises BadFrame."""
    try:
        own, fields, raised = value
        if own is None:
            kind = type(str(fields["name"])[:100], (Exception,), {})
            foreign: Exception = kind(*filter(None, [str(fields["message"])]))
            attach_raised(foreign, raised_from_json(raised))
            return foreign
        known = KNOWN[own]
        problem = known.__new__(known)
        Exception.__init__(problem, str(fields["message"]))
        vars(problem).update(fields, message=str(fields["message"]))
        _checked(getattr(problem, "code", 0), int)
        attach_raised(problem, raised_from_json(raised))
        return problem
    except (KeyError, TypeError, ValueError) as error:
        raise BadFrame("an invalid exception") from error


def failure_message(problem: Exception) -> Exception:
    """Return the exception that a tool gets when the hub failed to serve its request."""
    return problem if isinstance(problem, PatchbayError) else ToolFailed(activation.described(problem))
