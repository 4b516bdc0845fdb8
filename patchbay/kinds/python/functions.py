"""Run one function of a Python definition, on a runner thread or in a worker process.

Call it with its arguments, emit the values it yields, and return the events of its result. The FunctionCall delivers
events and questions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

from patchbay.activation import Call
from patchbay.events import Event, Question, Text
from patchbay.kinds.python.content_files import ContentFiles
from patchbay.kinds.python.context import Context
from patchbay.kinds.python.definitions import Definition
from patchbay.outputs.conversion import Redirected, clean, events_of
from patchbay.outputs.redirects import follow_redirect
from patchbay.raised.exceptions import attach_raised
from patchbay.threads.interrupts import Stopped


class FunctionCall(Protocol):
    """One call as the code that runs it sees it. `loop` is its event loop, where it has one."""

    loop: asyncio.AbstractEventLoop | None

    def emit(self, event: Event) -> None:
        """Emit an event; waits until it is taken. Raises Stopped when the call has ended."""
        ...

    def ask(self, questions: Mapping[str, Question]) -> Any:
        """Send questions and wait for a map of results, or None. Raises Stopped when the call has ended."""
        ...


def run_function(definition: Definition, call: Call, job: FunctionCall) -> list[Event]:
    """Call the function, emit the values it yields, return the events of its result. Raises the function's errors."""
    files = ContentFiles()
    try:
        return emit_value(call_function(definition, call, job, files), call, job)
    finally:
        files.close()


def attaching(definition: Definition, work: Callable[..., list[Event]], *arguments: Any) -> list[Event]:
    """Do work with the code of a definition; attach the frames of that code to what it raises (`raised/`)."""
    try:
        return work(*arguments)
    except Stopped:
        raise
    except BaseException as problem:
        attach_raised(problem, definition.find_raised(problem))
        raise


def call_function(
    definition: Definition, call: Call, job: FunctionCall | None, files: ContentFiles | None = None
) -> Any:
    """Return the value of the function. Without `job` the function takes no context. Raises the function's errors.

    `files` holds the contents that the function takes as files, until its call has ended.
    """
    function = definition.function(call.target.get("function", "main"))
    arguments = function.bind(call.arguments, files)
    if function.takes_context and job is not None:
        arguments["context"] = Context(call, job.emit, job.ask)
    return function.call(**arguments)


def emit_value(value: Any, call: Call, job: FunctionCall) -> list[Event]:
    """Emit what a returned iterator yields; return the events of the result. Raises the function's errors."""
    if not isinstance(value, str):
        if isinstance(value, (Awaitable, AsyncIterator)):
            value = asyncio.run(_await_value(value, call, job))
        if isinstance(value, Iterator):
            value = _drain(value, call, job)
    return list_events(value, call)


def list_events(value: Any, call: Call) -> list[Event]:
    """Return the events of a value that a function returned. Most values are texts, which are quicker than all others.

    Raises what `events_of_value` raises.
    """
    return [Text(clean(value))] if type(value) is str else list(events_of_value(value, call))


def events_of_value(value: Any, call: Call) -> Iterator[Event]:
    """The events of a value that a function returned or yielded."""
    try:
        yield from events_of(value)
    except Redirected as elsewhere:
        yield from follow_redirect(elsewhere.location, call)


def _drain(stream: Iterator[Any], call: Call, job: FunctionCall) -> Any:
    """Emit the values of an iterator; return the return value of a generator."""
    try:
        while True:
            try:
                value = next(stream)
            except StopIteration as end:
                return end.value
            for event in events_of_value(value, call):
                job.emit(event)
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            close()


async def _await_value(value: Awaitable[Any] | AsyncIterator[Any], call: Call, job: FunctionCall) -> Any:
    """Await a value or emit the values of an async iterator, in an event loop that lives as long as the call."""
    job.loop = asyncio.get_running_loop()
    if isinstance(value, Awaitable):
        return await value
    try:
        async for item in value:
            for event in events_of_value(item, call):
                job.emit(event)
    finally:
        close = getattr(value, "aclose", None)
        if close is not None:
            await close()
    return None
