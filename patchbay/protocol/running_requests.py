"""The running requests of this process, and how their owners cancel them, also from other processes."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import orjson

from patchbay.activation import CancelFlag
from patchbay.coordination.mailbox_loop import MailboxLoop
from patchbay.jsonrpc import Id
from patchbay.protocol.streams.subscriptions import cancelled_topic
from patchbay.store import Store, Subscription

LISTEN_POLL_SECONDS = 5.0
"""Seconds between two checks whether the store is closed."""


class RunningRequests:
    """Running requests, which their owner (`Caller.owner`) can cancel by id; the type of the id counts."""

    def __init__(self) -> None:
        self._flags: dict[tuple[str, type, Id], CancelFlag] = {}
        self._lock = threading.Lock()

    def add(self, owner: str, id: Id, flag: CancelFlag) -> None:
        with self._lock:
            self._flags[owner, type(id), id] = flag

    def remove(self, owner: str, id: Id, flag: CancelFlag) -> None:
        """Remove a finished request; a newer request with the same id stays."""
        with self._lock:
            if self._flags.get((owner, type(id), id)) is flag:
                del self._flags[owner, type(id), id]

    def cancel(self, owner: str, id: Any, reason: str) -> bool:
        """Cancel one request, as its caller wants; return whether it exists.

        An unknown id is ignored, as the specification requires.
        """
        with self._lock:
            flag = self._flags.get((owner, type(id), id)) if isinstance(id, (str, int)) else None
        if flag is not None:
            flag.set(reason, is_by_caller=True)
        return flag is not None

    def busy(self, owner: str) -> bool:
        """Whether a request of this owner runs in this process."""
        with self._lock:
            return any(whose == owner for whose, _, _ in self._flags)

    def cancel_all(self, owner: str, reason: str) -> None:
        """Cancel every request of a session or connection."""
        with self._lock:
            flags = [flag for (whose, _, _), flag in self._flags.items() if whose == owner]
        for flag in flags:
            flag.set(reason)


class Cancellations:
    """Cancels requests in this process at once, and in other processes through the topic `cancelled/<owner>`.

    One thread in each process receives that topic, from the first request with an owner on. A hub with one process
    (`alone`) needs no thread.
    """

    def __init__(self, running: RunningRequests, store: Store, alone: bool) -> None:
        self._running = running
        self._store = store
        self._is_alone = alone
        self._name = secrets.token_hex(8)
        self._loop = MailboxLoop(
            *("cancellations", store.bus, [cancelled_topic("*")], self._wait, "a cancellation was not received"),
            size=4096,
        )

    def listen(self) -> None:
        """Receive cancellations of other processes from now on; a second call does nothing."""
        # A single process needs no messages from others.
        if not self._is_alone:
            self._loop.start()

    def cancel(self, owner: str, id: Any, reason: str) -> bool:
        """Cancel one request of an owner; return whether it ran in this process."""
        here = self._running.cancel(owner, id, reason)
        self._publish(owner, {"id": id, "reason": reason})
        return here

    def cancel_all(self, owner: str, reason: str) -> None:
        """Cancel every request of an owner."""
        self._running.cancel_all(owner, reason)
        self._publish(owner, {"reason": reason})

    def _publish(self, owner: str, fields: dict[str, Any]) -> None:
        self._store.bus.publish(cancelled_topic(owner), orjson.dumps({"from": self._name, **fields}))

    def _wait(self, mailbox: Subscription) -> None:
        """Receive the next cancellation, in the thread."""
        if (got := mailbox.get(LISTEN_POLL_SECONDS)) is not None:
            self._receive(got[0].removeprefix(cancelled_topic("")), orjson.loads(got[1]))

    def _receive(self, owner: str, fields: dict[str, Any]) -> None:
        # Ignore this process's own messages: by now another request may have the same id.
        if fields["from"] == self._name:
            return
        if "id" in fields:
            self._running.cancel(owner, fields["id"], fields["reason"])
        else:
            self._running.cancel_all(owner, fields["reason"])
