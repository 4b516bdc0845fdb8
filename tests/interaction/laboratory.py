"""Tools of every sort, and 200 calls of them: good, wrong, under other names, failing, streaming, over time, large."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]

LIMIT = 2000
"""Bytes of the largest text that stays in a result of this hub."""

LAB = '''"""Tools of every kind. Each goes on in the background where its caller knows how: so it can be a task."""

import time
from typing import Any, Literal

from patchbay.errors import ProtocolError


def echo(context, text: str = "nothing") -> str:
    """Give a text back."""
    context.background()
    return text


def add(context, a: int, b: int = 1) -> dict[str, int]:
    """Add."""
    context.background()
    return {"sum": a + b}


def value(context, of: Any = None) -> Any:
    """Give a value back."""
    context.background()
    return of


def choose(context, colour: Literal["red", "green"], times: int = 1) -> str:
    """Choose a colour."""
    context.background()
    return colour * times


def aliased(context, count: int, word: str = "x") -> str:
    """Repeat a word."""
    context.background()
    return word * count


def fails(context, kind: str, message: str = "") -> str:
    """Raise an exception."""
    context.background()
    raise {"value": ValueError, "key": KeyError, "system": OSError}[kind](message)


def says_and_fails(context, pieces: int):
    """Say something, then fail."""
    context.background()
    for piece in range(pieces):
        yield f"{piece} "
    raise RuntimeError("no more")


def errs(context, code: int) -> str:
    """End in an error of the protocol."""
    context.background()
    raise ProtocolError("out of order", code)


def pieces(context, count: int):
    """Say a text in pieces, with progress."""
    context.background()
    for piece in range(count):
        context.progress(piece + 1, count)
        context.log(f"piece {piece}")
        yield f"{piece};"


def picture(context, size: int) -> list[Any]:
    """Give a text and bytes."""
    context.background()
    return ["a picture", b"\\x89PNG\\r\\n\\x1a\\n" + bytes(size)]


def large(context, size: int) -> str:
    """Give a long text."""
    context.background()
    return "é" * size


def promised(context, given: Any = None) -> Any:
    """Give a value that is promised to be an object with a total."""
    context.background()
    return given


def over_time(context, beats: float = 0.01) -> str:
    """Take more time than there is."""
    while not context.cancelled:
        context.log("still here", level="debug")
        time.sleep(beats)
    return "too late"


def waits(context, key: str, background: bool = False) -> str:
    """Wait until the call is cancelled, and remember that it was."""
    if background:
        context.background()
    context.log("begun", level="warning")
    context.progress(1)
    try:
        while not context.cancelled:
            context.log("waiting", level="debug")
            time.sleep(0.01)
    finally:
        context.state[key] = "ended"
    return "too late"
'''

CALLER = '''"""A tool that calls tools."""

import json
from typing import Any


def relay(context, tool: str, arguments: dict[str, Any], server: str = "lab") -> str:
    """The result of a tool as JSON."""
    return json.dumps(context.call_quietly(server, tool, **arguments))
'''

COUNTED = {
    "type": "object",
    "properties": {"count": {"type": "integer", "x-alias": "n"}, "word": {"type": "string", "x-alias": "text"}},
    "required": ["count"],
    "additionalProperties": False,
}
TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}

CONFIG = {
    "auto_discover": True,
    "isolation": "inline",
    "tools": {
        "aliased": {"description": "Repeat.", "function": "aliased", "inputSchema": COUNTED},
        "promised": {
            "description": "Promise.",
            "function": "promised",
            "inputSchema": {"type": "object", "properties": {"given": {}}},
            "outputSchema": TOTAL,
        },
        "over_time": {
            "description": "Take too long.",
            "function": "over_time",
            "inputSchema": {"type": "object", "properties": {"beats": {"type": "number"}}},
            "timeout": 0.3,
        },
    },
    "resources": {"last": {"uri": "lab://last", "name": "Last", "last_output_of": "echo"}},
}

FILES = {
    "lab.py": LAB,
    "lab.mcp.json": json.dumps(CONFIG),
    "shelf.json": json.dumps({"kind": "toolset", "include": ["lab"]}),
    "caller.py": CALLER,
    "caller.mcp.json": '{"auto_discover": true, "isolation": "inline"}',
}


class Case(NamedTuple):
    """One call. `works` says what comes of it; `large` that its result is beyond the limit."""

    tool: str
    arguments: Json
    works: bool = True
    large: bool = False


MISFITS: tuple[dict[str, Any], ...] = ({}, {"b": 1}, {"a": "1"}, {"a": 1.5}, {"a": None}, {"a": []}, {"a": 1, "c": 2})
"""Arguments that do not fit the tool `add`."""

NOT_TEXT: tuple[Any, ...] = (1, None, [], {}, True)
"""Values that do not fit a parameter of type string."""


def good_cases() -> Iterator[Case]:
    """Calls that work; some arguments are under other names."""
    yield Case("echo", {})
    texts = [
        "",
        " ",
        "\n",
        "a b",
        "ü",
        "日本語",
        "😀",
        "\u2028",
        '{"a": 1}',
        "<b>",
        "%s",
        "null",
        "\\",
        "'\"",
        "x" * 499,
    ]
    yield from (Case("echo", {"text": text}) for text in (*texts, *(f"text {number}" for number in range(35))))
    yield from (Case("add", {"a": a, "b": b}) for a in (-1, 0, 7, 12, 2**31) for b in (0, 1, 10**9))
    yield from (Case("add", {"a": a}) for a in (1, 2))
    values: list[Any] = [
        None,
        True,
        0,
        -7,
        1.5,
        "word",
        [],
        [1, "two", None],
        {},
        {"a": {"b": [1]}},
        {"ü": "ß"},
        [[]],
        [{"a": 1}],
    ]
    yield from (Case("value", {"of": of}) for of in values)
    yield from (Case("choose", {"colour": colour, "times": n}) for colour in ("red", "green") for n in range(6))
    yield from (Case("aliased", {"count": n, "word": word}) for n in (0, 3) for word in ("a", "bc"))
    for n in (0, 1, 5):
        yield from (
            Case("aliased", {"n": n}),
            Case("aliased", {"n": n, "text": "ab"}),
            Case("aliased", {"n": n, "word": "z"}),
        )
        yield from (Case("aliased", {"count": n, "text": "q"}), Case("aliased", {"count": n, "n": n}, works=False))


def other_cases() -> Iterator[Case]:
    """Failures of every sort, streams, large results, promises, too much time, and tools that are not there."""
    wrong: list[tuple[str, Json]] = [
        *(("add", given) for given in MISFITS),
        *(("echo", {"text": given}) for given in NOT_TEXT),
        *(("echo", {given: "x"}) for given in ("txt", "Text", "text ")),
        *(("choose", given) for given in ({}, {"colour": "blue"}, {"colour": 1}, {"colour": "red", "times": "2"})),
        *(("aliased", given) for given in ({}, {"n": "1"}, {"n": 1, "text": 2}, {"n": 1, "other": 2}, {"text": "a"})),
        *(("large", given) for given in ({}, {"size": "big"})),
        *(("over_time", {"beats": given}) for given in ("x", None)),
    ]
    yield from (Case(tool, arguments, works=False) for tool, arguments in wrong)
    yield from (
        Case("fails", {"kind": kind, "message": said}, False)
        for kind in ("value", "key", "system")
        for said in ("", "no", "ü<&>")
    )
    yield from (Case("fails", {"kind": kind}, False) for kind in ("value", "nobody's"))
    yield from (Case("says_and_fails", {"pieces": n}, False) for n in range(5))
    yield from (Case("errs", {"code": code}, False) for code in (-32603, 1, 4711))
    yield from (Case("pieces", {"count": n}) for n in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55))
    yield from (Case("picture", {"size": n}) for n in (0, 1, 100))
    yield from (
        Case("large", {"size": n}, large=n * 2 > LIMIT) for n in (1, 900, 1000, 1001, 1500, 2000, 3000, 5000, 9000)
    )
    yield from (Case("promised", {"given": {"total": n}}) for n in (0, 1, -5))
    yield Case("promised", {"given": {"total": 1, "more": "x" * LIMIT}}, large=True)
    broken = [None, 1, "many", [], {}, {"total": "many"}, {"total": 1.5}, {"total": None}, {"Total": 1}, [{"total": 1}]]
    yield from (Case("promised", {"given": given}, False) for given in broken)
    yield Case("promised", {}, False)
    yield from (Case("over_time", {"beats": beats}, False) for beats in (0.01, 0.02))
    yield from (Case(tool, {}, False) for tool in ("ech", "nothing_like_it", "Add", "relay"))


CASES = [*good_cases(), *other_cases()]
"""The calls, in this order."""

TOOLS = frozenset(re.findall(r"^def (\w+)", LAB, re.MULTILINE))
"""The names of the tools of the laboratory."""
