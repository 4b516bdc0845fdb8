"""Streams that a client can resume: each message is stored before it is sent, as event `<stream>-<n>` of its session.

The journal topic `stream/<session>/<stream>` has an entry that opens the stream, one for each message, and one that
ends it; the first byte of an entry is its kind. An event id of another session names a topic that does not exist.

The opening entry names the process that writes the stream and the request that it answers. A process that writes
streams records signs of life (`tasks/records.py`). When they stop, the next reader of the stream ends it, with an error
in place of a missing answer.
Source: MCP specification 2025-11-25, basic/transports, resumability and redelivery.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from patchbay.activation import PAUSE
from patchbay.catalogue.contents.ledger import KeptMessages, Ledger
from patchbay.coordination.process_liveness import LOST_SECONDS, Heartbeat, ProcessLiveness
from patchbay.errors import PatchbayError
from patchbay.events import Pause, Wait
from patchbay.jsonrpc import Id, dump_json, encode, failure, load_json
from patchbay.messages.callers import LegacySession
from patchbay.store import JournalEntry, Store
from patchbay.topics import ACCESS_ENDED, ENDING, SESSION_ENDED, SESSIONS, STREAMS

log = logging.getLogger(__name__)

_EVENT_ID = re.compile(r"([A-Za-z0-9_]{1,32})-(\d{1,12})")
LISTENER = "changes"
"""The name of a session's GET stream; its event numbers are the numbers of the changes that it reports."""

GONE = "the hub was restarted, or the process that ran this call was lost, before it ended"

NOT_KEPT = "the answer to this call could not be kept for replay: the store of the hub failed"

# _GONE is both a message and the end, in one entry: if several processes write it, only the first one counts.
_OPENED, _MESSAGE, _ENDED, _GONE = b"o", b"m", b"e", b"g"


class Recorder:
    """Stores the messages of one stream of one session for `seconds`. `id` is the request that the stream answers.

    After `max_bytes` it stores no more notifications: a client that resumes gets the answer but misses some progress.
    If the store fails, only the replay is incomplete; the call continues. Call `leave` after the last write. What is
    stored counts in the account of the session's principal in `ledger`; without one, nothing is counted. Raises
    ContentError if the store fails at the beginning.
    """

    def __init__(
        self,
        store: Store,
        session: LegacySession,
        seconds: float,
        id: Id,
        heartbeat: Heartbeat,
        max_bytes: int,
        ledger: Ledger | None = None,
    ) -> None:
        self.name = secrets.token_hex(8)
        self._store = store
        self._topic = f"{STREAMS}{session.nonce}/{self.name}"
        self._seconds = seconds
        self._heartbeat = heartbeat
        self._left = max_bytes
        self._count = 0
        self._id = id
        self._missed = False
        self._kept = KeptMessages(ledger or Ledger(store.journal), session.principal, self._topic, seconds)
        self._append(_OPENED + dump_json({"owner": heartbeat.liveness.process, "id": id}))
        heartbeat.begin()

    def keep(self, data: bytes, needed: bool = True) -> str | None:
        """Store one message; return its event id, or None if it is not stored. `needed` ignores `max_bytes`."""
        self._left -= len(data)
        kept = (needed or self._left >= 0) and self._try_append(_MESSAGE + data)
        if needed:
            self._missed = not kept
        if not kept:
            return None
        self._count += 1
        return f"{self.name}-{self._count}"

    def end(self) -> None:
        """Record the end of the stream, with an error if the last needed message, the answer, is missing."""
        self._try_append(_GONE + encode(failure(self._id, PatchbayError(NOT_KEPT))) if self._missed else _ENDED)

    def leave(self) -> None:
        """Stop writing; a stream without a recorded end counts as lost."""
        self._heartbeat.end()

    def _try_append(self, entry: bytes) -> bool:
        try:
            self._append(entry)
        except PatchbayError as problem:
            log.warning("a message of the stream %s is not stored for replay: %s", self.name, problem)
            return False
        return True

    def _append(self, entry: bytes) -> None:
        rows = self._kept.grow(len(entry), is_last=entry[:1] in (_ENDED, _GONE))
        self._store.journal.append_all([(self._topic, entry, self._seconds), *rows], {})
        self._store.bus.publish(self._topic)
        if rows:
            self._kept.make_room()


