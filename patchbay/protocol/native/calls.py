"""Runs one native call: passes the events of a tool on at once, under the same terms as an MCP call.

Each text is limited to the size of one result; `run_tool` makes the other checks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from typing import Any

from patchbay.activation import CancelFlag
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import MissingCapability, WrongArguments
from patchbay.events import LOG_LEVELS, Ask, Detach, Done, Event, Failed, Log
from patchbay.jsonrpc import Rendered, Result
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.hub_services import HubServices
from patchbay.protocol.incidents import incident
from patchbay.protocol.native.names import Params, TooMany, bound, unfit
from patchbay.protocol.run_tool import ToolRun, run_tool

log = logging.getLogger(__name__)

LOG_LEVEL = "info"
"""Lowest level of log lines that a native caller gets."""

UNTOLD = LOG_LEVELS[: LOG_LEVELS.index(LOG_LEVEL)]
"""The levels below it."""

NO_QUESTIONS = "the native interface cannot ask its caller: call this tool over MCP"


def events_of(
    services: HubServices, server: Server, descriptor: Descriptor, params: Params, wire: TransportInfo, flag: CancelFlag
) -> Generator[Event, None, None]:
    """Yield the events of a tool up to its ending, and record the call. Closing cancels it. Raises CannotBegin."""
    schema = descriptor.wire["inputSchema"]
    try:
        arguments = bound(params, list(schema.get("properties", {})), schema.get("required", ()))
    except TooMany as problem:
        with services.activity.begin("tools/call", descriptor.name, server, wire):
            raise unfit(server, descriptor, problem.message) from problem
    with services.activity.begin("tools/call", descriptor.name, server, wire, arguments) as record:
        run = _run(services, server, descriptor, arguments, wire, flag)
        run.call.meta = record.calls(descriptor, run.call)
        with closing(_limited_events(services, run)) as events:
            for event in events:
                record.saw(event)
                if isinstance(event, (Done, Failed)):
                    record.deadline = run.call.deadline
                    record.end(None if flag else _recorded(event))
                yield event


def _run(
    services: HubServices,
    server: Server,
    descriptor: Descriptor,
    arguments: dict[str, Any],
    wire: TransportInfo,
    flag: CancelFlag,
) -> ToolRun:
    terms: dict[str, Any] = {"principal": wire.principal, "sender": wire.sender, "log_level": LOG_LEVEL}
    terms |= {"find_base_url": wire.find_base_url, "find_header": wire.find_header}
    terms["cancelled"] = flag
    reference = services.reference(wire.principal)
    try:
        return run_tool(services.catalogue.hub, server, descriptor, arguments, reference, terms, passed_on=True)
    except WrongArguments as problem:
        raise unfit(server, descriptor, problem.message) from problem


def _recorded(ending: Done | Failed) -> Result:
    """Return the result for the record: only the ending, because the events are not collected."""
    if isinstance(ending, Done):
        return Result(0, Rendered(b""))
    return Result(0, {"content": [{"type": "text", "text": ending.message}], "isError": True})


def _limited_events(services: HubServices, run: ToolRun) -> Generator[Event, None, None]:
    """Yield the events of a call, each within the limit of one result."""
    try:
        for event in run.events:
            if isinstance(event, Ask):
                yield Failed(NO_QUESTIONS)
                return
            if isinstance(event, Detach):
                # The subscriber stays connected, so the call gets as much time as a task.
                run.call.deadline = time.monotonic() + services.settings.task_minutes * 60
            if isinstance(event, Failed) and isinstance(event.error, MissingCapability):
                yield replace(event, message=f"{event.message}; {NO_QUESTIONS}")
            elif not (isinstance(event, Log) and event.level in UNTOLD):
                yield from run.within_limit(event)
    except Exception:
        # Yield before closing the events: closing cancels the call, and a cancelled call yields no items.
        yield Failed(incident(log, f"in the native call {run.server.name}.{run.descriptor.name}").message)
    finally:
        run.events.close()
