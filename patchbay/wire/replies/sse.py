"""The bodies of event streams, and their end when the reader leaves.

Closing a stream of 2026-07-28 cancels its call. In older revisions the call continues, and in a session its messages
are stored for replay. `front/slow_clients.py` closes the connection of a client that does not read.
Source: MCP specification, basic/transports (resumability) and basic/utilities/cancellation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from patchbay.background import run_in_background
from patchbay.catalogue.contents.ledger import Ledger
from patchbay.coordination.process_liveness import Heartbeat
from patchbay.errors import ContentError
from patchbay.events import Detach, Pause, Wait
from patchbay.jsonrpc import Message, Notification, Request, Sign, encode
from patchbay.messages.callers import Caller, LegacySession
from patchbay.messages.versions import Revision
from patchbay.protocol.results.event_limits import fitted
from patchbay.protocol.results.result_limits import Keep
from patchbay.protocol.streams.replay import LISTENER, Recorder
from patchbay.protocol.streams.subscriptions import NumberedMessage
from patchbay.settings import Settings
from patchbay.views.sse import COMMENT, event, priming
from patchbay.wire.replies.reply import CallBody

log = logging.getLogger(__name__)

HANG_UP = b""
"""In place of a frame: the client may disconnect, and the rest is stored for it."""


def stream_body(
    first: Message | Sign | None,
    answers: Iterator[Message | Sign],
    request: Request,
    caller: Caller,
    heartbeat: Heartbeat,
    settings: Settings,
    keep: Keep,
    leave: Callable[[], None] | None,
    ledger: Ledger | None = None,
) -> Body:
    """Return the stream that answers one POST with the message `request`; `first` was already taken from `answers`.

    `keep` stores parts that are too large for an event; `leave` cancels the call when its reader leaves, and None lets
    it go on; `ledger` counts what is kept for replay.
    """
    recorder = _recorder(caller.session, request, heartbeat, settings, ledger) if caller.session is not None else None
    frames = _framed(_frames(first, answers, caller, recorder, keep), recorder)
    return Body(frames, answers, leave)


def _recorder(
    session: LegacySession, request: Request, heartbeat: Heartbeat, settings: Settings, ledger: Ledger | None
) -> Recorder | None:
    """Return the recorder of a session's stream for replay; if the store fails, log a warning and return None."""
    seconds, most = settings.replay_minutes * 60, settings.replay_size
    try:
        return Recorder(heartbeat.liveness.store, session, seconds, request.id, heartbeat, most, ledger)
    except ContentError as problem:
        log.warning("a stream cannot be stored for replay: %s", problem.message)
        return None


class Body(CallBody):
    """The stream of a call, which notices when its reader has left. One thread at a time may use it.

    `leave` cancels the call then; without it, the call goes on.
    """

    def __init__(
        self, frames: Iterator[bytes | Wait], answers: Iterator[Message | Sign], leave: Callable[[], None] | None
    ) -> None:
        self.leave = leave
        self._frames = frames
        self._answers = answers
        self._finished = False
        self._handed_on = False

    def next_step(self) -> bytes | Wait | None:
        """Return the next frame or Wait; None at the end."""
        frame = None if self._finished else next(self._frames, None)
        if frame is None:
            self._finished = True
        elif frame is HANG_UP:
            self._go_on()
            return None
        return frame

    def close(self) -> None:
        """Close the body; the server calls this at the end, or when the reader has left."""
        if self.leave is None and not self._finished:
            self._go_on()
        elif not self._handed_on:
            self._finished = True
            closing = getattr(self._answers, "close", None)
            if closing is not None:
                closing()

    def _go_on(self) -> None:
        """Run the rest of the call without a reader."""
        self._finished = self._handed_on = True
        self._start_thread()

    def _start_thread(self) -> None:
        # A thread of its own: those for requests are counted, and this call is no longer the answer to one.
        run_in_background("call without a reader", self._finish)

    def _finish(self) -> None:
        """Run a legacy call without a reader to its next Wait, or to its end, at most until its deadline."""
        for step in self._frames:
            if isinstance(step, Wait) and self.rest is not None:
                self.rest(step, self._start_thread)
                return


def _framed(frames: Iterator[bytes | Wait], recorder: Recorder | None) -> Iterator[bytes | Wait]:
    try:
        yield from frames
    finally:
        if recorder is not None:
            recorder.leave()


def _frames(
    first: Message | Sign | None,
    answers: Iterator[Message | Sign],
    caller: Caller,
    recorder: Recorder | None,
    keep: Keep,
) -> Iterator[bytes | Wait]:
    if recorder is not None and caller.revision.priming:
        yield priming(f"{recorder.name}-0")
    item = first
    while item is not None:
        if isinstance(item, Pause):
            yield COMMENT
            if (wait := item.wait) is not None:
                yield wait
        elif isinstance(item, Wait):  # only listening streams have Waits
            item.mailbox.wait(item.seconds)
        elif isinstance(item, Detach):
            yield HANG_UP
        elif recorder is None:
            yield event(fitted(item, keep))
        else:
            data = fitted(item, keep)
            yield event(data, recorder.keep(data, needed=not isinstance(item, Notification)))
        item = next(answers, None)
    if recorder is not None:
        recorder.end()


def subscription_body(
    first: Message | Sign | None, answers: Iterator[Message | Sign], keep: Keep
) -> Iterator[bytes | Wait]:
    """Yield the stream of a `subscriptions/listen`; `first` was already taken from `answers`, which end with it."""
    try:
        item, first = first, None  # a stream that rests keeps no message
        while item is not None:
            if isinstance(item, Wait):
                yield item
            elif not isinstance(item, Detach):
                yield COMMENT if isinstance(item, Pause) else event(fitted(item, keep))
            item = next(answers, None)
    finally:
        closing = getattr(answers, "close", None)
        if closing is not None:
            closing()


def replay_body(events: Iterator[tuple[str, bytes] | Pause | Wait]) -> Iterator[bytes | Wait]:
    """Yield the rest of a resumed stream, from event ids and messages."""
    for item in events:
        if isinstance(item, Wait):
            yield item
        else:
            yield COMMENT if isinstance(item, Pause) else event(item[1], item[0])


def listener_body(changes: Iterator[NumberedMessage | Pause | Wait], revision: Revision) -> Iterator[bytes | Wait]:
    """Yield a session's GET stream; in a revision with priming events it begins with its number."""
    for item in changes:
        if isinstance(item, Wait):
            yield item
        elif isinstance(item, Pause):
            yield COMMENT
        elif item.message is None:
            yield priming(f"{LISTENER}-{item.number}") if revision.priming else COMMENT
        else:
            yield event(encode(item.message), None if item.number is None else f"{LISTENER}-{item.number}")
