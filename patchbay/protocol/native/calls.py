"""One native call at work: the events of a tool, under the same terms as an MCP call, and none of them collected.

What a whole result would be checked for is checked on the way: each text against the limit of one result, and at the
end what the tool promised. Only what these checks need is kept.
Sources: REQUIREMENTS SUB-1, SUB-5, SUB-C3, X-14, X-15; DESIGN section 6.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace

from patchbay.activation import Call, CancelFlag
from patchbay.catalogue.servers import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import MissingCapability
from patchbay.events import LOG_LEVELS, Ask, Content, Data, Detach, Done, Event, Failed, Log, Text
from patchbay.jsonrpc import Rendered, Result
from patchbay.protocol.callers import Wire
from patchbay.protocol.incidents import incident
from patchbay.protocol.native.names import Misled, Params, arguments_for
from patchbay.protocol.request_context import Desk
from patchbay.protocol.results.large import Keep, limited
from patchbay.protocol.tools import broken_promise, new_call
from patchbay.views.fold import Fold, shown

log = logging.getLogger(__name__)

LOG_LEVEL = "info"
"""Least level of the log lines that are told."""

UNTOLD = LOG_LEVELS[: LOG_LEVELS.index(LOG_LEVEL)]
"""The levels below it."""

NO_QUESTIONS = "the native interface cannot ask its caller: call this tool over MCP"


def events_of(
    desk: Desk, server: Server, descriptor: Descriptor, params: Params, wire: Wire, flag: CancelFlag
) -> Generator[Event, None, None]:
    """The events of a tool, up to its ending; the call leaves a record. Closing them cancels it. Raises Misled."""
    try:
        arguments = arguments_for(server, descriptor, params)
    except Misled:
        with desk.activity.begin("tools/call", descriptor.name, server, wire):
            raise
    name = f"{server.name}.{descriptor.name}"
    terms = {"principal": wire.principal, "log_level": LOG_LEVEL, "chain": (name,), "cancelled": flag}
    call = new_call(desk.catalogue, server, descriptor, arguments, **terms)
    keep = desk.keep(wire.principal)
    told = closing(_told(desk, server, descriptor, call, keep))
    with desk.activity.begin("tools/call", descriptor.name, server, wire, arguments) as run, told as events:
        call.meta = run.calls(descriptor, call.deadline, call.meta)
        for event in events:
            run.saw(event)
            if isinstance(event, (Done, Failed)):
                run.deadline = call.deadline
                run.end(None if flag else _recorded(event))
            yield event


def _recorded(ending: Done | Failed) -> Result:
    """What a record tells of the end: what was said on the way was not collected."""
    if isinstance(ending, Done):
        return Result(0, Rendered(b""))
    return Result(0, {"content": [{"type": "text", "text": ending.message}], "isError": True})


def _told(desk: Desk, server: Server, descriptor: Descriptor, call: Call, keep: Keep) -> Generator[Event, None, None]:
    """What a call says, each within the limit of one result; its ending checks what the tool promised."""
    outcome = Outcome(server, descriptor)
    events = server.activate(descriptor, call)
    try:
        for event in events:
            if isinstance(event, Ask):
                yield Failed(NO_QUESTIONS)
                return
            if isinstance(event, Detach):
                # As much time as a task has: the subscriber is there for as long as it likes.
                call.deadline = time.monotonic() + desk.settings.task_minutes * 60
            outcome.add(event)
            if isinstance(event, (Done, Failed)):
                yield outcome.ending(event, desk)
            elif not (isinstance(event, Log) and event.level in UNTOLD):
                yield from _within(event, descriptor, desk.settings.inline_limit, keep)
    except Exception:
        # Said before the events are closed: that cancels the call, and after a cancel nothing is said.
        yield Failed(incident(log, f"in the native call {server.name}.{descriptor.name}").message)
    finally:
        events.close()


class Outcome:
    """What has to be known at the end of a call: all of it where a resource shows it, or the value it promised."""

    def __init__(self, server: Server, descriptor: Descriptor) -> None:
        self._server = server
        self._descriptor = descriptor
        self._shown = descriptor.name in server.remembered
        self._promised = "outputSchema" in descriptor.wire
        self._fold = Fold()
        self._values = {True: 0, False: 0}

    def add(self, event: Event) -> None:
        """Take one event in, if it matters."""
        if self._shown or (self._promised and isinstance(event, Data) and self._counts(event)):
            self._fold.add(event)

    def _counts(self, event: Data) -> bool:
        # Of each sort, with words of its own or without, the second already says that there is more than one.
        self._values[bool(event.text)] += 1
        return self._values[bool(event.text)] <= 2

    def ending(self, ending: Done | Failed, desk: Desk) -> Done | Failed:
        """The ending, or the failure to keep the promise; what a resource shows is remembered."""
        if isinstance(ending, Failed):
            unable = isinstance(ending.error, MissingCapability)
            return replace(ending, message=f"{ending.message}; {NO_QUESTIONS}") if unable else ending
        if not (self._shown or self._promised):
            return ending
        self._fold.add(ending)
        result = self._fold.result()
        sentence = broken_promise(self._server, self._descriptor, result)
        if sentence is not None:
            return Failed(sentence)
        desk.catalogue.remember(self._server, self._descriptor.name, result)
        return ending


def _within(event: Event, descriptor: Descriptor, limit: int, keep: Keep) -> tuple[Event, ...]:
    """An event, or what stands for one with a text beyond the limit: its head and a link (X-14)."""
    text = _text_of(event)
    promised = isinstance(event, Data) and not event.text and "outputSchema" in descriptor.wire
    # A character takes at most four bytes in UTF-8: most texts are passed without encoding them.
    if text is None or len(text) * 4 <= limit or promised:
        return (event,)
    whole = {"content": [{"type": "text", "text": text}]}
    cut = limited(whole, keep, limit, descriptor)
    return (event,) if cut["content"] == whole["content"] else tuple(Content(block) for block in cut["content"])


def _text_of(event: Event) -> str | None:
    """The text that an event would be in a result, or None."""
    if isinstance(event, Text):
        return event.text
    if isinstance(event, Data):
        return shown(event.value) if event.text is None else event.text
    block = event.block if isinstance(event, Content) else {}
    return str(block["text"]) if block.get("type") == "text" else None
