"""Python definitions as tools: `target["function"]` names the function, arguments come by keyword.

A function may return, yield, await or do these together; what a value means stands in
`outputs.py`. The yielded values of a generator go out at once, then what it returns.
Sources: DESIGN sections 5 and 6; REQUIREMENTS T5.5, T5.7, T5.8, T12.5, T13.*, V-F5.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

from patchbay.activation import Call, Events, Handler
from patchbay.events import Event
from patchbay.handlers.context import Context
from patchbay.handlers.definitions import Definition, definition_of
from patchbay.handlers.redirects import follow
from patchbay.handlers.runners import Job
from patchbay.outputs import Redirected, events_of


def python_handler(source: bytes, cid: str, name: str) -> Handler:
    """What runs the functions of a definition. Nothing is compiled before the first call.

    The handler raises what the function raises, and ToolFailed when the definition cannot be
    loaded, the arguments do not fit, or all threads are taken.
    """
    definition = definition_of(source, cid, name)

    def handle(call: Call) -> Events:
        return definition.pool.run(lambda job: _work(definition, call, job), call)

    return handle


def _work(definition: Definition, call: Call, job: Job) -> list[Event]:
    """On the runner: call the function, send up what it yields, give back the events of what it returns."""
    function = definition.function(call.target.get("function", "main"))
    arguments = function.bind(call.arguments)
    if function.takes_context:
        arguments["context"] = Context(call, job.emit, job.ask)
    value = function.call(**arguments)
    if not isinstance(value, str):
        if isinstance(value, (Awaitable, AsyncIterator)):
            value = asyncio.run(_awaited(value, call, job))
        if isinstance(value, Iterator):
            value = _drained(value, call, job)
    return list(_events(value, call))


def _events(value: Any, call: Call) -> Iterator[Event]:
    try:
        yield from events_of(value)
    except Redirected as elsewhere:
        yield from follow(elsewhere.location, call)


def _drained(stream: Iterator[Any], call: Call, job: Job) -> Any:
    """Send up what an iterator yields; answers what a generator returns in the end."""
    try:
        while True:
            try:
                value = next(stream)
            except StopIteration as end:
                return end.value
            for event in _events(value, call):
                job.emit(event)
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            close()


async def _awaited(value: Awaitable[Any] | AsyncIterator[Any], call: Call, job: Job) -> Any:
    """The same for what needs an event loop, which lives as long as the call."""
    job.loop = asyncio.get_running_loop()
    if isinstance(value, Awaitable):
        return await value
    try:
        async for item in value:
            for event in _events(item, call):
                job.emit(event)
    finally:
        close = getattr(value, "aclose", None)
        if close is not None:
            await close()
    return None
