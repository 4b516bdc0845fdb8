"""The events of a room as server-sent events, on the event loop: the id of an event is the place in the log.

An event without an id is live only. A reader that comes back with `Last-Event-ID` reads the log from there on.
Source: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import orjson

from patchbay.callback_mailbox import CallbackMailbox
from patchbay.events import Wait
from patchbay.rooms.session import RoomSession
from patchbay.views.sse import COMMENT, RETRY, event

MAX_DELIVERIES_PER_READ = 64


class SessionMailbox(CallbackMailbox):
    """A room session as a subscription that a stream waits for (`patchbay.store.Subscription`)."""

    def __init__(self, session: RoomSession) -> None:
        super().__init__()
        self.dropped = 0
        self.closed = False
        self._news = threading.Event()
        self._session = session
        session.listen(self.wake)

    def wake(self) -> None:
        """Wake the reader. Thread-safe."""
        self._news.set()
        with self._lock:
            callback = self._take_callback()
        if callback is not None:
            callback()

    def has_news(self) -> bool:
        """Whether there may be something since the last time that this was asked."""
        found = self._news.is_set()
        self._news.clear()
        return found

    def get(self, timeout: float) -> tuple[str, bytes] | None:
        """Wait; there are no messages of its own."""
        self.wait(timeout)
        return None

    def wait(self, timeout: float) -> None:
        """Wait until there may be something, no longer than `timeout` seconds."""
        self._news.wait(timeout)

    def _is_ready(self) -> bool:
        return self._news.is_set()

    def close(self) -> None:
        """End the stream: another one reads the session, or it is over."""
        self.closed = True
        self._session.stop_listening(self.wake)
        self.wake()

    def __enter__(self) -> SessionMailbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def room_events(
    session: RoomSession, mailbox: SessionMailbox, keepalive: float, is_ending: Callable[[], bool], is_new: bool
) -> Iterator[bytes | Wait]:
    """Yield the greeting of a new session, then its events, until it ends or the hub does; a comment after silence."""
    yield b"retry: %d\n\n" % RETRY
    for envelope in session.greeting if is_new else ():
        yield event(orjson.dumps(envelope))
    while not (is_ending() or mailbox.closed):
        has_news = mailbox.has_news()
        taken = session.read(MAX_DELIVERIES_PER_READ)
        for delivery in taken:
            yield event(delivery.data, None if delivery.seq is None else str(delivery.seq))
        if taken:
            continue
        if session.is_closed:
            return
        if not has_news:
            yield COMMENT
        yield Wait(mailbox, keepalive)
