"""The bus over Redis or Valkey: a stream (`XADD`, `XREAD`) of bounded length, one for each store.

Readers in this process get a message at once. A thread writes the messages of this process, with a number each, so that
a batch whose answer was lost is written again and read once. Another thread reads from the last entry that it knows: so
nothing is missed while the connection is broken, unless the stream has dropped it. While Redis is away, messages wait
in a bounded queue, and `problem` says so.
Source: https://redis.io/docs/latest/develop/data-types/streams/.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import redis

from patchbay.background import BackgroundLoop
from patchbay.errors import ConfigError, ContentError
from patchbay.settings import REDIS_PASSWORD, secret
from patchbay.store import CLOSED
from patchbay.stores.bus import LocalBus, LocalSubscription
from patchbay.stores.postgresql.clock import StoreClock

log = logging.getLogger(__name__)

MAX_ENTRIES = 50_000
"""Entries of the stream, about: what a reader may be behind."""

MAX_QUEUED = 10_000
"""Messages that wait to be written; a longer queue drops its oldest message."""

MAX_BATCH = 500
"""Messages that are written, or read, at once."""

READ_SECONDS = 1.0
"""Seconds that a read waits for an entry."""

ANSWER_SECONDS = 3.0
"""Seconds that an answer may take beyond that, and that opening a connection may take."""

RETRY_SECONDS = 0.5
"""Seconds between two attempts while Redis is away."""

CLOSE_SECONDS = 5.0
"""Seconds in which the messages that wait are written at the end."""

BEGIN_SECONDS = 5.0
"""How far back a reader begins that finds Redis away."""

MAX_PROCESSES = 10_000
"""Processes whose last number is known."""

CLOCK_SECONDS = 10.0
"""Seconds between two measurements of the database's time."""

FIRST = b"0-0"

Note = Callable[[str, Exception | None], None]
"""Notes that a part of the bus fails, with the problem, or works again."""


def connect_to_redis(address: str) -> redis.Redis:
    """Return a client, which connects at its first command. Raises ConfigError for an address with a password."""
    expected = f"expected redis://HOST:PORT/NUMBER; the password comes from {REDIS_PASSWORD}"
    try:
        if urlsplit(address).password is not None:
            raise ConfigError("the setting bus_address", "", f"the address has a password: take it out; {expected}")
        return redis.Redis.from_url(
            address,
            **({"password": secret(REDIS_PASSWORD)} if secret(REDIS_PASSWORD) else {}),
            socket_timeout=READ_SECONDS + ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            socket_keepalive=True,
            client_name="patchbay",
        )
    except ValueError as problem:
        raise ConfigError("the setting bus_address", "", f"{expected}: {problem}") from problem


class RedisBus:
    """Hints between threads, processes and machines, through the stream `key`. Raises ConfigError for the address."""

    def __init__(self, address: str, key: str, clock: StoreClock) -> None:
        self._client = connect_to_redis(address)
        self._key = key
        self._clock = clock
        self._local = LocalBus()
        self._process = uuid4().bytes
        self._lock = threading.Lock()
        self._is_closed = False
        self._problems: dict[str, str] = {}
        self._writer: _StreamWriter | None = None
        self._reader: _StreamReader | None = None

    def publish(self, topic: str, message: bytes = b"") -> None:
        """Deliver a message in this process at once, and in other processes within some hundredths of a second."""
        self._local.publish(topic, message)
        with self._lock:
            if self._is_closed:
                return
            if self._writer is None:
                self._writer = _StreamWriter(self._client, self._key, self._process, self._note)
            writer = self._writer
        writer.add(topic, message)

    def publish_here(self, topic: str, message: bytes = b"") -> None:
        """Deliver a message in this process only."""
        self._local.publish(topic, message)

    def subscribe(self, topics: Sequence[str], size: int = 256) -> LocalSubscription:
        """Subscribe to topics; a topic that ends in `*` matches by prefix. The subscription is active on return."""
        with self._lock:
            if self._is_closed:
                raise ContentError(CLOSED)
            reader = self._local.subscribe(topics, size)
            if self._reader is None:
                self._reader = _StreamReader(
                    *(self._client, self._key, self._process, self._local, self._clock, self._note)
                )
        return reader

    def problem(self) -> str | None:
        """Return None while Redis takes and returns messages, else a sentence."""
        return next(iter(tuple(self._problems.values())), None)

    def close(self) -> None:
        """Write the messages that wait, if Redis answers, and close every subscription."""
        with self._lock:
            self._is_closed = True
            writer, self._writer = self._writer, None
            reader, self._reader = self._reader, None
        if writer is not None:
            writer.close()
        if reader is not None:
            reader.close()
        self._client.close()
        self._local.close()

    def _note(self, part: str, problem: Exception | None) -> None:
        """Remember, and log, that a part of the bus fails or works again."""
        if problem is None:
            if self._problems.pop(part, None):
                log.warning("Redis %s messages again", part)
        elif part not in self._problems:
            self._problems[part] = f"messages of other machines wait: Redis does not answer ({_describe(problem)})"
            log.warning("%s", self._problems[part])


