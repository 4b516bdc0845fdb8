"""Tells the servers of this process when a value that their configuration names has changed.

A message on the bus begins a look at once. A message may be lost, and a file of `--secrets-dir` changes without one, so
that there is a look every few seconds too: one short read while nothing has changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from patchbay.access.secrets.variables import HubVariables
from patchbay.background import BackgroundLoop
from patchbay.store import Bus
from patchbay.topics import SECRET_NAMES

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Seconds between two looks without a message."""

CLOSE_SECONDS = 5.0


class SecretChanges:
    """Calls `renew` with the names of servers for which a value has changed, from `start` to `close`."""

    def __init__(self, bus: Bus, variables: HubVariables, renew: Callable[[frozenset[str]], None]) -> None:
        self._bus = bus
        self._variables = variables
        self._renew = renew
        self._loop = BackgroundLoop("secrets", self._run, "no look for changed secrets", retry_seconds=LOOK_SECONDS)

    def start(self) -> None:
        """Start the thread."""
        self._loop.start()

    def close(self) -> None:
        """End the thread."""
        self._loop.stop()
        self._bus.publish_here(SECRET_NAMES)
        self._loop.join(CLOSE_SECONDS)

    def _run(self) -> float:
        with self._bus.subscribe([SECRET_NAMES]) as mailbox:
            while not (self._loop.ending.is_set() or mailbox.closed):
                changed = self._variables.list_changed()
                if changed:
                    log.info("a secret of %s has changed: connecting anew", ", ".join(sorted(changed)))
                    self._renew(changed)
                mailbox.get(LOOK_SECONDS)
        return LOOK_SECONDS
