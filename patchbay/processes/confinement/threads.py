"""Confine the thread that starts a command, and thereby the command, by the protections that need no namespaces.

The ruleset of one definition is reused for `FRESH_SECONDS`, because making it takes a good part of the time of a short
command. A new file beside a hidden folder becomes readable after that time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection

from patchbay.processes.confinement import landlock
from patchbay.processes.confinement.kernel import drop_capabilities
from patchbay.processes.confinement.paths import AllowedPaths
from patchbay.processes.confinement.protections import LANDLOCK

FRESH_SECONDS = 5.0
"""Age in seconds after which the ruleset is made again."""


class Confiner:
    """Called in a thread, confines it permanently. `names` are the wanted protections. Raises OSError."""

    def __init__(self, places: AllowedPaths, names: Collection[str]) -> None:
        self._places = places
        self._locked = LANDLOCK in names and landlock.version() > 0
        self._lock = threading.Lock()
        self._ruleset = -1
        self._made = 0.0

    def __call__(self) -> None:
        if not self._locked:
            return
        drop_capabilities()
        with self._lock:
            if self._ruleset < 0 or time.monotonic() - self._made > FRESH_SECONDS:
                self._close()
                self._ruleset = landlock.make_ruleset(self._places)
                self._made = time.monotonic()
            landlock.enforce(self._ruleset)

    def _close(self) -> None:
        if self._ruleset >= 0:
            os.close(self._ruleset)
            self._ruleset = -1

    def __del__(self) -> None:
        self._close()
