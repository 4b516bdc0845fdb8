"""The progress bar and the spinner on a terminal; a separate module, because the import of rich is slow."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class ProgressBar:
    """A progress bar on standard error; it disappears at its end."""

    def __init__(self) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
        self._bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("working", total=None, count="")

    def show(self, words: str, progress: float, total: float | None) -> None:
        """Show the progress."""
        count = f"{progress:g}/{total:g}" if total is not None else f"{progress:g}"
        self._bar.update(self._task, completed=progress, total=total, description=escape(words), count=count)

    def stop(self) -> None:
        """Remove the bar."""
        self._bar.stop()


def spinner(words: str) -> AbstractContextManager[Any]:
    """A spinner with a text, for the time of a block."""
    return Console(stderr=True).status(escape(words))
