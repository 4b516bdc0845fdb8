"""Watches a library's folder: scans the folder after the kernel reports a change.

Each folder that may hold documents has its own watch, never through a symbolic link. A scan compares the whole folder
with the index, so one scan finds all reported and all missed changes. A second scan follows each reported change,
because files in a new folder may be older than its watch. If the kernel cannot watch (no inotify, too many folders),
the folder is scanned periodically.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from patchbay.background import BackgroundLoop
from patchbay.documents.kernel_reports import wait_for_changes

log = logging.getLogger(__name__)

GATHERING_MILLISECONDS = 100
"""Limit on the time that changes are collected before they are reported together."""

SECOND_SCAN_MILLISECONDS = 1000
"""Time between a change, or the start of a watch, and the second scan."""

SAFETY_SCAN_SECONDS = 30.0
"""Time between scans without a reported change; a network file system reports no changes."""

POLL_SECONDS = 1.0
"""Time between scans of a folder that the kernel cannot watch."""

SCAN_PAUSE_FACTOR = 3
"""The pause after a scan is at least this many times the duration of the scan; without a watch, 20 times."""

CLOSE_SECONDS = 10.0
"""Seconds that `stop` waits for a scan that runs."""

Scan = Callable[[], float]
"""Scans the whole folder once; returns the seconds that the walk took."""


class Watcher:
    """Watches the folder of a library on a separate thread, from `start` to `stop`.

    `scan` scans the folder, `folders` returns the folders of the last scan, `notice` is called for each change that the
    kernel reports, `is_behind` says whether the index needs another scan.
    """

    def __init__(
        self,
        scan: Scan,
        folders: Callable[[], Sequence[Path]],
        notice: Callable[[], None],
        is_behind: Callable[[], bool],
    ) -> None:
        self._scan = scan
        self._folders = folders
        self._notice = notice
        self._is_behind = is_behind
        self._is_logged = False
        self._loop = BackgroundLoop("library", self._run, "a library is watched again")
        self._ending = self._loop.ending

    def start(self) -> None:
        """Start watching."""
        self._loop.start()

    def stop(self) -> None:
        """Stop watching."""
        self._loop.close(CLOSE_SECONDS)

    def _run(self) -> float:
        """Scan the folder and follow its changes; return the seconds until the next scan."""
        took = self._scan_safely()
        folders = self._folders()
        try:
            if folders:
                self._follow(folders)
                return 0.0
        except FileNotFoundError:
            pass  # a folder was deleted between the scan and the watch; the next scan finds that
        except OSError as problem:
            if not self._is_logged:
                log.warning("the kernel cannot watch a library; the hub scans it periodically: %s", problem)
            self._is_logged = True
        return max(POLL_SECONDS, 20 * took)

    def _follow(self, folders: Sequence[Path]) -> None:
        """Scan the folder after each change, until the set of folders to watch changes. Raises OSError."""
        last_scan, needs_second_scan = time.monotonic(), True
        changes = wait_for_changes(folders, self._ending, GATHERING_MILLISECONDS, SECOND_SCAN_MILLISECONDS)
        for has_changed in changes:
            if has_changed:
                self._notice()
            elif not (needs_second_scan or self._is_behind() or time.monotonic() - last_scan > SAFETY_SCAN_SECONDS):
                continue
            needs_second_scan = has_changed
            took = self._scan_safely()
            last_scan = time.monotonic()
            if self._folders() != folders or self._ending.wait(SCAN_PAUSE_FACTOR * took):
                return

    def _scan_safely(self) -> float:
        try:
            return self._scan()
        except Exception:
            log.exception("the scan of a library failed; the hub scans it again")
            return POLL_SECONDS
