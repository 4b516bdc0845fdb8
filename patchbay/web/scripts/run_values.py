"""What the page of a run of a script shows, as plain values: its lines with their calls, what waits, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from patchbay.activity.records import Record
from patchbay.catalogue.servers.script_tools import RUN
from patchbay.jsonrpc import dump_json
from patchbay.web.rendering.templates import format_json

MAX_OPEN_CALLS = 5
"""Calls of one line that are shown at once; more that went well are folded into one row."""

MAX_SHOWN_CHARACTERS = 2000
"""Characters of the arguments, and of the result, of one call; its record has the rest."""

MAX_GIST_CHARACTERS = 80
"""Characters of the arguments in the row of a call."""


def describe_call(record: Record) -> dict[str, Any]:
    """Return a call of a run as the JSON of its page has it."""
    return {
        "id": record.id,
        "number": record.number,
        "line": record.line,
        "depth": record.depth,
        "name": f"{record.server}.{record.name}",
        "ms": record.ms,
        "outcome": record.outcome,
        "code": record.code,
        "arguments": record.arguments,
        "answer": record.answer,
    }


def list_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the calls of a run as rows of its page.

    Each has the values of `describe_call`, the gist of its arguments, its arguments and its result as parts with a
    title (`_describe_part`), and its place in the time from the first call to the end of the last one, in per cent.
    """
    begin = min((one.at for one in records), default=0.0)
    whole = max((one.at + one.ms / 1000 for one in records), default=0.0) - begin
    return [
        {
            **describe_call(one),
            "gist": _shorten_arguments(one.arguments),
            "parts": [_describe_part("Arguments", one.arguments), _describe_part("Result", _find_result(one.answer))],
            "from": round(100 * (one.at - begin) / whole, 2) if whole > 0 else 0.0,
            "width": round(one.ms / 10 / whole, 2) if whole > 0 else 100.0,
        }
        for one in records
    ]


def list_lines(
    text: str | None,
    rows: Sequence[Mapping[str, Any]],
    running: Sequence[Mapping[str, Any]],
    rehearsed: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return the lines of a script, each with the calls that it made, those that run or wait, and those not made.

    Many calls of one line that went well are apart from the others, in `folded`. Without a text there are no lines.
    """
    # As the interpreter counts them: `splitlines` knows more ends of lines.
    lines = text.removesuffix("\n").split("\n") if text else []
    found = []
    for place, line in enumerate(lines, 1):
        made = [one for one in rows if one["depth"] == 1 and one["line"] == place]
        folded = [one for one in made if one["outcome"] == "ok"] if len(made) > MAX_OPEN_CALLS else []
        found.append(
            {
                "number": place,
                "text": line,
                "calls": [one for one in made if one not in folded],
                "folded": folded,
                "ms": sum(one["ms"] for one in folded),
                "longest": max((one["ms"] for one in folded), default=0),
                "running": group_running([one for one in running if one["line"] == place]),
                "rehearsed": [
                    {"name": one["name"], "gist": _shorten_arguments(one["arguments"])}
                    for one in rehearsed
                    if one["line"] == place
                ],
            }
        )
    return found


def group_running(running: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return calls that run or wait, with the `count` of those of one name, line and need, and their first time."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in running:
        found = groups.setdefault((one["name"], one["line"], one.get("needs", "")), {"needs": "", **one, "count": 0})
        found["count"] += 1
        found["at"] = min(found["at"], one["at"])
    return list(groups.values())


def describe_answer(record: Record | None) -> dict[str, Any] | None:
    """Return what a script answered; None if that was not recorded.

    It has the texts that it printed, or the text of its `failure`, its `value` as JSON ("" without one), the calls that
    a rehearsal did not make (`rehearsed`, None for any other run), and the `whole` answer.
    """
    answer = record.answer if record is not None else None
    if not isinstance(answer, dict):
        return None
    texts = [str(one.get("text", "")) for one in answer.get("content", ()) if isinstance(one, dict)]
    structured = answer.get("structuredContent")
    structured = structured if isinstance(structured, dict) else {}
    is_run = record is not None and record.name == RUN
    has_value = "value" in structured if is_run else bool(structured)
    value = format_json(structured["value"] if is_run and has_value else structured) if has_value else ""
    rehearsed = structured.get("rehearsed") if is_run else None
    is_failure = bool(answer.get("isError"))
    return {
        "failure": "\n".join(texts) if is_failure else "",
        "texts": [] if is_failure else texts[:-1] if has_value and rehearsed is None else texts,
        "value": "" if is_failure or rehearsed is not None else value,
        "rehearsed": rehearsed if isinstance(rehearsed, list) else None,
        "whole": answer,
    }


def find_inputs(record: Record | None) -> Any:
    """Return the inputs of a script, or the arguments of a tool that is a script; None without any."""
    arguments = record.arguments if record is not None else None
    if not isinstance(arguments, dict):
        return None
    return arguments.get("inputs") if "code" in arguments else arguments


def _find_result(answer: Any) -> Any:
    """Return what a script gets of the answer of a call: its structured content, else its only text, else all of it."""
    if not isinstance(answer, dict):
        return answer
    if "structuredContent" in answer:
        return answer["structuredContent"]
    content = answer.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and "text" in content[0]:
        return content[0]["text"]
    return answer


def _describe_part(title: str, value: Any) -> dict[str, Any]:
    """Return a value of a call as text, None if it was not recorded; `is_cut` says that the text ends too early."""
    if value is None:
        return {"title": title, "text": None, "is_cut": False}
    text = value if isinstance(value, str) else str(format_json(value))
    return {"title": title, "text": text[:MAX_SHOWN_CHARACTERS], "is_cut": len(text) > MAX_SHOWN_CHARACTERS}


def _shorten_arguments(arguments: Any) -> str:
    """Return the beginning of some arguments as they stand in a call of Python; "" for those that are not recorded."""
    if not isinstance(arguments, dict):
        return ""
    parts: list[str] = []
    for name, value in arguments.items():
        parts.append(f"{name}={dump_json(value).decode()}")
        if sum(map(len, parts)) > MAX_GIST_CHARACTERS:
            break
    text = f"({', '.join(parts)})"
    return text if len(text) <= MAX_GIST_CHARACTERS else f"{text[: MAX_GIST_CHARACTERS - 1]}…"
