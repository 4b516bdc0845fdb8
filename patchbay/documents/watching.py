"""Watching a library's folder: the kernel tells of a change, then the folder is looked at.

Each folder that holds or may hold documents is watched by itself, never through a symbolic link. A look compares the
whole folder with what is known, so that one look takes in whatever was told and whatever was missed. A second look
follows when a change was told, because files in a new folder may be older than its watch. Where the kernel cannot
watch (no inotify, too many folders), the folder is looked at again and again.
Sources: inotify(7); https://watchfiles.helpmanual.io/api/watch/.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from watchfiles import Change, watch

log = logging.getLogger(__name__)

GATHERING_MILLISECONDS = 100
"""How long changes are gathered at most before they are told together."""

QUIET_MILLISECONDS = 25
"""Changes are told when there was none for so long."""

SECOND_LOOK_MILLISECONDS = 1000
"""When a second look follows a change, or the begin of a watch."""

SAFETY_LOOK_SECONDS = 30.0
"""How often the folder is looked at although the kernel told nothing; a network file system tells nothing."""

POLL_SECONDS = 1.0
"""How often the folder is looked at where the kernel cannot watch it."""

SHARE = 3
"""Between two looks, at least this many times as long as a look takes is waited; without a watch, 20 times."""

Look = Callable[[], float]
"""Looks at the whole folder once; answers how many seconds the walk took."""


class Watcher:
    """Keeps a library in step with its folder, on a thread of its own, from `start` to `stop`.

    `look` looks at the folder, `folders` names those that the last look found, `notice` is called when the kernel tells
    of a change, `is_behind` says whether another look is wanted.
    """

    def __init__(
        self,
        look: Look,
        folders: Callable[[], Sequence[Path]],
        notice: Callable[[], None],
        is_behind: Callable[[], bool],
    ) -> None:
        self._look = look
        self._folders = folders
        self._notice = notice
        self._is_behind = is_behind
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="library", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        told = False
        while not self._ending.is_set():
            took = self._looked()
            folders = self._folders()
            try:
                if folders:
                    self._follow(folders)
                    continue
            except FileNotFoundError:
                pass  # a folder went away between the look and the watch; the next look knows
            except OSError as problem:
                if not told:
                    log.warning("the kernel cannot watch a library, which is looked at instead: %s", problem)
                told = True
            self._ending.wait(max(POLL_SECONDS, 20 * took))

    def _follow(self, folders: Sequence[Path]) -> None:
        """Look at the folder after each change, until there are other folders to watch. Raises OSError."""
        looked, again = time.monotonic(), True
        for told in self._told(folders):
            if told:
                self._notice()
            elif not (again or self._is_behind() or time.monotonic() - looked > SAFETY_LOOK_SECONDS):
                continue
            again = told
            took = self._looked()
            looked = time.monotonic()
            if self._folders() != folders or self._ending.wait(SHARE * took):
                return

    def _told(self, folders: Sequence[Path]) -> Iterator[bool]:
        """Whether the kernel told of a change, each time that it did or SECOND_LOOK_MILLISECONDS have passed."""
        changes = watch(
            *folders,
            watch_filter=_is_seen,
            debounce=GATHERING_MILLISECONDS,
            step=QUIET_MILLISECONDS,
            rust_timeout=SECOND_LOOK_MILLISECONDS,
            yield_on_timeout=True,
            stop_event=self._ending,
            recursive=False,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        return (bool(change) for change in changes)

    def _looked(self) -> float:
        try:
            return self._look()
        except Exception:
            log.exception("a library could not be looked at; it is tried again")
            return POLL_SECONDS


def _is_seen(change: Change, path: str) -> bool:
    """Whether a change is of a file or folder that a look would see."""
    return not path.rpartition(os.sep)[2].startswith(".")
