"""How one function of a Python definition is run, wherever that happens: a runner thread or a host process.

Call it with the arguments it asks for, send up what it yields, give back the events of what it
returns. Where events go and questions are answered is the Job's affair.
Sources: DESIGN sections 5 and 6; REQUIREMENTS T5.5, T5.7, T5.8, T12.5, T13.*, V-F5.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from typing import Any, Protocol

from patchbay.activation import Call
from patchbay.events import Event, Question
from patchbay.kinds.python.context import Context
from patchbay.kinds.python.definitions import Definition
from patchbay.kinds.python.redirects import follow
from patchbay.outputs import Redirected, events_of


class FunctionCall(Protocol):
    """One call as the code that runs it sees it. `loop` is the event loop it runs in, where it needs one."""

    loop: asyncio.AbstractEventLoop | None

    def emit(self, event: Event) -> None:
        """Send an event up; waits while nobody takes it. Raises Stopped when the call is over."""
        ...

    def ask(self, questions: Mapping[str, Question]) -> Any:
        """Send questions up and wait for a map of results, or None. Raises Stopped when the call is over."""
        ...


def work(definition: Definition, call: Call, job: FunctionCall) -> list[Event]:
    """Call the function, send up what it yields; answers the events of what it returns. Raises what it raises."""
    return finish(call_function(definition, call, job), call, job)


def call_function(definition: Definition, call: Call, job: FunctionCall | None) -> Any:
    """What the function returns. Without `job` it is a function that takes no context. Raises what it raises."""
    function = definition.function(call.target.get("function", "main"))
    arguments = function.bind(call.arguments)
    if function.takes_context and job is not None:
        arguments["context"] = Context(call, job.emit, job.ask)
    return function.call(**arguments)


def finish(value: Any, call: Call, job: FunctionCall) -> list[Event]:
    """Send up what a returned value yields; answers the events of what it is or returns. Raises what it raises."""
    if not isinstance(value, str):
        if isinstance(value, (Awaitable, AsyncIterator)):
            value = asyncio.run(_awaited(value, call, job))
        if isinstance(value, Iterator):
            value = _drained(value, call, job)
    return list(events_of_value(value, call))


def events_of_value(value: Any, call: Call) -> Iterator[Event]:
    """The events of a value that a function returned or yielded."""
    try:
        yield from events_of(value)
    except Redirected as elsewhere:
        yield from follow(elsewhere.location, call)


def _drained(stream: Iterator[Any], call: Call, job: FunctionCall) -> Any:
    """Send up what an iterator yields; answers what a generator returns in the end."""
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


async def _awaited(value: Awaitable[Any] | AsyncIterator[Any], call: Call, job: FunctionCall) -> Any:
    """The same for what needs an event loop, which lives as long as the call."""
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
