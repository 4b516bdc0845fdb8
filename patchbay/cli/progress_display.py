"""What is shown on standard error while a command works: progress and logs of the server, what is waited for.

Progress and waiting are for a terminal only, and leave nothing behind; logs are lines anywhere.
Sources: JN-47 to JN-50 (warnings); MCP specification, basic/utilities/progress, server/utilities/logging.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchbay.cli.messages import note, printable
from patchbay.client.connection.requests import Item
from patchbay.events import LOG_LEVELS, Log
from patchbay.events import Progress as Said
from patchbay.views.terminal import is_terminal

if TYPE_CHECKING:
    from patchbay.cli.progress_bar import ProgressBar


class Display:
    """What a server says beside its answers. `level` is the lowest level of log lines that are shown."""

    def __init__(self, level: str = "warning") -> None:
        self._shows = is_terminal(sys.stderr)
        self._level = LOG_LEVELS.index(level)
        self._bar: ProgressBar | None = None
        self._lock = threading.RLock()

    def tell(self, item: Item) -> None:
        """Show one item."""
        with self._lock:
            if isinstance(item, Log) and item.level in LOG_LEVELS:
                if LOG_LEVELS.index(item.level) >= self._level:
                    data = item.data if isinstance(item.data, str) else json.dumps(item.data, ensure_ascii=False)
                    with self.quiet():
                        note(f"{item.level}: {f'{item.logger}: ' if item.logger else ''}{data}")
            elif isinstance(item, Said) and self._shows:
                self._progress(item)

    def _progress(self, said: Said) -> None:
        from patchbay.cli.progress_bar import ProgressBar

        if self._bar is None:
            self._bar = ProgressBar()
        self._bar.show(printable(said.message or "working"), said.progress, said.total)

    def clear(self) -> None:
        """Take the progress away: what it was about has ended."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            self._bar = None

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Leave the terminal to somebody else while the block runs."""
        with self._lock:
            self.clear()
            yield

    @contextmanager
    def waiting(self, words: str) -> Iterator[None]:
        """Say what is waited for while the block runs."""
        if not self._shows:
            yield
            return
        from patchbay.cli.progress_bar import spinner

        with spinner(printable(words)):
            yield
