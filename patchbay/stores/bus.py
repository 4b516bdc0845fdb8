"""Messages between the threads of one process: fan-out to bounded queues.

Each subscription has its own lock, so that a slow reader does not delay another. A full queue drops its oldest message
and counts it. A store that connects processes passes the messages of other processes to `publish` here.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Self


class LocalSubscription:
    """One reader. `dropped` counts the messages that a full queue lost; `closed` says that no more will come."""

    def __init__(self, topics: Sequence[str], size: int, leave: Callable[[LocalSubscription], None]) -> None:
        self.topics = tuple(topics)
        self.dropped = 0
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._size = size
        self._leave = leave
        self.closed = False
        self._changed = threading.Condition()

    def offer(self, topic: str, message: bytes) -> None:
        """Queue a message; a full queue drops its oldest message."""
        with self._changed:
            if len(self._waiting) >= self._size:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append((topic, message))
            self._changed.notify()

    def get(self, timeout: float) -> tuple[str, bytes] | None:
        """Return the next (topic, message); None after `timeout` seconds or when closed."""
        until = time.monotonic() + timeout
        with self._changed:
            while not self._waiting and not self.closed:
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            return self._waiting.popleft() if self._waiting and not self.closed else None

    def close(self) -> None:
        """End the subscription; a waiting `get` returns None. Closing twice is harmless."""
        self._leave(self)
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class LocalBus:
    """The bus of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Topic -> readers, and prefix -> readers. The tuples are replaced, never changed, so publishing takes no lock.
        self._exact: dict[str, tuple[LocalSubscription, ...]] = {}
        self._prefixes: dict[str, tuple[LocalSubscription, ...]] = {}

    def publish(self, topic: str, message: bytes = b"") -> None:
        """Deliver a message to every subscription of its topic, once each."""
        readers = dict.fromkeys(self._exact.get(topic, ()))
        for prefix, listening in tuple(self._prefixes.items()):
            if topic.startswith(prefix):
                readers |= dict.fromkeys(listening)
        for reader in readers:
            reader.offer(topic, message)

    def subscribe(self, topics: Sequence[str], size: int = 256) -> LocalSubscription:
        """Subscribe to topics; a topic that ends in `*` matches by prefix. `size` bounds the queue, at least 1."""
        if isinstance(topics, str) or size < 1:
            raise ValueError("subscribe needs a sequence of topics and a queue of at least one message")
        reader = LocalSubscription(topics, size, self._remove)
        with self._lock:
            for table, key in self._places(reader):
                table[key] = (*table.get(key, ()), reader)
        return reader

    def close(self) -> None:
        """Close every subscription."""
        readers = dict.fromkeys(
            reader for table in (self._exact, self._prefixes) for group in tuple(table.values()) for reader in group
        )
        for reader in readers:
            reader.close()

    def _remove(self, reader: LocalSubscription) -> None:
        with self._lock:
            for table, key in self._places(reader):
                left = tuple(other for other in table.get(key, ()) if other is not reader)
                if left:
                    table[key] = left
                else:
                    table.pop(key, None)

    def _places(self, reader: LocalSubscription) -> list[tuple[dict[str, tuple[LocalSubscription, ...]], str]]:
        return [
            (self._prefixes, topic[:-1]) if topic.endswith("*") else (self._exact, topic)
            for topic in dict.fromkeys(reader.topics)
        ]
