"""The progress bar and the spinner on a terminal: loaded when there is something to show on one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class ProgressBar:
    """One bar on standard error; it leaves nothing behind."""

    def __init__(self) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
        self._bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("working", total=None, count="")

    def show(self, words: str, progress: float, total: float | None) -> None:
        """Show how far the work is."""
        count = f"{progress:g}/{total:g}" if total is not None else f"{progress:g}"
        self._bar.update(self._task, completed=progress, total=total, description=escape(words), count=count)

    def stop(self) -> None:
        """Take the bar away."""
        self._bar.stop()


def spinner(words: str) -> AbstractContextManager[Any]:
    """A spinner with some words, as long as a block runs."""
    return Console(stderr=True).status(escape(words))
