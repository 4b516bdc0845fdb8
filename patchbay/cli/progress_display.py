"""Progress, log messages and waiting on standard error while a command runs.

Progress and waiting are shown on a terminal only, and disappear. Log messages are always lines.
Sources: MCP specification, basic/utilities/progress, server/utilities/logging.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchbay.cli.messages import make_printable, write_note
from patchbay.client.connection.requests import Item
from patchbay.events import LOG_LEVELS, Log
from patchbay.events import Progress as ProgressEvent
from patchbay.views.terminal import is_terminal

if TYPE_CHECKING:
    from patchbay.cli.progress_bar import ProgressBar


class Display:
    """Shows progress and log messages of servers. `level` is the lowest shown level of log messages."""

    def __init__(self, level: str = "warning") -> None:
        self._is_terminal = is_terminal(sys.stderr)
        self._level = LOG_LEVELS.index(level)
        self._bar: ProgressBar | None = None
        self._lock = threading.RLock()

    def show(self, item: Item) -> None:
        """Show one progress or log message."""
        with self._lock:
            if isinstance(item, Log) and item.level in LOG_LEVELS:
                if LOG_LEVELS.index(item.level) >= self._level:
                    data = item.data if isinstance(item.data, str) else json.dumps(item.data, ensure_ascii=False)
                    with self.paused():
                        write_note(f"{item.level}: {f'{item.logger}: ' if item.logger else ''}{data}")
            elif isinstance(item, ProgressEvent) and self._is_terminal:
                self._progress(item)

    def _progress(self, event: ProgressEvent) -> None:
        from patchbay.cli.progress_bar import ProgressBar

        if self._bar is None:
            self._bar = ProgressBar()
        self._bar.show(make_printable(event.message or "working"), event.progress, event.total)

    def clear(self) -> None:
        """Remove the progress bar."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            self._bar = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Show nothing while the block uses the terminal."""
        with self._lock:
            self.clear()
            yield

    @contextmanager
    def waiting(self, words: str) -> Iterator[None]:
        """Show a spinner with a text while the block runs."""
        if not self._is_terminal:
            yield
            return
        from patchbay.cli.progress_bar import spinner

        with spinner(make_printable(words)):
            yield
