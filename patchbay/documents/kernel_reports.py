"""The changes of folders that the kernel reports, for the watch of a library and of the servers' folder.

Sources: inotify(7); https://watchfiles.helpmanual.io/api/watch/.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from watchfiles import Change, watch

QUIET_MILLISECONDS = 25
"""Changes are reported after this time without another change."""


def wait_for_changes(
    folders: Sequence[Path], ending: threading.Event, gathering_milliseconds: int, check_milliseconds: int
) -> Iterator[bool]:
    """Yield True for each report of changes, False after `check_milliseconds` without one, until `ending` is set.

    Each folder has a watch of its own, without its subfolders. `gathering_milliseconds` limits the time that changes
    are collected before they are reported together. Raises OSError when the kernel cannot watch, FileNotFoundError for
    a missing folder.
    """
    changes = watch(
        *folders,
        watch_filter=_is_seen,
        debounce=gathering_milliseconds,
        step=QUIET_MILLISECONDS,
        rust_timeout=check_milliseconds,
        yield_on_timeout=True,
        stop_event=ending,
        recursive=False,
        raise_interrupt=False,
        ignore_permission_denied=True,
    )
    return (bool(change) for change in changes)


def _is_seen(change: Change, path: str) -> bool:
    """Whether a change is of a file or folder that a scan visits: hidden ones are not."""
    return not path.rpartition(os.sep)[2].startswith(".")
