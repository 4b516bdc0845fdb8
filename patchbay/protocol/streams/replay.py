"""Streams that can be resumed: a message is kept before it is written, under `<stream>-<n>`, in its session only.

The journal topic `stream/<session>/<stream>` holds an entry that opens the stream, one for each message,
and one that ends it; the first byte of an entry says which it is. Another session's event id names a
topic that does not exist for this one.

The opening entry says which process writes the stream, and which request it answers. While a process writes
streams it gives signs of life (`task_records`); when they cease, whoever reads the stream ends it, with an
error as the answer that will not come any more.
Sources: SPEC-DIGEST 1.8; REQUIREMENTS X-10, V-C14; THREATS 1.2 and "legacy resumability".
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Iterator
from typing import Any

import orjson

from patchbay.activation import PAUSE
from patchbay.errors import PatchbayError
from patchbay.events import Pause
from patchbay.jsonrpc import Id, encode, failure
from patchbay.protocol.callers import LegacySession
from patchbay.protocol.streams.subscriptions import ENDING
from patchbay.protocol.tasks.process_liveness import LOST_SECONDS, Heartbeat, ProcessLiveness
from patchbay.store import JournalEntry, Store, Wait

log = logging.getLogger(__name__)

_EVENT_ID = re.compile(r"([A-Za-z0-9_]{1,32})-(\d{1,12})")
LISTENER = "changes"
"""The stream name of a session's GET stream; its numbers are those of the changes it tells of."""

ENDED = b"ended"
"""What is said on the bus topic `session/<nonce>` when the session has ended, in whichever process."""

GONE = "the hub was restarted, or the process that ran this call was lost, before it ended"

NOT_KEPT = "the answer to this call could not be kept for replay: the store of the hub failed"

# The last one is both: a message, and the end. One entry, so that of several who write it only the first counts.
_OPENED, _MESSAGE, _ENDED, _GONE = b"o", b"m", b"e", b"g"


class Recorder:
    """Keeps the messages of one stream of one session for `seconds`. `id` is the request that it answers.

    Once `most` bytes are kept, notifications are not kept any more: whoever comes back gets the answer, and has
    missed some progress. A store that fails costs what it did not take, and never the call. Whoever made one calls
    `leave` when nothing more is written. Raises ContentError when the store fails at the beginning.
    """

    def __init__(
        self, store: Store, session: LegacySession, seconds: float, id: Id, heartbeat: Heartbeat, most: int
    ) -> None:
        self.name = secrets.token_hex(8)
        self._store = store
        self._topic = f"stream/{session.nonce}/{self.name}"
        self._seconds = seconds
        self._heartbeat = heartbeat
        self._left = most
        self._count = 0
        self._id = id
        self._missed = False
        self._append(_OPENED + orjson.dumps({"owner": heartbeat.liveness.process, "id": id}))
        heartbeat.begin()

    def keep(self, data: bytes, needed: bool = True) -> str | None:
        """Keep one message; answers its event id. None for one that is not kept; one that is `needed` is tried."""
        self._left -= len(data)
        kept = (needed or self._left >= 0) and self._kept(_MESSAGE + data)
        if needed:
            self._missed = not kept
        if not kept:
            return None
        self._count += 1
        return f"{self.name}-{self._count}"

    def end(self) -> None:
        """Say that no more messages come. An error stands for the answer (what was needed last) if it is missing."""
        self._kept(_GONE + encode(failure(self._id, PatchbayError(NOT_KEPT))) if self._missed else _ENDED)

    def leave(self) -> None:
        """Write nothing more; without an end before, the stream was lost."""
        self._heartbeat.end()

    def _kept(self, entry: bytes) -> bool:
        try:
            self._append(entry)
        except PatchbayError as problem:
            log.warning("something of the stream %s is not kept for replay: %s", self.name, problem.message)
            return False
        return True

    def _append(self, entry: bytes) -> None:
        self._store.journal.append(self._topic, entry, keep=self._seconds)
        self._store.bus.publish(self._topic)


def parse_event_id(text: str) -> tuple[str, int] | None:
    """The stream and the number of an event id, or None when it is none that we gave (V-C14)."""
    found = _EVENT_ID.fullmatch(text)
    return (found[1], int(found[2])) if found else None


class Replay:
    """Reads the rest of a stream after one event, then goes on until the stream, the session or the hub ends.

    `seconds` is how long an entry is kept that this reader has to write for a process that is gone.
    """

    def __init__(
        self, liveness: ProcessLiveness, session: LegacySession, stream: str, keepalive: float, seconds: float
    ) -> None:
        self.name = stream
        self._liveness = liveness
        self._store = liveness.store
        self._topic = f"stream/{session.nonce}/{stream}"
        self._keepalive = keepalive
        self._seconds = seconds
        self._session = session
        self._seq = 0
        self._last = b""
        self._opened: dict[str, Any] = {}

    def known(self) -> bool:
        """Whether this session has such a stream still, from its beginning."""
        first = self._store.journal.read(self._topic, 0, 1)
        if not first or first[0].data[:1] != _OPENED:
            return False
        self._opened = orjson.loads(first[0].data[1:])
        return True

    def __call__(self, after: int) -> Iterator[tuple[str, bytes] | Pause | Wait]:
        """(event id, message) pairs after number `after`, of a stream that is `known`.

        Ends early when the hub stops: the rest can be fetched later.
        """
        number, said = 0, time.monotonic()
        with self._store.bus.subscribe([self._topic, ENDING, f"session/{self._session.nonce}"]) as mailbox:
            while not self._session.ended:
                entries = self._store.journal.read(self._topic, self._seq)
                for entry in entries:
                    kind, data = self._taken(entry)
                    number += kind in (_MESSAGE, _GONE)
                    if kind in (_MESSAGE, _GONE) and number > after:
                        yield f"{self.name}-{number}", data
                        said = time.monotonic()
                    if kind in (_ENDED, _GONE):
                        return
                if entries or self._lost():
                    continue
                yield Wait(mailbox, min(self._keepalive, LOST_SECONDS))
                got = mailbox.get(0)
                # Streams of changes speak on the session's topic too, among themselves.
                if got is not None and (got[0] == ENDING or got[1] == ENDED):
                    return
                if got is None and time.monotonic() - said >= self._keepalive:
                    yield PAUSE
                    said = time.monotonic()

    def _taken(self, entry: JournalEntry) -> tuple[bytes, bytes]:
        """The kind of an entry, and its message."""
        self._seq = entry.seq
        kind, data = entry.data[:1], entry.data[1:]
        if kind == _MESSAGE:
            self._last = data
        return kind, data

    def _lost(self) -> bool:
        """End the stream when the process that wrote it is gone; whether it was, and there is more to read now."""
        if self._liveness.is_alive(self._opened["owner"]):
            return False
        if self._store.journal.last(self._topic) > self._seq:
            return True
        id = self._opened["id"]
        entry = _ENDED if self._answered(id) else _GONE + encode(failure(id, PatchbayError(GONE)))
        self._store.journal.append(self._topic, entry, keep=self._seconds)
        self._store.bus.publish(self._topic)
        return True

    def _answered(self, id: Id) -> bool:
        """Whether the last message is the answer already, so that only the end is missing."""
        last = orjson.loads(self._last) if self._last else {}
        return "method" not in last and last.get("id") == id
