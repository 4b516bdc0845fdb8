"""When the watched folder is due for a scan: after each change that the kernel reports, and otherwise at intervals.

The folder has a watch, and so has each folder below it that holds a transform of a configuration; no watch follows a
symbolic link. A slow scan finds the changes that the kernel does not report, such as those on a network file system. If
the kernel cannot watch (no inotify, too many watches, no folder yet), the folder is scanned at short intervals.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path

from patchbay.documents.kernel_reports import wait_for_changes

log = logging.getLogger(__name__)

GATHERING_MILLISECONDS = 50
"""Limit on the time that changes are collected before they are reported together."""

CHECK_MILLISECONDS = 500
"""Milliseconds between two checks that the watched folders are still the same."""

SECOND_SCAN_SECONDS = 0.05
"""Seconds between a scan that found a change and the next one, which has to agree with it."""

SLOW_SCAN_SECONDS = 5.0
"""Seconds between two scans while the kernel reports no change."""

POLL_SECONDS = 0.5
"""Seconds between two scans of a folder that the kernel cannot watch."""

SCAN_PAUSE_FACTOR = 20
"""Without a watch, the pause after a scan is at least this many times the duration of the scan."""

Identity = tuple[tuple[Path, int, int], ...]
"""The watched folders, each with its device and inode."""


def follow(
    folders: Callable[[], Sequence[Path]],
    is_unsettled: Callable[[], bool],
    ending: threading.Event,
    is_due: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Yield whenever a scan is due, until `ending` is set.

    `folders` returns the folders to watch; `is_unsettled` says whether the last scan found files that another scan has
    to confirm; `is_due`, asked twice a second, whether a scan is due for another reason.
    """
    is_logged = False
    while not ending.is_set():
        try:
            watched = _identify(folders())
            yield from _follow_kernel(watched, folders, is_unsettled, ending, is_due)
            continue
        except FileNotFoundError:
            pass  # the folder does not exist yet, or was deleted
        except OSError as problem:
            if not is_logged:
                log.warning("the kernel cannot watch the folder of the servers; the hub scans it: %s", problem)
            is_logged = True
        begun = time.monotonic()
        yield
        ending.wait(max(POLL_SECONDS, SCAN_PAUSE_FACTOR * (time.monotonic() - begun)))


def _follow_kernel(
    watched: Identity,
    folders: Callable[[], Sequence[Path]],
    is_unsettled: Callable[[], bool],
    ending: threading.Event,
    is_due: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Yield after changes and at intervals until other folders are to be watched. Raises OSError."""
    # A change between the scan before and the start of the watch is found by the first check.
    last_scan = -inf
    paths = [folder for folder, *_ in watched]
    for has_changed in wait_for_changes(paths, ending, GATHERING_MILLISECONDS, CHECK_MILLISECONDS):
        if _identify(folders()) != watched:
            yield
            return
        if not (has_changed or is_due()) and time.monotonic() - last_scan < SLOW_SCAN_SECONDS:
            continue
        yield
        pause = SECOND_SCAN_SECONDS
        while is_unsettled() and not ending.wait(pause):
            yield
            pause = min(2 * pause, POLL_SECONDS)
        last_scan = time.monotonic()


def _identify(folders: Sequence[Path]) -> Identity:
    """Return the folders that exist, each with what identifies it. Raises FileNotFoundError without the first one."""
    found = []
    for place, folder in enumerate(folders):
        try:
            status = folder.stat()
        except OSError:
            if place == 0:
                raise
            continue
        found.append((folder, status.st_dev, status.st_ino))
    return tuple(found)