def parse_event_id(text: str) -> tuple[str, int] | None:
    """Return the stream and the number of an event id; None for an id of another form."""
    found = _EVENT_ID.fullmatch(text)
    return (found[1], int(found[2])) if found else None


class Replay:
    """Reads a stream after one event, and follows it until the stream, the session or the hub ends.

    `seconds` is the lifetime of an entry that this reader writes in place of a lost process. `is_current` says whether
    the credentials of the client are still valid; the stream ends for a client without.
    """

    def __init__(
        self,
        liveness: ProcessLiveness,
        session: LegacySession,
        stream: str,
        keepalive: float,
        seconds: float,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = stream
        self._is_current = is_current
        self._liveness = liveness
        self._store = liveness.store
        self._topic = f"{STREAMS}{session.nonce}/{stream}"
        self._keepalive = keepalive
        self._seconds = seconds
        self._session = session
        self._seq = 0
        self._last = b""
        self._opened: dict[str, Any] = {}

    def is_stored(self) -> bool:
        """Whether this session still has the stream, from its beginning."""
        first = self._store.journal.read(self._topic, 0, 1)
        if not first or first[0].data[:1] != _OPENED:
            return False
        self._opened = load_json(first[0].data[1:])
        return True

    def __call__(self, after: int) -> Iterator[tuple[str, bytes] | Pause | Wait]:
        """Yield (event id, message) pairs after number `after`, of a stream that is stored (`is_stored`).

        Ends early when the hub stops: the client can resume later.
        """
        number, last_sent = 0, time.monotonic()
        topics = [self._topic, ENDING, ACCESS_ENDED, f"{SESSIONS}{self._session.nonce}"]
        with self._store.bus.subscribe(topics) as mailbox:
            while not self._session.ended and self._is_current():
                entries = self._store.journal.read(self._topic, self._seq)
                for entry in entries:
                    kind, data = self._read_entry(entry)
                    number += kind in (_MESSAGE, _GONE)
                    if kind in (_MESSAGE, _GONE) and number > after:
                        yield f"{self.name}-{number}", data
                        last_sent = time.monotonic()
                    if kind in (_ENDED, _GONE):
                        return
                if entries or self._lost():
                    continue
                yield Wait(mailbox, min(self._keepalive, LOST_SECONDS))
                got = mailbox.get(0)
                # Streams of changes also publish on the session's topic; ignore their messages.
                if got is not None and (got[0] == ENDING or got[1] == SESSION_ENDED):
                    return
                if got is None and time.monotonic() - last_sent >= self._keepalive:
                    yield PAUSE
                    last_sent = time.monotonic()

    def _read_entry(self, entry: JournalEntry) -> tuple[bytes, bytes]:
        """Return the kind of an entry, and its message."""
        self._seq = entry.seq
        kind, data = entry.data[:1], entry.data[1:]
        if kind == _MESSAGE:
            self._last = data
        return kind, data

    def _lost(self) -> bool:
        """End the stream if the process that wrote it is gone; return whether there are new entries to read."""
        if self._liveness.is_alive(self._opened["owner"]):
            return False
        if self._store.journal.last(self._topic) > self._seq:
            return True
        id = self._opened["id"]
        entry = _ENDED if self._is_answered(id) else _GONE + encode(failure(id, PatchbayError(GONE)))
        self._store.journal.append(self._topic, entry, keep=self._seconds)
        self._store.bus.publish(self._topic)
        return True

    def _is_answered(self, id: Id) -> bool:
        """Whether the last message is already the answer, so that only the end is missing."""
        last = load_json(self._last) if self._last else {}
        return "method" not in last and last.get("id") == id