class _StreamReader:
    """The thread that delivers the messages of other processes. `note` is called when it fails, or works again."""

    def __init__(
        self, client: redis.Redis, key: str, process: bytes, local: LocalBus, clock: StoreClock, note: Note
    ) -> None:
        self._client = client
        self._key = key
        self._process = process
        self._local = local
        self._clock = clock
        self._note = note
        self._last = self._begin()
        self._seen: OrderedDict[bytes, int] = OrderedDict()
        self._measured = time.monotonic()
        self._is_failing = False
        self._loop = BackgroundLoop("patchbay-bus", self._read, "reading the messages of other processes failed")
        self._loop.start()

    def close(self) -> None:
        """End the thread."""
        self._loop.close(READ_SECONDS + ANSWER_SECONDS)

    def _begin(self) -> bytes:
        """Return the newest entry; without Redis, a place shortly before now."""
        try:
            return _newest(self._client, self._key)
        except redis.RedisError as problem:
            self._note("returns", problem)
            return b"%d-0" % int((self._clock.now() - BEGIN_SECONDS) * 1000)

    def _read(self) -> float:
        """Deliver the next messages; return the seconds until the next read."""
        pause = 0.0
        try:
            if self._is_failing:
                self._last = self._place_after_outage(self._last)
            found: Any = self._client.xread({self._key: self._last}, MAX_BATCH, int(READ_SECONDS * 1000))
            self._is_failing = False
            self._note("returns", None)
            for identifier, fields in found[0][1] if found else ():
                self._last = identifier
                self._deliver(fields)
        except redis.RedisError as problem:
            self._is_failing = True
            self._note("returns", problem)
            pause = RETRY_SECONDS
        if time.monotonic() - self._measured > CLOCK_SECONDS:
            self._measured = time.monotonic()
            self._measure_clock()
        return pause

    def _place_after_outage(self, last: bytes) -> bytes:
        """Return where to go on: from the beginning of a stream that is another one, else where it was."""
        newest = _newest(self._client, self._key)
        if _number(newest) < _number(last):
            return FIRST
        oldest: Any = self._client.xrange(self._key, count=1)
        if last != FIRST and oldest and _number(oldest[0][0]) > _number(last):
            log.warning("messages of other machines were lost: Redis has dropped them")
        return last

    def _deliver(self, fields: dict[bytes, bytes]) -> None:
        """Deliver an entry of another process, once."""
        process, number = fields[b"process"], int(fields[b"number"])
        if process == self._process or number <= self._seen.get(process, 0):
            return
        self._seen[process] = number
        self._seen.move_to_end(process)
        if len(self._seen) > MAX_PROCESSES:
            self._seen.popitem(last=False)
        self._local.publish(fields[b"topic"].decode(), fields[b"message"])

    def _measure_clock(self) -> None:
        try:
            self._clock.measure()
        except ContentError as problem:
            log.debug("the time of the database cannot be read: %s", problem)


class _StreamWriter:
    """The thread that writes the messages of this process. `note` is called when it fails, or works again."""

    def __init__(self, client: redis.Redis, key: str, process: bytes, note: Note) -> None:
        self._client = client
        self._key = key
        self._process = process
        self._note = note
        self._waiting: deque[tuple[int, str, bytes]] = deque()
        self._number = 0
        self._lock = threading.Lock()
        self._until = float("inf")
        self._batch: list[tuple[int, str, bytes]] = []
        name = "patchbay-bus-writer"
        self._loop = BackgroundLoop(name, self._run, "writing messages failed", finish=self._write_rest)
        self._loop.start()

    def add(self, topic: str, message: bytes) -> None:
        """Queue a message. While Redis is away, a full queue drops its oldest message."""
        with self._lock:
            self._number += 1
            if len(self._waiting) >= MAX_QUEUED:
                self._waiting.popleft()
            self._waiting.append((self._number, topic, message))
        self._loop.wake()

    def close(self) -> None:
        """Write what waits, for CLOSE_SECONDS at most."""
        self._until = time.monotonic() + CLOSE_SECONDS
        self._loop.close(CLOSE_SECONDS)

    def _run(self) -> float:
        """Write the messages that wait, until none are left or Redis fails; return the seconds until the next try."""
        while batch := self._next_batch():
            if not self._write(batch):
                # A new message must not begin the next try, so this waits for the end alone.
                self._loop.ending.wait(RETRY_SECONDS)
                return 0.0
            self._batch = []
        return threading.TIMEOUT_MAX

    def _write_rest(self) -> None:
        while time.monotonic() < self._until and (batch := self._next_batch()):
            if self._write(batch):
                self._batch = []
            else:
                time.sleep(RETRY_SECONDS)

    def _next_batch(self) -> list[tuple[int, str, bytes]]:
        """Return the batch that was not written yet, else the messages that wait; empty without messages."""
        with self._lock:
            if not self._batch:
                self._batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            return self._batch

    def _write(self, batch: Sequence[tuple[int, str, bytes]]) -> bool:
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for number, topic, message in batch:
                    entry: Any = {"process": self._process, "number": number, "topic": topic, "message": message}
                    pipeline.xadd(self._key, entry, maxlen=MAX_ENTRIES)
                pipeline.execute()
        except redis.RedisError as problem:
            self._note("takes", problem)
            return False
        self._note("takes", None)
        return True


def _newest(client: redis.Redis, key: str) -> bytes:
    found: Any = client.xrevrange(key, count=1)
    return bytes(found[0][0]) if found else FIRST


def _number(identifier: bytes) -> tuple[int, int]:
    first, second = identifier.split(b"-")
    return int(first), int(second)


def _describe(problem: Exception) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__
