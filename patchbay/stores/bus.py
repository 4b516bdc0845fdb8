"""Messages between the threads of one process: fan-out to bounded queues.

Each subscription has its own lock, so that a slow reader does not delay another. A full queue drops its oldest message
and counts it. A store that connects processes passes the messages of other processes to `publish` here.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from patchbay.callback_mailbox import CallbackMailbox


class LocalSubscription(CallbackMailbox):
    """One reader. `dropped` counts the messages that a full queue lost; `closed` says that no more will come.

    The object is small, because each open stream has one.
    """

    __slots__ = ("_changed", "_leave", "_size", "_waiting", "closed", "dropped", "topics")

    def __init__(self, topics: Sequence[str], size: int, leave: Callable[[LocalSubscription], None]) -> None:
        super().__init__()
        self.topics = tuple(topics)
        self.dropped = 0
        self.closed = False
        self._waiting: list[tuple[str, bytes]] = []
        self._size = size
        self._leave = leave
        self._changed: threading.Condition | None = None

    def offer(self, topic: str, message: bytes) -> None:
        """Queue a message; a full queue drops its oldest message."""
        with self._lock:
            if len(self._waiting) >= self._size:
                self._waiting.pop(0)
                self.dropped += 1
            self._waiting.append((topic, message))
            callback = self._woken()
        if callback is not None:
            callback()

    def get(self, timeout: float) -> tuple[str, bytes] | None:
        """Return the next (topic, message); None after `timeout` seconds or when closed."""
        if timeout > 0:
            self.wait(timeout)
        with self._lock:
            return self._waiting.pop(0) if self._waiting and not self.closed else None

    def wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for a message or the end of the subscription."""
        until = time.monotonic() + timeout
        with self._lock:
            while not self._waiting and not self.closed:
                left = until - time.monotonic()
                if self._changed is None:
                    self._changed = threading.Condition(self._lock)
                if left <= 0 or not self._changed.wait(left):
                    return

    def _is_ready(self) -> bool:
        return bool(self._waiting) or self.closed

    def _woken(self) -> Callable[[], None] | None:
        """Requires the lock. Wake the waiting threads; return the callback, to be called after the lock is released."""
        if self._changed is not None:
            self._changed.notify_all()
        return self._take_callback()

    def close(self) -> None:
        """End the subscription; a waiting `get` returns None. Closing twice is harmless."""
        self._leave(self)
        with self._lock:
            self.closed = True
            callback = self._woken()
        if callback is not None:
            callback()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class LocalBus:
    """The bus of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Topic -> readers, and prefix -> readers, in the order in which they came. Changes take the lock; publishing
        # takes none, because copying a dictionary of plain objects is one step of the interpreter.
        self._exact: dict[str, dict[LocalSubscription, None]] = {}
        self._prefixes: dict[str, dict[LocalSubscription, None]] = {}

    def publish(self, topic: str, message: bytes = b"") -> None:
        """Deliver a message to every subscription of its topic, once each."""
        readers = self._exact.get(topic, {}).copy()
        for prefix, listening in tuple(self._prefixes.items()):
            if topic.startswith(prefix):
                readers |= listening.copy()
        for reader in readers:
            reader.offer(topic, message)

    def publish_here(self, topic: str, message: bytes = b"") -> None:
        """Deliver a message in this process, which is all that this bus has."""
        self.publish(topic, message)

    def problem(self) -> str | None:
        """Return None: `Store.check` says whether it works."""
        return None

    def subscribe(self, topics: Sequence[str], size: int = 256) -> LocalSubscription:
        """Subscribe to topics; a topic that ends in `*` matches by prefix. `size` bounds the queue, at least 1."""
        if isinstance(topics, str) or size < 1:
            raise ValueError("subscribe needs a sequence of topics and a queue of at least one message")
        reader = LocalSubscription(topics, size, self._remove)
        with self._lock:
            for table, key in self._places(reader):
                table.setdefault(key, {})[reader] = None
        return reader

    def close(self) -> None:
        """Close every subscription."""
        readers: dict[LocalSubscription, None] = {}
        for table in (self._exact, self._prefixes):
            for group in tuple(table.values()):
                readers |= group.copy()
        for reader in readers:
            reader.close()

    def _remove(self, reader: LocalSubscription) -> None:
        with self._lock:
            for table, key in self._places(reader):
                readers = table.get(key, {})
                readers.pop(reader, None)
                if not readers:
                    table.pop(key, None)

    def _places(self, reader: LocalSubscription) -> list[tuple[dict[str, dict[LocalSubscription, None]], str]]:
        return [
            (self._prefixes, topic[:-1]) if topic.endswith("*") else (self._exact, topic)
            for topic in dict.fromkeys(reader.topics)
        ]


def machine_order_token() -> bytes:
    """Return the order token of a store that only processes of this machine use (`Store.order_token`)."""
    return time.monotonic_ns().to_bytes(8) + secrets.token_bytes(8)
