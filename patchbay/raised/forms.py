"""The forms of what an author's code raised: a JSON value for records and results, and lines of text.

The JSON value is in the record of a call and, for the operator alone, in `_meta` of a result (`RAISED_KEY`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from patchbay.raised.exceptions import MAX_EXCEPTIONS, MAX_FRAMES, CodeLine, Raised, RaisedException, shorten

RAISED_KEY = "io.patchbay/raised"
"""The member of `_meta` (and of the `data` of a JSON-RPC error) that holds the exceptions for the operator."""


def raised_to_json(raised: Raised, with_messages: bool = True) -> list[dict[str, Any]]:
    """Return exceptions as a JSON value; without messages, `error` is the type alone."""
    return [
        {
            "error": one.error if with_messages else one.error.partition(":")[0],
            "relation": one.relation,
            "frames": [
                {"file": each.file, "line": each.line, "function": each.function, "text": each.text}
                for each in one.frames
            ],
        }
        for one in raised
    ]


def raised_from_json(value: Any) -> Raised:
    """Return exceptions from their JSON value, which may come from an untrusted process; empty for another value."""
    try:
        return tuple(
            RaisedException(
                shorten(_text(one["error"])),
                shorten(_text(one["relation"])),
                tuple(
                    CodeLine(
                        *(shorten(_text(each["file"])), _number(each["line"])),
                        *(shorten(_text(each["function"])), shorten(_text(each["text"]))),
                    )
                    for each in one["frames"][:MAX_FRAMES]
                ),
            )
            for one in value[:MAX_EXCEPTIONS]
        )
    except (TypeError, KeyError, ValueError):
        return ()


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(type(value).__name__)
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(value)
    return value


def format_raised(raised: Raised) -> list[str]:
    """Return exceptions as lines of text: each with its frames, `file, line N, in function` and the text of the line.

    An empty tuple gives no lines.
    """
    lines: list[str] = []
    for one in raised:
        lines.append(f"{one.relation}: {one.error}" if one.relation else one.error)
        for each, repeats in groupby(one.frames):
            times = sum(1 for _ in repeats)
            place = f"  {each.file}, line {each.line}" + (f", in {each.function}" if each.function else "")
            lines.append(f"{place} ({times} times or more)" if times > 1 else place)
            lines += [f"    {each.text}"] if each.text else []
    return lines


def read_raised(result: Mapping[str, Any]) -> Raised:
    """Return the exceptions that a hub put into a result (`_meta`) or into the `data` of an error for its operator."""
    meta = result.get("_meta", result)
    return raised_from_json(meta.get(RAISED_KEY)) if isinstance(meta, Mapping) else ()
