"""The channel of one client of 2024-11-05: messages posted to any process come out of its stream.

The stream creates the channel, with a random id. The journal stores the changes of the channel (topic `channel/<id>`)
and its messages to the client (`channel/<id>/messages`); the bus announces new entries.
Source: https://modelcontextprotocol.io/specification/2024-11-05/basic/transports.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from patchbay.activation import PAUSE
from patchbay.catalogue.contents.ledger import SESSION_CHANGES, STORED, Ledger
from patchbay.errors import UnknownSession
from patchbay.events import Pause, Wait
from patchbay.store import Store
from patchbay.topics import ACCESS_ENDED, CHANNELS, ENDING

WAITING = 600.0
"""Lifetime of a message for the stream, in seconds."""

DRAIN_POLL_SECONDS = 0.25
"""Seconds between two checks whether every request is answered, once the hub stops."""

PAGE = 1000
"""Entries in one read."""


class Channel:
    """One channel. `state` holds its endpoint and principal, and later the id of its session, or its end.

    The channel and its messages count in the accounts of its principal in `ledger`; without one, nothing is limited.
    """

    def __init__(
        self, store: Store, id: str, seconds: float, state: Mapping[str, Any], ledger: Ledger | None = None
    ) -> None:
        self.id = id
        self.state = state
        self._store = store
        self._ledger = ledger or Ledger(store.journal)
        self._seconds = seconds
        self._topic = f"{CHANNELS}{id}"
        self._seq = 0

    @classmethod
    def open(cls, store: Store, endpoint: str, principal: str, seconds: float, ledger: Ledger | None = None) -> Channel:
        """Open a channel with a lifetime of `seconds`. Raises OverQuota if its principal has changed too many."""
        channel = cls(store, secrets.token_urlsafe(24), seconds, {}, ledger)
        channel.state = {"endpoint": endpoint, "principal": principal}
        entry = (channel._topic, orjson.dumps(channel.state), seconds)
        row = channel._ledger.row(principal, SESSION_CHANGES, "", len(entry[1]), seconds, things=1)
        channel._ledger.add(principal, SESSION_CHANGES, [entry], row)
        return channel

    @classmethod
    def find(
        cls, store: Store, id: str, endpoint: str, principal: str, seconds: float, ledger: Ledger | None = None
    ) -> Channel:
        """Return the channel of an id. Raises UnknownSession, also for another caller's channel."""
        channel = cls(store, id, seconds, {}, ledger)
        channel.read_changes()
        if (channel.state.get("endpoint"), channel.state.get("principal")) != (endpoint, principal):
            raise UnknownSession("no such session here; open a stream first, and post to the address it gives")
        if channel.state.get("ended"):
            raise UnknownSession("this session has ended with its stream; open a new one")
        return channel

    @property
    def session_id(self) -> str | None:
        """The id of the session that the handshake opened, or None."""
        return self.state.get("session")

    def change(self, **changes: Any) -> None:
        """Record a change of the channel: its `session`, or that it `ended`."""
        self._store.journal.append(self._topic, orjson.dumps(changes), keep=self._seconds)
        self.state = {**self.state, **changes}
        self._store.bus.publish(self._topic)

    def read_changes(self) -> None:
        """Read the changes by other processes."""
        while entries := self._store.journal.read(self._topic, self._seq, PAGE):
            for entry in entries:
                self._seq = entry.seq
                self.state = {**self.state, **orjson.loads(entry.data)}
            if len(entries) < PAGE:
                return

    def send(self, data: bytes) -> None:
        """Send a message to the stream."""
        principal, topic = self.state["principal"], f"{self._topic}/messages"
        row = self._ledger.row(principal, STORED, topic, len(data), WAITING, things=1)
        self._store.journal.append_all([(topic, data, WAITING), row], {})
        self._store.bus.publish(self._topic)
        self._ledger.make_room(principal)

    def messages(
        self,
        keepalive: float,
        ending: Callable[[], bool],
        busy: Callable[[], bool],
        is_current: Callable[[], bool] = lambda: True,
    ) -> Iterator[bytes | Pause | Wait]:
        """Yield the messages until the channel ends or the hub stops, and a Pause after each `keepalive` without one.

        A stopping hub (`ending`) first finishes the running requests of this channel (`busy`). The messages end at once
        when `is_current` is false: the credentials of the client are no longer valid. The state is read before each
        message, so that the session of an answer is known.
        """
        after = 0
        with self._store.bus.subscribe([self._topic, ACCESS_ENDED, ENDING]) as mailbox:
            while is_current():
                # Check before reading, so that the read below finds every answer sent before the check.
                stopping = ending()
                over = stopping and not busy()
                self.read_changes()
                if self.state.get("ended"):
                    return
                entries = self._store.journal.read(f"{self._topic}/messages", after)
                for entry in entries:
                    after = entry.seq
                    yield entry.data
                if entries:
                    continue
                if over:
                    return
                yield Wait(mailbox, DRAIN_POLL_SECONDS if stopping else keepalive)
                if mailbox.get(0) is None and not stopping:
                    yield PAUSE
