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

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from patchbay.cli.telling import note, printable
from patchbay.client.runs import Item
from patchbay.events import LOG_LEVELS, Log
from patchbay.events import Progress as Said


class Display:
    """What a server says beside its answers. `level` is the lowest level of log lines that are shown."""

    def __init__(self, level: str = "warning") -> None:
        self._console = Console(stderr=True)
        self._shows = sys.stderr.isatty()
        self._level = LOG_LEVELS.index(level)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
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
        words = escape(printable(said.message or "working"))
        bar, task = self._started()
        bar.update(task, completed=said.progress, total=said.total, description=words, count=_count(said))

    def _started(self) -> tuple[Progress, TaskID]:
        if self._bar is None or self._task is None:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
            )
            self._bar = Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task("working", total=None, count="")
        return self._bar, self._task

    def clear(self) -> None:
        """Take the progress away: what it was about has ended."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            self._bar = self._task = None

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
        with self._console.status(escape(printable(words))):
            yield


def _count(said: Said) -> str:
    return f"{said.progress:g}/{said.total:g}" if said.total is not None else f"{said.progress:g}"
