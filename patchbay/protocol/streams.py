"""Streams that can be resumed: a message is kept before it is written, under `<stream>-<n>`, in its session only.

The journal topic `stream/<session>/<stream>` holds an entry that opens the stream, one for each message,
and one that ends it; the first byte of an entry says which it is. Another session's event id names a
topic that does not exist for this one.
Sources: SPEC-DIGEST 1.8; REQUIREMENTS X-10, V-C14; THREATS 1.2 and "legacy resumability".
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator

from patchbay.activation import PAUSE
from patchbay.events import Pause
from patchbay.protocol.callers import Session
from patchbay.protocol.subscriptions import ENDING
from patchbay.store import Store

_EVENT_ID = re.compile(r"([A-Za-z0-9_]{1,32})-(\d{1,12})")
LISTENER = "changes"
"""The stream name of a session's GET stream; its numbers are those of the changes it tells of."""


_OPENED, _MESSAGE, _ENDED = b"o", b"m", b"e"


class Recorder:
    """Keeps the messages of one stream of one session for `seconds`."""

    def __init__(self, store: Store, session: Session, seconds: float) -> None:
        self.name = secrets.token_hex(8)
        self._store = store
        self._topic = f"stream/{session.nonce}/{self.name}"
        self._seconds = seconds
        self._count = 0
        self._append(_OPENED)

    def keep(self, data: bytes) -> str:
        """Keep one message; answers its event id."""
        self._count += 1
        self._append(_MESSAGE + data)
        return f"{self.name}-{self._count}"

    def end(self) -> None:
        """Say that no more messages come."""
        self._append(_ENDED)

    def _append(self, entry: bytes) -> None:
        self._store.journal.append(self._topic, entry, keep=self._seconds)
        self._store.bus.publish(self._topic)


def parse_event_id(text: str) -> tuple[str, int] | None:
    """The stream and the number of an event id, or None when it is none that we gave (V-C14)."""
    found = _EVENT_ID.fullmatch(text)
    return (found[1], int(found[2])) if found else None


class Replay:
    """Reads the rest of a stream after one event, then goes on until the stream ends."""

    def __init__(self, store: Store, session: Session, stream: str, keepalive: float) -> None:
        self.name = stream
        self._store = store
        self._topic = f"stream/{session.nonce}/{stream}"
        self._keepalive = keepalive
        self._session = session

    def known(self) -> bool:
        """Whether this session has such a stream still."""
        return bool(self._store.journal.read(self._topic, 0, 1))

    def __call__(self, after: int) -> Iterator[tuple[str, bytes] | Pause]:
        """(event id, message) pairs after number `after`. Ends early when the hub stops: the rest can be fetched later."""
        number, seq = 0, 0
        with self._store.bus.subscribe([self._topic, ENDING]) as mailbox:
            while not self._session.ended:
                entries = self._store.journal.read(self._topic, seq)
                for entry in entries:
                    seq = entry.seq
                    if entry.data == _ENDED:
                        return
                    number += entry.data[:1] == _MESSAGE
                    if entry.data != _OPENED and number > after:
                        yield f"{self.name}-{number}", entry.data[1:]
                got = None if entries else mailbox.get(self._keepalive)
                if got is not None and got[0] == ENDING:
                    return
                if not entries and got is None:
                    yield PAUSE
