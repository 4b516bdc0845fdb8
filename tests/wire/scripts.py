"""The language of the conversations: one file of plain lines is read into steps.

    # A sentence that says what is shown.
    # Source: where the rule stands.
    over: http, stdio            where it is played; http alone unless said
    settings: page_size=2        settings of the hub
    server: zoo                  whom it is with; `wire` unless said

    open 2025-11-25 {"roots": {}} as mine       the handshake, with capabilities; `mine` is bound to the session id
    > modern 1 tools/call {"name": "greet"}     a request of 2026-07-28 with headers and _meta, id 1
    > legacy 1 tools/call {"name": "greet"}     one of an older revision, in the session that was opened last
    > note notifications/cancelled {...}        a notification in that session
    > reply "id" {...}                          an answer to the server's question
    > POST /mcp/wire                            bytes as they are; lines of headers and the body follow
    > Accept: text/event-stream                 a header more, or another; `<absent>` leaves it out
    > at beasts                                 another server than the conversation's
    > _meta {...}                               more members of a modern request's _meta
    > capabilities {...}                        what a modern request declares
    < 200                                       the status
    < Content-Type: application/json            a header; `<absent>` where there must be none
    < {"result": {"content": ["..."]}}          the next message, a pattern (see patterns)
    < = {...}                                   the next message, with no other member
    < id x-1 {...}                              the next event, with its id
    < id x-0 retry 1000                         an event without a message
    < text PATTERN                              the body as text
    < nothing                                   no body, no message
    < ...                                       any messages up to the next that matches
    < end                                       the stream is over
    ! put beasts tools=2                        something happens at the hub (see happenings)

`name>` and `name<` speak on a channel that stays open until `name> close`; without a name the answer is read whole:
every message has to be expected. Where nothing is expected of an answer, it has to be a success.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

VERBS = ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH")
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):\s?(.*)")
_LINE = re.compile(r"([a-z]*)([<>])(?: (.*))?")
_OPEN = re.compile(r"open (\S+)(?: (\{.*\}))?(?: as ([a-z_]+))?")
_EVENT = re.compile(r"id (\S+)(?: retry (\d+))?(?: (\{.*))?")
ENDS = ("nothing", "end", "...")


class Unreadable(ValueError):
    """A line that is not of the language."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(f"line {line}: {sentence}")


@dataclass
class Said:
    """What the client says: a `kind` of request or an HTTP verb, its words, and what the lines below it add."""

    line: int
    channel: str
    kind: str
    words: list[Any]
    headers: list[tuple[str, str]] = field(default_factory=list)
    server: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=dict)
    body: str | None = None


@dataclass(frozen=True)
class Expected:
    """One line of the expected output of the server. `kind` is status, header, message, event, text, or one of ENDS."""

    line: int
    channel: str
    kind: str
    value: Any = None
    name: str = ""
    exactly: bool = False


@dataclass(frozen=True)
class Opened:
    """The handshake."""

    line: int
    version: str
    capabilities: dict[str, Any]
    name: str


@dataclass(frozen=True)
class Happening:
    """Something that happens at the hub."""

    line: int
    words: list[str]


Step = Said | Expected | Opened | Happening


@dataclass
class Script:
    """A conversation: what it says of itself, and its steps."""

    comment: str = ""
    over: tuple[str, ...] = ("http",)
    settings: dict[str, str] = field(default_factory=dict)
    server: str = "wire"
    steps: list[Step] = field(default_factory=list)


def read(text: str) -> Script:
    """The conversation in a text. Raises Unreadable naming the line."""
    script = Script()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            script.comment += line.lstrip("# ") + "\n"
        elif line.strip():
            _read_line(script, number, line.rstrip())
    return script


def _read_line(script: Script, number: int, line: str) -> None:
    spoken = _LINE.fullmatch(line)
    name, colon, value = line.partition(": ")
    if spoken and spoken[2] == ">":
        _say(script, number, spoken[1], spoken[3] or "")
    elif spoken:
        script.steps.append(_expected(number, spoken[1], spoken[3] or ""))
    elif line.startswith("! "):
        script.steps.append(Happening(number, line[2:].split()))
    elif opened := _OPEN.fullmatch(line):
        script.steps.append(Opened(number, opened[1], _json(number, opened[2] or "{}"), opened[3] or "session"))
    elif colon and name == "over":
        script.over = tuple(part.strip() for part in value.split(","))
    elif colon and name == "settings":
        script.settings = dict(part.split("=", 1) for part in value.split())
    elif colon and name == "server":
        script.server = value
    else:
        raise Unreadable(number, f"not a line of a conversation: {line!r}")


def _say(script: Script, number: int, channel: str, rest: str) -> None:
    word, _, more = rest.partition(" ")
    last = script.steps[-1] if script.steps else None
    if word in ("modern", "legacy", "reply"):
        id, tail = _first_json(number, more)
        script.steps.append(Said(number, channel, word, [id, *_method(number, word, tail)]))
    elif word == "note":
        script.steps.append(Said(number, channel, word, _method(number, word, more)))
    elif word in VERBS or rest == "close":
        script.steps.append(Said(number, channel, word, [more]))
    elif not isinstance(last, Said) or last.channel != channel:
        raise Unreadable(number, f"a request begins with modern, legacy, note, reply, close or a verb: {rest!r}")
    elif word == "at":
        last.server = more
    elif word == "_meta":
        last.meta |= _json(number, more)
    elif word == "capabilities":
        last.capabilities |= _json(number, more)
    elif last.body is None and last.kind in VERBS and (rest[:1] in "{[" or word == "raw"):
        last.body = more if word == "raw" else rest
    elif header := _HEADER.fullmatch(rest):
        last.headers.append((header[1], header[2]))
    else:
        raise Unreadable(number, f"neither a header nor a body: {rest!r}")


def _method(number: int, kind: str, text: str) -> list[Any]:
    """Method and params; the result alone of a reply."""
    if kind == "reply":
        return [_json(number, text)]
    method, _, params = text.partition(" ")
    return [method, _json(number, params) if params else None]


def _expected(number: int, channel: str, rest: str) -> Expected:
    def expected(kind: str, value: Any = None, **more: Any) -> Expected:
        return Expected(number, channel, kind, value, **more)

    if rest in ENDS:
        return expected(rest)
    if rest.isdigit() and len(rest) == 3:
        return expected("status", int(rest))
    if rest[:1] in ("{", "["):
        return expected("message", _json(number, rest))
    if rest.startswith("= "):
        return expected("message", _json(number, rest[2:]), exactly=True)
    if rest.startswith("text "):
        return expected("text", rest[5:])
    if event := _EVENT.fullmatch(rest):
        body = {"id": event[1], "retry": event[2], "message": _json(number, event[3]) if event[3] else None}
        return expected("event", body)
    if header := _HEADER.fullmatch(rest):
        return expected("header", header[2], name=header[1])
    raise Unreadable(number, f"nothing that a server could say: {rest!r}")


def _json(number: int, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise Unreadable(number, f"not JSON ({problem}): {text!r}") from problem


def _first_json(number: int, text: str) -> tuple[Any, str]:
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as problem:
        raise Unreadable(number, f"an id has to be JSON ({problem}): {text!r}") from problem
    return value, text[end:].strip()
