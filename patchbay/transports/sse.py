"""The bodies of event streams: what a WSGI server iterates over, and what happens when the reader leaves.

Closing a stream of 2026-07-28 cancels its call. Before that it does not: the rest of the call goes on
and is kept for replay (SPEC-DIGEST 1.8, 6.1 row 10). A reader that stays but does not read holds a thread of the
server, which nothing here can free; its call is treated as if it had left.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

from patchbay.events import Detach, Pause
from patchbay.jsonrpc import Message, Request, Sign, encode
from patchbay.protocol.callers import Caller
from patchbay.protocol.streams import LISTENER, Pulse, Recorder
from patchbay.protocol.subscriptions import Numbered
from patchbay.settings import Settings
from patchbay.views.sse import COMMENT, event, priming

log = logging.getLogger(__name__)

STALLED = 30.0
"""Seconds for which a reader may take nothing of what there is for it."""

HANG_UP = b""
"""In place of a frame: the reader may go, the rest is kept for it."""


def stream_body(
    first: Message | Sign | None,
    answers: Iterator[Message | Sign],
    said: Request,
    caller: Caller,
    pulse: Pulse,
    settings: Settings,
) -> Body:
    """The stream that answers one POST, which `said` something; `first` was already taken from `answers`."""
    session, seconds = caller.session, settings.replay_minutes * 60
    recorder = Recorder(pulse.ledger.store, session, seconds, said.id, pulse) if session is not None else None
    return Body(_framed(first, answers, caller, recorder), answers, recorder)


class Body:
    """An iterable that knows when its reader has left, or has ceased to read."""

    def __init__(
        self,
        frames: Iterator[bytes],
        answers: Iterator[Message | Sign],
        recorder: Recorder | None,
    ) -> None:
        self._frames = frames
        self._answers = answers
        self._recorder = recorder
        self._finished = False
        self._handed_on = False
        # Held while a frame is made. The rest of the time the server is handing the last one over.
        self._lock = threading.Lock()
        self._given = time.monotonic()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._lock:
            frame = None if self._finished else next(self._frames, None)
            self._given = time.monotonic()
            if frame is None:
                self._finished = True
                raise StopIteration
            if frame is HANG_UP:
                self._go_on()
                raise StopIteration
            return frame

    def close(self) -> None:
        """Called by the server at the end, or when the reader is gone."""
        with self._lock:
            self._leave()

    def over(self, seconds: float) -> bool:
        """Whether nothing more comes; a reader that has taken nothing for `seconds` is given up."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if not self._finished and time.monotonic() - self._given >= seconds:
                log.info("the reader of a stream took nothing for %g s; it is given up", seconds)
                self._leave()
            return self._finished
        finally:
            self._lock.release()

    def _leave(self) -> None:
        if self._recorder is not None and not self._finished:
            self._go_on()
        elif not self._handed_on:
            self._finished = True
            closing = getattr(self._answers, "close", None)
            if closing is not None:
                closing()

    def _go_on(self) -> None:
        """Let the rest run without a reader."""
        self._finished = self._handed_on = True
        threading.Thread(target=_finish, args=(self._frames,), daemon=True).start()


class Readers:
    """Watches the readers of one process's streams, in one thread, while there are any."""

    def __init__(self, seconds: float = STALLED) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._bodies: list[Body] = []
        self._watching = False
        self._never = threading.Event()

    def watch(self, body: Body) -> None:
        """Watch this one too, until it is over."""
        with self._lock:
            self._bodies.append(body)
            if self._watching:
                return
            self._watching = True
        threading.Thread(target=self._watch, name="readers", daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._never.wait(self._seconds / 4)
            with self._lock:
                bodies = tuple(self._bodies)
            over = {id(body) for body in bodies if self._over(body)}
            with self._lock:
                self._bodies = [body for body in self._bodies if id(body) not in over]
                if not self._bodies:
                    self._watching = False
                    return

    def _over(self, body: Body) -> bool:
        try:
            return body.over(self._seconds)
        except Exception:
            log.exception("a stream without a reader could not be ended; it is left alone")
            return True


def _finish(frames: Iterator[bytes]) -> None:
    """Let a legacy call that lost its reader run to its end, kept for replay; its own deadline bounds it."""
    for _ in frames:
        pass


def _framed(
    first: Message | Sign | None,
    answers: Iterator[Message | Sign],
    caller: Caller,
    recorder: Recorder | None,
) -> Iterator[bytes]:
    try:
        yield from _frames(first, answers, caller, recorder)
    finally:
        if recorder is not None:
            recorder.leave()


def _frames(
    first: Message | Sign | None,
    answers: Iterator[Message | Sign],
    caller: Caller,
    recorder: Recorder | None,
) -> Iterator[bytes]:
    if recorder is not None and caller.revision.priming:
        yield priming(f"{recorder.name}-0")
    item = first
    while item is not None:
        if isinstance(item, Pause):
            yield COMMENT
        elif isinstance(item, Detach):
            yield HANG_UP
        elif recorder is None:
            yield event(encode(item))
        else:
            data = encode(item)
            yield event(data, recorder.keep(data))
        item = next(answers, None)
    if recorder is not None:
        recorder.end()


def replay_body(events: Iterator[tuple[str, bytes] | Pause]) -> Iterator[bytes]:
    """The rest of a stream that was left, as event id and message."""
    for item in events:
        yield COMMENT if isinstance(item, Pause) else event(item[1], item[0])


def listener_body(changes: Iterator[Numbered | Pause], caller: Caller) -> Iterator[bytes]:
    """A session's GET stream; it begins with its number where the revision has priming events."""
    for item in changes:
        if isinstance(item, Pause):
            yield COMMENT
        elif item.message is None:
            yield priming(f"{LISTENER}-{item.number}") if caller.revision.priming else COMMENT
        else:
            yield event(encode(item.message), None if item.number is None else f"{LISTENER}-{item.number}")
