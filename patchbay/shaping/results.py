"""Results of tools as a toolset shapes them: by a jq expression over what the origin gives.

The expression gets the structured result, else the text as a string; it gives exactly one value.
Nothing else of the result of the origin reaches the caller: no text, no other content, no metadata. Who uses an
expression to leave something out can rely on it. A failure of the origin has its message alone.

Source: the jq manual (https://jqlang.org/manual/); MCP specification 2026-07-28, server/tools, structured content.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from patchbay.activation import Call, Events, Hub
from patchbay.errors import ConfigError, ParseError, ToolFailed
from patchbay.events import Content, Data, Done, Ending, Event, Failed, Progress, Text, ToolUse
from patchbay.jsonrpc import dump_json, parse
from patchbay.processes.jq_processes import ExpressionFailed, ExpressionInvalid, ExpressionStopped, JqProcesses
from patchbay.shaping.sample_values import NoSample, make_sample
from patchbay.views.fold import Fold

log = logging.getLogger(__name__)

EXPRESSIONS = "/jq expressions"
"""The name under which the hub keeps the processes of expressions; no server can have it."""

CHECK_SECONDS = 10.0
"""Time that the check of one expression may take, in seconds."""

STOPPED_SECONDS = 60.0
"""Seconds for which a check that was ended by a limit is not repeated: each one may take all of its time again."""

MAX_NAMED_MEMBERS = 8
"""Members of an object that the log names when an expression fails for it."""

MAX_SHOWN_CHARACTERS = 200
"""Characters of an expression that an error shows."""

_OF_TYPES = re.compile(r"(Cannot iterate over|Cannot index|Cannot check whether) (\w+)(?: with (\w+))?")
"""The errors of jq about types, without the values that may follow."""

_NOT_FITTING = re.compile(r"Cannot (?:iterate over|index) (?:null|boolean|number|string|array|object)\b")
"""The errors that show that an expression does not fit the types of what it is given."""


class _Checks:
    """The process of this one that checks expressions: starting one for each costs a hundred times a check.

    One check runs at a time, so that none loses its time by waiting for another. The process ends with this one.
    """

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)
        atexit.register(self.close)

    def renew(self) -> None:
        """Begin anew, as a forked process does: it leaves the socket of its parent alone, and a lock that is held."""
        self.lock = threading.Lock()
        self.processes = JqProcesses(1)

    def close(self) -> None:
        """End the process."""
        self.processes.close()


CHECKS = _Checks()


class _StoppedChecks:
    """The checks that a limit ended lately, with the reason. Thread-safe.

    The machine may have been busy, so that the next check may find nothing wrong: they are kept for a short time.
    """

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, bytes], tuple[float, str]] = {}
        self._lock = threading.Lock()

    def find(self, key: tuple[str, bytes], now: float) -> str:
        """Return why a check was ended lately; empty if none was."""
        with self._lock:
            self._reasons = {one: found for one, found in self._reasons.items() if found[0] > now}
            return self._reasons.get(key, (0.0, ""))[1]

    def add(self, key: tuple[str, bytes], now: float, reason: str) -> None:
        """Remember why a check was ended."""
        with self._lock:
            self._reasons[key] = (now + STOPPED_SECONDS, reason)


STOPPED = _StoppedChecks()


def check_result(expression: str, output_schema: Mapping[str, Any] | None) -> None:
    """Check that an expression is valid, and fits the structured results that a schema describes.

    It is tried on a value that fits the schema. Raises ConfigError for one that is not valid, takes too much, or takes
    a member of what has none. Other failures prove nothing: the values of the trial are made up.
    """
    schema = dump_json(output_schema, is_sorted=True) if output_schema is not None else b""
    key = expression, schema
    reason = STOPPED.find(key, time.monotonic())
    try:
        reason = reason or _find_fault(expression, schema)
    except ExpressionStopped as problem:
        reason = f"cannot be used: {problem.message}"
        STOPPED.add(key, time.monotonic(), reason)
    except ToolFailed as problem:
        reason = f"cannot be checked: {problem.message}"
    if reason:
        raise ConfigError("", "", f"the jq expression {_short(expression)} {reason}")


@lru_cache(maxsize=1000)
def _find_fault(expression: str, schema: bytes) -> str:
    """Return what is wrong with an expression, as the end of a sentence; empty if nothing is.

    Raises ExpressionStopped when a limit ended the check, and ToolFailed when no process can be started; neither is
    remembered here.
    """
    try:
        with CHECKS.lock:
            CHECKS.processes.check(expression, CHECK_SECONDS)
            if schema:
                CHECKS.processes.run(expression, dump_json(make_sample(parse(schema))), CHECK_SECONDS)
    except NoSample:
        return ""
    except ExpressionInvalid as problem:
        return f"is not valid: {problem.message}"
    except ExpressionStopped:
        raise
    except ExpressionFailed as problem:
        if _NOT_FITTING.match(problem.message):
            return f"does not fit the outputSchema of its origin: {_without_values(problem.message, expression)}"
    return ""


def shape_result(expression: str, events: Events, call: Call) -> Events:
    """Yield the events of an origin with the value of an expression in place of its result."""
    fold = Fold()
    reply: Any = None
    try:
        while True:
            event = events.send(reply)
            reply = None
            if isinstance(event, (Done, Failed)):
                yield from _shaped(expression, event, fold, call)
                return
            shown = _without_output(event)
            if shown is not event:
                fold.add(event)
            if shown is not None:
                reply = yield shown
    except StopIteration:
        return
    finally:
        events.close()


def _without_output(event: Event) -> Event | None:
    """Return an event that is not a part of the result; None for one that is, or that names another tool."""
    if isinstance(event, (Text, Content, Data, ToolUse)):
        return None
    return Progress(event.progress) if isinstance(event, Progress) and event.is_text else event


def _shaped(expression: str, ending: Ending, fold: Fold, call: Call) -> Events:
    """Yield the last events of a call: the value of the expression, or the failure of the origin."""
    fold.add(ending)
    if isinstance(ending, Failed) and ending.result is None:
        yield ending
        return
    result = fold.result()
    if isinstance(ending, Failed) or result.get("isError"):
        texts = [block for block in result.get("content", ()) if block.get("type") == "text"]
        failure = {"content": texts, "isError": True}
        yield Failed(_text_of(result), result=failure) if isinstance(ending, Failed) else Done(failure)
        return
    if "content" not in result:
        raise ToolFailed("the tool gave no result that its toolset can show")
    value = result["structuredContent"] if "structuredContent" in result else _text_of(result)
    found = _evaluate(expression, value, call)
    yield Text(found) if isinstance(found, str) else Data(found)
    yield Done()


def _text_of(result: Mapping[str, Any]) -> str:
    """Return the texts of a result, one below the other."""
    return "\n".join(str(block["text"]) for block in result.get("content", ()) if block.get("type") == "text")


def _evaluate(expression: str, value: Any, call: Call) -> Any:
    """Return the value of an expression. Raises ToolFailed, which names the expression and the form of its input."""
    assert call.hub is not None, "a toolset is served by a hub"
    try:
        given = dump_json(value)
        is_over = lambda: bool(call.cancelled)  # noqa: E731
        return parse(_processes(call.hub).run(expression, given, call.left(), is_over, call.principal))
    except (ExpressionFailed, ExpressionInvalid) as problem:
        log.warning(
            "%s: the jq expression %s failed%s: %s",
            call.shown or call.server,
            expression,
            _name_members(value),
            problem.message,
        )
        reason = (
            problem.message if isinstance(problem, ExpressionStopped) else _without_values(problem.message, expression)
        )
    except ParseError as problem:
        reason = f"what it gives is no result: {problem.message}"
    except (TypeError, ValueError):
        reason = "the result is no JSON"
    raise ToolFailed(f"the jq expression {_short(expression)} failed for {_describe(value)}: {reason}")


def _processes(hub: Hub) -> JqProcesses:
    found: JqProcesses = hub.kept(EXPRESSIONS, JqProcesses)
    return found


def _without_values(reason: str, expression: str) -> str:
    """Return the reason why jq failed without any part of the value: the expression may be there to leave it out."""
    of_types = _OF_TYPES.match(reason)
    if of_types is not None:
        return f"{of_types[1]} {of_types[2]}" + (f" with {of_types[3]}" if of_types[3] else "")
    is_of_operator = bool(reason) and (reason in expression or reason.startswith("it gives "))
    return reason if is_of_operator else "the log of the hub has the reason"


def _describe(value: Any) -> str:
    """Return the form of a value without its content: the names of members can be data too."""
    if isinstance(value, Mapping):
        count = f"{len(value)} member{'' if len(value) == 1 else 's'}"
        return f"an object with {count}" if value else "an empty object"
    if isinstance(value, list):
        return f"an array of {len(value)} values"
    if isinstance(value, str):
        return f"a text of {len(value)} characters"
    names_of_types = {bool: "a boolean", type(None): "null"}
    return names_of_types.get(type(value), "a number")


def _name_members(value: Any) -> str:
    """Return the first names of the members of an object for the log, as a part of a sentence."""
    if not isinstance(value, Mapping) or not value:
        return ""
    names = ", ".join(str(name)[:40] for name in list(value)[:MAX_NAMED_MEMBERS])
    return f" for an object with the members {names}{', ...' if len(value) > MAX_NAMED_MEMBERS else ''}"


def _short(expression: str) -> str:
    line = " ".join(expression.split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else f"{line[:MAX_SHOWN_CHARACTERS]}..."
