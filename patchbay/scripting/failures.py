"""Says why a script failed, with the line: its types, an exception of its own, or a limit of its run."""

from __future__ import annotations

import re

from pydantic_monty import MontyCrashedError, MontyError, MontyRuntimeError, MontySyntaxError, MontyTypingError

from patchbay.scripting.limits import RunLimits

SCRIPT = "script.py"
"""The name of a script in the messages of the type checker."""

MAX_TYPE_ERRORS = 10
MAX_MESSAGE_CHARACTERS = 2000

NO_CALL = "No call was made."

_TYPE_ERROR = re.compile(rf"^{re.escape(SCRIPT)}:(\d+):(\d+): \w+\[([\w-]+)\] (.*)$", re.MULTILINE)
_MEMORY = re.compile(r"^memory limit exceeded: \d+ bytes > \d+ bytes")
_PROCESS_MEMORY = re.compile(r"^the worker exceeded its memory limit")
_TIME = re.compile(r"^(?:feed|turn) time limit exceeded")
_SUSPENSIONS = re.compile(r"^suspension limit \d+ exceeded")


def describe_failure(problem: MontyError, limits: RunLimits, last_line: int) -> str:
    """Return why the interpreter ended a script; `last_line` is that of its last call, 0 without one."""
    if isinstance(problem, MontyTypingError):
        return _describe_types(str(problem))
    if isinstance(problem, MontyCrashedError):
        return _describe_crash(problem, limits, last_line)
    line = _line_of(problem)
    place = f"line {line}" if line else place_after(last_line)
    message = _message_of(problem)
    sentence = _describe_limit(problem, message, limits)
    if sentence:
        return f"{place}: {sentence}"
    return f"{place}: {str(problem)[:MAX_MESSAGE_CHARACTERS]}"


def is_harmless(problem: MontyError) -> bool:
    """Whether the interpreter may run another script: wrong types, or an exception that no limit raised."""
    if isinstance(problem, MontyTypingError | MontySyntaxError):
        return True
    harmful = (TimeoutError, MemoryError, RecursionError)
    return isinstance(problem, MontyRuntimeError) and not isinstance(problem.exception(), harmful)


def describe_time(limit: str, limits: RunLimits) -> str:
    """Return the sentence of a limit of time: `running_seconds` or `wall_seconds`."""
    if limit == "running_seconds":
        return f"the script works for more than {limits.running_seconds:g} s (limit running_seconds)"
    return f"the script takes more than {limits.wall_seconds:g} s (limit wall_seconds)"


def place_after(last_line: int) -> str:
    """Return where a script was that was ended in the middle of its work: the interpreter does not say the line."""
    return f"after the call of line {last_line}" if last_line else "before its first call"


def _describe_limit(problem: MontyError, message: str, limits: RunLimits) -> str:
    """Return the sentence of a limit of the run; "" for another exception."""
    kind = type(problem.exception())
    if kind is TimeoutError and _TIME.match(message):
        return describe_time("wall_seconds", limits)
    if kind is RuntimeError and _SUSPENSIONS.match(message):
        return f"it imports, calls, waits and sleeps more than {limits.suspensions} times (limit suspensions)"
    if kind is MemoryError and _MEMORY.match(message):
        return f"its values need more than {limits.memory_mib} MiB (limit memory_mib)"
    if kind is MemoryError and _PROCESS_MEMORY.match(message):
        return f"its values or its types need too much memory (limit memory_mib, {limits.memory_mib} MiB)"
    if kind is RecursionError:
        return "its functions call each other too deeply (limit recursion, 1000)"
    return ""


def _describe_crash(problem: MontyCrashedError, limits: RunLimits, last_line: int) -> str:
    place = place_after(last_line)
    if problem.timed_out:
        return f"{place}: {describe_time('wall_seconds', limits)}"
    return f"{place}: the interpreter ended; the script may need too much memory, or nest values too deeply"


def _describe_types(text: str) -> str:
    """Return the errors that a check of the types found, each with its line."""
    found = [f"line {line}: {words} ({rule})" for line, _, rule, words in _TYPE_ERROR.findall(text)]
    shown = found[:MAX_TYPE_ERRORS] or [text.strip()[:MAX_MESSAGE_CHARACTERS]]
    more = [f"and {len(found) - MAX_TYPE_ERRORS} more"] if len(found) > MAX_TYPE_ERRORS else []
    return "\n".join([f"The script does not fit its tools. {NO_CALL}", *shown, *more])


def _line_of(problem: MontyError) -> int:
    """Return the line of the script in which an exception was raised; 0 if unknown."""
    if not isinstance(problem, MontyRuntimeError | MontySyntaxError):
        return 0
    frames = problem.traceback()
    return frames[-1].line if frames else 0


def _message_of(problem: MontyError) -> str:
    inner = problem.exception()
    return str(inner.args[0]) if inner.args else ""
