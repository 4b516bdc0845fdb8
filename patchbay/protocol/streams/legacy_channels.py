"""The mailbox of one client of 2024-11-05: what is posted in any process comes out of the one stream.

A channel is made by the stream and named by an id that cannot be guessed. The journal keeps what becomes of it
(topic `channel/<id>`) and the messages on their way to its client (`channel/<id>/messages`); the bus says when to look.
Sources: https://modelcontextprotocol.io/specification/2024-11-05/basic/transports; SPEC-DIGEST 1.1.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from patchbay.activation import PAUSE
from patchbay.errors import UnknownSession
from patchbay.events import Pause
from patchbay.protocol.streams.subscriptions import ENDING
from patchbay.store import Store, Wait

WAITING = 600.0
"""Seconds for which a message is kept for the stream."""

DRAIN_POLL_SECONDS = 0.25
"""Seconds between two looks at whether everything is answered, once the hub stops."""

PAGE = 1000
"""Entries read at once."""


class Channel:
    """One channel. `state` is what is known of it: endpoint, principal, and later its session's id, or its end."""

    def __init__(self, store: Store, id: str, seconds: float, state: Mapping[str, Any]) -> None:
        self.id = id
        self.state = state
        self._store = store
        self._seconds = seconds
        self._topic = f"channel/{id}"
        self._seq = 0

    @classmethod
    def open(cls, store: Store, endpoint: str, principal: str, seconds: float) -> Channel:
        """A new channel, which is kept for `seconds`."""
        channel = cls(store, secrets.token_urlsafe(24), seconds, {})
        channel.change(endpoint=endpoint, principal=principal)
        return channel

    @classmethod
    def find(cls, store: Store, id: str, endpoint: str, principal: str, seconds: float) -> Channel:
        """The channel of an id. Raises UnknownSession when there is none, here and for this principal, or it ended."""
        channel = cls(store, id, seconds, {})
        channel.look()
        if (channel.state.get("endpoint"), channel.state.get("principal")) != (endpoint, principal):
            raise UnknownSession("no such session here; open a stream first, and post to the address it gives")
        if channel.state.get("ended"):
            raise UnknownSession("this session has ended with its stream; open a new one")
        return channel

    @property
    def session_id(self) -> str | None:
        """The id of the session that the handshake opened."""
        return self.state.get("session")

    def change(self, **changes: Any) -> None:
        """Record what became of the channel: its `session`, or that it `ended`."""
        self._store.journal.append(self._topic, orjson.dumps(changes), keep=self._seconds)
        self.state = {**self.state, **changes}
        self._store.bus.publish(self._topic)

    def look(self) -> None:
        """Learn what other processes recorded."""
        while entries := self._store.journal.read(self._topic, self._seq, PAGE):
            for entry in entries:
                self._seq = entry.seq
                self.state = {**self.state, **orjson.loads(entry.data)}
            if len(entries) < PAGE:
                return

    def send(self, data: bytes) -> None:
        """Put a message where the stream finds it."""
        self._store.journal.append(f"{self._topic}/messages", data, keep=WAITING)
        self._store.bus.publish(self._topic)

    def messages(
        self, keepalive: float, ending: Callable[[], bool], busy: Callable[[], bool]
    ) -> Iterator[bytes | Pause | Wait]:
        """The messages as they come, until the channel ended or the hub stops; a Pause after each silence.

        A hub that stops (`ending`) answers first what it is still answering on this channel (`busy`).
        Before anything is given the state has been looked at, so that the session of an answer is known with it.
        """
        after = 0
        with self._store.bus.subscribe([self._topic, ENDING]) as mailbox:
            while True:
                # In this order: whatever was answered before nothing was left to answer is read below.
                stopping = ending()
                over = stopping and not busy()
                self.look()
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
