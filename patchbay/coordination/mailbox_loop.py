"""A loop on a thread of its own that waits for messages of the bus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from patchbay.background import RETRY_SECONDS, BackgroundLoop
from patchbay.store import Bus, Subscription

MailboxRound = Callable[[Subscription], None]
"""Waits for a message, or for the time of other work, and does it; it waits in the given subscription alone."""


class MailboxLoop:
    """Runs one function again and again with a subscription, from `start` to `stop` or to the end of the store.

    `run_round`, `failure` and `retry_seconds` are those of BackgroundLoop. Safe to use from many threads.
    """

    def __init__(
        self,
        name: str,
        bus: Bus,
        topics: Sequence[str],
        run_round: MailboxRound,
        failure: str,
        *,
        size: int = 256,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._bus = bus
        self._topics = topics
        self._size = size
        self._run_round = run_round
        self._lock = threading.Lock()
        self._mailbox: Subscription | None = None
        self._loop = BackgroundLoop(name, self._run, failure, retry_seconds=retry_seconds, finish=self._leave)
        self.ending = self._loop.ending
        """Set by `stop`; a round that waits for something else waits for this too."""

    def start(self) -> None:
        """Subscribe, and start the thread; not for a second start. Every message after the return reaches a round.

        Raises ContentError if the store fails, RuntimeError if the system has no thread left; it is not started then.
        """
        with self._lock:
            if self._loop.is_started or self.ending.is_set():
                return
            mailbox = self._mailbox = self._bus.subscribe(self._topics, self._size)
            try:
                self._loop.start()
            except BaseException:
                mailbox.close()
                raise
        if self.ending.is_set():  # stopped in the meantime, before there was something to leave
            mailbox.close()

    def stop(self) -> None:
        """Let the thread end after its round, whose wait for messages ends at once."""
        self._loop.stop()
        self._leave()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, at most this many seconds."""
        self._loop.join(seconds)

    def close(self, seconds: float) -> None:
        """Stop, and wait until the thread has ended, at most this many seconds."""
        self.stop()
        self.join(seconds)

    @property
    def is_started(self) -> bool:
        """Whether there is a thread."""
        return self._loop.is_started

    def _run(self) -> float | None:
        mailbox = self._mailbox
        assert mailbox is not None
        if mailbox.closed:
            return None
        self._run_round(mailbox)
        return 0.0

    def _leave(self) -> None:
        if self._mailbox is not None:
            self._mailbox.close()
