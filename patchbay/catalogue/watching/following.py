"""When the watched folder is due for a scan: after each change that the kernel reports, and otherwise at intervals.

The folder has a watch, and so has each folder below it that holds a transform of a configuration; no watch follows a
symbolic link. A slow scan finds the changes that the kernel does not report, such as those on a network file system. If
the kernel cannot watch (no inotify, too many watches, no folder yet), the folder is scanned at short intervals.
Sources: inotify(7); https://watchfiles.helpmanual.io/api/watch/.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path

from watchfiles import Change, watch

log = logging.getLogger(__name__)

GATHERING_MILLISECONDS = 50
"""Limit on the time that changes are collected before they are reported together."""

QUIET_MILLISECONDS = 25
"""Changes are reported after this time without another change."""

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
    folders: Callable[[], Sequence[Path]], is_unsettled: Callable[[], bool], ending: threading.Event
) -> Iterator[None]:
    """Yield whenever a scan is due, until `ending` is set.

    `folders` returns the folders to watch; `is_unsettled` says whether the last scan found files that another scan has
    to confirm.
    """
    is_logged = False
    while not ending.is_set():
        try:
            watched = _identify(folders())
            yield from _follow_kernel(watched, folders, is_unsettled, ending)
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
    watched: Identity, folders: Callable[[], Sequence[Path]], is_unsettled: Callable[[], bool], ending: threading.Event
) -> Iterator[None]:
    """Yield after changes and at intervals until other folders are to be watched. Raises OSError."""
    # A change between the scan before and the start of the watch is found by the first check.
    last_scan = -inf
    for has_changed in _wait_for_changes([folder for folder, *_ in watched], ending):
        if _identify(folders()) != watched:
            yield
            return
        if not has_changed and time.monotonic() - last_scan < SLOW_SCAN_SECONDS:
            continue
        yield
        pause = SECOND_SCAN_SECONDS
        while is_unsettled() and not ending.wait(pause):
            yield
            pause = min(2 * pause, POLL_SECONDS)
        last_scan = time.monotonic()


def _wait_for_changes(folders: Sequence[Path], ending: threading.Event) -> Iterator[bool]:
    """Yield True for each report of changes, False after CHECK_MILLISECONDS without one."""
    changes = watch(
        *folders,
        watch_filter=_is_seen,
        debounce=GATHERING_MILLISECONDS,
        step=QUIET_MILLISECONDS,
        rust_timeout=CHECK_MILLISECONDS,
        yield_on_timeout=True,
        stop_event=ending,
        recursive=False,
        raise_interrupt=False,
        ignore_permission_denied=True,
    )
    return (bool(change) for change in changes)


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


def _is_seen(change: Change, path: str) -> bool:
    """Whether a change is of a file that a scan reads."""
    return not path.rpartition(os.sep)[2].startswith(".")
