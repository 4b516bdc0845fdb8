"""A question to all processes of a hub: what each of them has in its memory.

The process that gets a request asks the others over the bus, and waits up to WORKER_ANSWER_SECONDS for their answers.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from patchbay.coordination.mailbox_loop import MailboxLoop
from patchbay.store import Store, Subscription

log = logging.getLogger(__name__)

WORKER_ANSWER_SECONDS = 1.0
"""Seconds that the other processes have to respond."""

HUB_DIGITS = 16
"""Hexadecimal digits of the digest that stands for a hub among those on one store."""

LISTEN_POLL_SECONDS = 5.0
"""Seconds between two checks whether the bus subscription is closed."""


class WorkerAnswers:
    """One question of a process. Safe to use from many threads.

    `asked` is the topic of the question, `told` the prefix of the topics for the answers: only processes with the same
    two answer each other. `answer` returns the answer of this process, `others` the number of other processes.
    """

    def __init__(
        self, store: Store, asked: str, told: str, answer: Callable[[], bytes], others: Callable[[], int]
    ) -> None:
        self._store = store
        self._asked = asked
        self._told = told
        self._answer = answer
        self._others = others
        self.own = f"{os.getpid()}"
        """The name of this process among the answers."""
        self._asking: set[bytes] = set()
        self._loop = MailboxLoop(
            "worker answers", store.bus, [asked], self._serve, "a question of another process was not read"
        )

    def listen(self) -> None:
        """Start a thread that answers other processes until the store is closed."""
        self._loop.start()

    def collect(self) -> list[tuple[str, bytes]]:
        """Return the answers by process: that of this one, then those of others that come in time."""
        return [(self.own, self._answer()), *self._ask_others()]

    def _ask_others(self) -> list[tuple[str, bytes]]:
        others = self._others()
        if others < 1:
            return []
        topic = f"{self._told}{secrets.token_urlsafe(9)}"
        found: list[tuple[str, bytes]] = []
        self._asking.add(topic.encode())
        with self._store.bus.subscribe([topic], 1024) as mailbox:
            self._store.bus.publish(self._asked, topic.encode())
            until = time.monotonic() + WORKER_ANSWER_SECONDS
            while len(found) < others and (left := until - time.monotonic()) > 0:
                got = mailbox.get(left)
                if got is not None:
                    worker, _, answer = got[1].partition(b"\n")
                    found.append((worker.decode(), answer))
        self._asking.discard(topic.encode())
        return sorted(found)

    def _serve(self, mailbox: Subscription) -> None:
        got = mailbox.get(LISTEN_POLL_SECONDS)
        # Ignore the questions of this process itself, and those of other hubs on the same store.
        if got is not None and got[1] not in self._asking and got[1].startswith(self._told.encode()):
            self._publish(got[1].decode())

    def _publish(self, topic: str) -> None:
        try:
            self._store.bus.publish(topic, self.own.encode() + b"\n" + self._answer())
        except Exception:
            log.exception("cannot answer the question %s of another process", self._asked)


def hub_digest(data: Path) -> str:
    """Return what tells the hub with a data folder on this machine from the other hubs on its store."""
    name = f"{socket.gethostname()}\0{data.resolve()}"
    return sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:HUB_DIGITS]
