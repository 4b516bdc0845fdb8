"""The progress bar and the spinner on a terminal; a separate module, because the import of rich is slow.

Both are on standard error, and disappear at their end. Standard output and standard error stay the streams of the
process: rich would otherwise write both to its own console.
"""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

from patchbay.settings import whole_environment
from patchbay.terminal import choose_color


class ProgressBar:
    """A bar with a text, a count and the elapsed time."""

    def __init__(self) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
        self._bar = _start(*columns, TimeElapsedColumn())
        self._task = self._bar.add_task("working", total=None, count="")

    def show(self, words: str, progress: float, total: float | None) -> None:
        """Show the progress."""
        count = f"{progress:g}/{total:g}" if total is not None else f"{progress:g}"
        self._bar.update(self._task, completed=progress, total=total, description=escape(words), count=count)

    def stop(self) -> None:
        """Remove the bar."""
        self._bar.stop()


class Spinner:
    """A spinner with a text."""

    def __init__(self, words: str) -> None:
        self._spinner = _start(SpinnerColumn(), TextColumn("{task.description}"))
        self._spinner.add_task(escape(words), total=None)

    def stop(self) -> None:
        """Remove the spinner."""
        self._spinner.stop()


def _start(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True, no_color=choose_color(whole_environment()) is False)
    shown = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    shown.start()
    return shown
