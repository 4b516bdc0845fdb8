"""Lets a module of tests run alone: no other worker of pytest-xdist runs a test meanwhile.

Each test holds a shared lock of one file; a module that runs alone holds it exclusively, once for all its tests, so
that the other workers wait for it only once. A second file is the gate that both pass: without it, a module that wants
to run alone would wait until no other test runs by chance.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def holding(folder: Path, alone: bool) -> Iterator[None]:
    """Hold the lock of the test runs whose files are in `folder`, exclusively when `alone`."""
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with (folder / "running.lock").open("a") as lock:
        with (folder / "gate.lock").open("a") as gate:
            fcntl.flock(gate, kind)
            fcntl.flock(lock, kind)
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield
        # A process that a test forked has the file open too: closing it here would not end the lock.
        fcntl.flock(lock, fcntl.LOCK_UN)
