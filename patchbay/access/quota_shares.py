"""The shares of quotas on a store that several machines use: each process has its part of every limit.

Each process says once a second that it lives, and counts those that have said so lately. A caller that sends everything
to one machine reaches the share of that machine at least.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from uuid import uuid4

from patchbay.access.quotas import Quotas
from patchbay.background import BackgroundLoop
from patchbay.coordination.nodes import ID_DIGITS, LOST_SECONDS, MAX_BEATS, beat_of
from patchbay.errors import PatchbayError
from patchbay.store import Store
from patchbay.topics import LIVING

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
"""Seconds between two beats of a process."""


class QuotaShares:
    """Settles the shares of the quotas of this process. Does nothing on a store of one machine."""

    def __init__(self, store: Store, quotas: Quotas) -> None:
        self._store = store
        self._quotas = quotas
        self._id = uuid4().hex
        self.load: Callable[[], Mapping[str, int | None]] = dict
        """What this process does now, for `patchbay nodes`: `calls`, `listeners`, `lag_ms`."""
        self._seq = 0
        self._beats: dict[bytes, float] = {}
        self._loop = BackgroundLoop(
            "quota-shares", self._beat, "the shares of quotas stay as they are", first_after=BEAT_SECONDS
        )

    def start(self) -> None:
        """Settle now, and then once a second in a thread."""
        if self._store.is_shared:
            self.settle()
            self._loop.start()

    def settle(self) -> None:
        """Say that this process lives, and share the limits with those that live. A failing store changes nothing."""
        try:
            self._store.journal.append(LIVING, beat_of(self._id, self.load), 2 * LOST_SECONDS)
            for beat in self._store.journal.read(LIVING, self._seq, MAX_BEATS):
                self._seq = beat.seq
                self._beats[beat.data[:ID_DIGITS]] = beat.at
        except PatchbayError as problem:
            log.debug("the shares of quotas stay as they are: %s", problem)
            return
        since = self._store.now() - LOST_SECONDS
        self._beats = {id: at for id, at in self._beats.items() if at > since or id == self._id.encode()}
        self._quotas.share(len(self._beats))

    def close(self) -> None:
        """Stop; the share of this process goes to the others when its beats are old."""
        self._loop.close(2 * BEAT_SECONDS)

    def _beat(self) -> float:
        self.settle()
        return BEAT_SECONDS
