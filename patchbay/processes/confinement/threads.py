"""Confines the thread that begins a command, and thereby the command, by what needs no namespaces.

The rules for one definition are kept for some seconds, because making them takes a good part of the time that a
short command takes. A file that comes to be beside a hidden folder is readable after that time.
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
"""Age of the rules from which they are made anew."""


class Confiner:
    """Called in a thread, confines it for good. `names` are the protections that are wanted. Raises OSError."""

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
