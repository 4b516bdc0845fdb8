"""Progress, log messages and waiting on standard error while a command runs.

Progress and waiting are shown on a terminal only, and disappear before anything else is written. Log messages are
always lines.
Sources: MCP specification, basic/utilities/progress, server/utilities/logging.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchbay.cli.terminal.messages import MOVING, indent_lines, make_printable, write_note
from patchbay.client.connection.requests import Item
from patchbay.events import LOG_LEVELS, Log
from patchbay.events import Progress as ProgressEvent
from patchbay.settings import whole_environment
from patchbay.terminal import is_dumb, is_terminal

if TYPE_CHECKING:
    from patchbay.cli.terminal.progress_bar import ProgressBar, Spinner


def can_show_progress() -> bool:
    """Whether standard error is a terminal that can redraw a line."""
    return is_terminal(sys.stderr) and not is_dumb(whole_environment())


class Display:
    """Shows progress and log messages of servers. `level` is the lowest shown level of log messages.

    It shows a progress bar or a spinner, one at a time; whatever is written through `messages` removes it first.
    """

    def __init__(self, level: str = "warning") -> None:
        self._can_move = can_show_progress()
        self._level = LOG_LEVELS.index(level)
        self._shown: ProgressBar | Spinner | None = None
        self._lock = threading.RLock()

    def show(self, item: Item) -> None:
        """Show one progress or log message."""
        with self._lock:
            if isinstance(item, Log) and item.level in LOG_LEVELS:
                if LOG_LEVELS.index(item.level) >= self._level:
                    data = item.data if isinstance(item.data, str) else json.dumps(item.data, ensure_ascii=False)
                    name = f"{item.logger}: " if item.logger else ""
                    write_note(indent_lines(f"{item.level}: {name}{data}"))
            elif isinstance(item, ProgressEvent) and self._can_move:
                self._progress(item)

    def _progress(self, event: ProgressEvent) -> None:
        from patchbay.cli.terminal.progress_bar import ProgressBar

        if not isinstance(self._shown, ProgressBar):
            self.clear()
            self._shown = ProgressBar()
            MOVING.append(self.clear)
        self._shown.show(make_printable(event.message or "working"), event.progress, event.total)

    def clear(self) -> None:
        """Remove the progress bar or the spinner."""
        with self._lock:
            if self._shown is not None:
                self._shown.stop()
                self._shown = None
                MOVING.remove(self.clear)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Show nothing while the block uses the terminal."""
        with self._lock:
            self.clear()
            yield

    @contextmanager
    def waiting(self, words: str) -> Iterator[None]:
        """Show a spinner with a text while the block runs, until something else is written."""
        if not self._can_move:
            yield
            return
        from patchbay.cli.terminal.progress_bar import Spinner

        with self._lock:
            self.clear()
            self._shown = spinner = Spinner(make_printable(words))
            MOVING.append(self.clear)
        try:
            yield
        finally:
            with self._lock:
                if self._shown is spinner:
                    self.clear()
