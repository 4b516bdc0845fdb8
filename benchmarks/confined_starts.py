"""Cost of confining a program: wall and processor time of a start, confined and not.

    .venv/bin/python -m benchmarks.confined_starts [STARTS]

Without confinement the program starts below `process_trees.py`, as one that is mounted with `"confine": "off"` does.
It writes one line and ends. Time by the clock ends with that line; processor time, of this process and of its
children, with their ends. Both ways are measured in turns, and the medians count. Time by the clock depends on other
work of the machine.
"""

from __future__ import annotations

import resource
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from patchbay.client.connection.programs.stdio import REAPER
from patchbay.processes.confined_command import confined_command
from patchbay.processes.confinement.programs import DEFAULT, OFF, ProgramConfinement, ProgramPermissions, ProgramPlaces
from patchbay.processes.program import Command, run

STARTS = 40
PROGRAM = ("/bin/sh", "-c", "echo started")


def main(starts: int = STARTS) -> None:
    """Print the milliseconds of a start without confinement and with it, by the clock and of the processor."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        places = ProgramPlaces(folder / "programs", hidden=(folder / "data",))
        ways = {
            name: ProgramConfinement("bench", places, ProgramPermissions(confine=name), {"HOME": str(Path.home())})
            for name in (OFF, DEFAULT)
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(starts + 1):
            for name, confinement in ways.items():
                figures = _measure_start(confinement, folder)
                if number:  # the first start of each way reads files that later ones find in memory
                    found[name].append(figures)
    for position, kind in enumerate(("by the clock", "of the processor")):
        before, after = (statistics.median(figures[position] for figures in found[name]) for name in ways)
        sys.stdout.write(f"{kind:16} without {before:6.1f} ms   with {after:6.1f} ms   more {after - before:6.1f} ms\n")


def _measure_start(confinement: ProgramConfinement, folder: Path) -> tuple[float, float]:
    """Return the milliseconds of one start by the clock and of the processor."""
    begin, spent = time.monotonic(), _processor_seconds()
    arrived = begin
    with _command(confinement, folder) as command:
        for piece in run(command):
            if piece is not None:
                arrived = time.monotonic()
    return (arrived - begin) * 1e3, (_processor_seconds() - spent) * 1e3


@contextmanager
def _command(confinement: ProgramConfinement, folder: Path) -> Iterator[Command]:
    with confined_command(confinement, PROGRAM, {"PATH": "/usr/bin:/bin"}, {}, folder) as command:
        if confinement.is_on:
            yield command
            return
        ours, theirs = socket.socketpair()
        with ours, theirs:
            around = (sys.executable, "-I", "-S", REAPER, str(theirs.fileno()), str(folder))
            yield replace(command, around=around, pass_fds=(theirs.fileno(),))


def _processor_seconds() -> float:
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
