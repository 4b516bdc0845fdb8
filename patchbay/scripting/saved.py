"""Runs a saved script, which is a tool of a toolset: its function gets the arguments of the call by name.

What the function returns is the result of the tool, as that of a function of a Python definition; what it prints comes
before it as text.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from patchbay.activation import Call, Events
from patchbay.catalogue.servers.server import Server
from patchbay.events import Content, Data, Done, Event
from patchbay.outputs.conversion import events_of
from patchbay.python_functions.script_function import ScriptFunction
from patchbay.scripting.front import runs_of
from patchbay.scripting.modules import words_of
from patchbay.scripting.stubs.names import FreeNames


def run_saved(server: Server, script: ScriptFunction, arguments: dict[str, Any], call: Call) -> Events:
    """Yield the events of a saved script with these arguments. It calls the tools of `server`. Raises ToolFailed."""
    inner = replace(call, arguments=script_arguments(script, arguments))
    events = runs_of(call).run(server, inner)
    reply: Any = None
    try:
        while True:
            event = events.send(reply)
            call.run = inner.run  # which the record of the call has
            call.deadline = max(call.deadline, inner.deadline)  # a person may take longer than a run
            reply = yield from _result_of(event)
    except StopIteration:
        pass
    finally:
        events.close()
        call.run = inner.run
    yield Done()  # an expression over the result begins with it


def script_arguments(script: ScriptFunction, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `run_script` that call the function of a saved script.

    The arguments come as one value, under a name that the script does not use: no parameter can hide a name of it.
    """
    given = FreeNames(words_of(script.code)).take("given")
    wait = "await " if script.is_async else ""
    return {"code": f"{script.code}\n\n{wait}{script.name}(**{given})\n", "inputs": {given: arguments}}


def _result_of(event: Event) -> Generator[Event, Any, Any]:
    """Yield an event of a run as one of the tool: its value as the result, in place of the value with all calls.

    Returns the reply to the event, for the run: the answers to a question.
    """
    if isinstance(event, Data):
        yield from events_of(event.value["value"])
    elif not isinstance(event, Content):
        return (yield event)
    return None
