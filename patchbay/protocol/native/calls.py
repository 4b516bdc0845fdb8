"""One native call at work: the events of a tool, under the same terms as an MCP call, passed on as they come.

Each text is held to the limit of one result; `run_tool` checks the rest.
Sources: REQUIREMENTS SUB-1, SUB-5, SUB-C3, X-14, X-15; DESIGN section 6.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from typing import Any

from patchbay.activation import CancelFlag
from patchbay.catalogue.servers import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import MissingCapability, WrongArguments
from patchbay.events import LOG_LEVELS, Ask, Detach, Done, Event, Failed, Log
from patchbay.jsonrpc import Rendered, Result
from patchbay.protocol.callers import TransportInfo
from patchbay.protocol.incidents import incident
from patchbay.protocol.native.names import Params, TooMany, bound, unfit
from patchbay.protocol.request_context import HubServices
from patchbay.protocol.run_tool import ToolRun, run_tool

log = logging.getLogger(__name__)

LOG_LEVEL = "info"
"""Least level of the log lines that are told."""

UNTOLD = LOG_LEVELS[: LOG_LEVELS.index(LOG_LEVEL)]
"""The levels below it."""

NO_QUESTIONS = "the native interface cannot ask its caller: call this tool over MCP"


def events_of(
    desk: HubServices, server: Server, descriptor: Descriptor, params: Params, wire: TransportInfo, flag: CancelFlag
) -> Generator[Event, None, None]:
    """The events of a tool, up to its ending; the call leaves a record. Closing them cancels it. Raises Misled."""
    schema = descriptor.wire["inputSchema"]
    try:
        arguments = bound(params, list(schema.get("properties", {})), schema.get("required", ()))
    except TooMany as problem:
        with desk.activity.begin("tools/call", descriptor.name, server, wire):
            raise unfit(server, descriptor, problem.message) from problem
    with desk.activity.begin("tools/call", descriptor.name, server, wire, arguments) as record:
        run = _run(desk, server, descriptor, arguments, wire, flag)
        run.call.meta = record.calls(descriptor, run.call.deadline, run.call.meta)
        with closing(_told(desk, run)) as events:
            for event in events:
                record.saw(event)
                if isinstance(event, (Done, Failed)):
                    record.deadline = run.call.deadline
                    record.end(None if flag else _recorded(event))
                yield event


def _run(
    desk: HubServices,
    server: Server,
    descriptor: Descriptor,
    arguments: dict[str, Any],
    wire: TransportInfo,
    flag: CancelFlag,
) -> ToolRun:
    terms: dict[str, Any] = {"principal": wire.principal, "log_level": LOG_LEVEL, "cancelled": flag}
    reference = desk.reference(wire.principal)
    try:
        return run_tool(desk.catalogue.hub, server, descriptor, arguments, reference, passed_on=True, **terms)
    except WrongArguments as problem:
        raise unfit(server, descriptor, problem.message) from problem


def _recorded(ending: Done | Failed) -> Result:
    """What a record tells of the end: what was said on the way was not collected."""
    if isinstance(ending, Done):
        return Result(0, Rendered(b""))
    return Result(0, {"content": [{"type": "text", "text": ending.message}], "isError": True})


def _told(desk: HubServices, run: ToolRun) -> Generator[Event, None, None]:
    """What a call says, each within the limit of one result."""
    try:
        for event in run.events:
            if isinstance(event, Ask):
                yield Failed(NO_QUESTIONS)
                return
            if isinstance(event, Detach):
                # As much time as a task has: the subscriber is there for as long as it likes.
                run.call.deadline = time.monotonic() + desk.settings.task_minutes * 60
            if isinstance(event, Failed) and isinstance(event.error, MissingCapability):
                yield replace(event, message=f"{event.message}; {NO_QUESTIONS}")
            elif not (isinstance(event, Log) and event.level in UNTOLD):
                yield from run.within_limit(event)
    except Exception:
        # Said before the events are closed: that cancels the call, and after a cancel nothing is said.
        yield Failed(incident(log, f"in the native call {run.server.name}.{run.descriptor.name}").message)
    finally:
        run.events.close()
