"""A service that a test starts for itself: a program with a folder of its own below `/tmp`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path


class LocalService:
    """The program of a service; `start` of a subclass sets `_process`. What it has stored outlasts `stop`."""

    def __init__(self, name: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=f"patchbay-{name}-"))
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """Kill the program; its contents stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def hold(self, is_held: bool) -> None:
        """Stop the program as a machine that is suspended, or let it go on: connections open, answers do not come."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP if is_held else signal.SIGCONT)

    def close(self) -> None:
        """End the program and delete its contents."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
