"""Cost of the hub's protections: processor time of an isolated call with them and without.

    .venv/bin/python -m benchmarks.protections [CALLS] [ROUNDS]

Time is user and system time of this process and of all that it began, as user and system time of a whole hub is
counted in `processes.py`. The cost of starting is measured separately and subtracted. Both ways are measured in turns,
so that a machine that is busy with other work is so for both; the median of the rounds counts.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from patchbay.activation import Call, activate
from patchbay.assets import PACKAGE
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.kinds.registry import Handlers
from patchbay.processes.confinement.protections import ALL

SOURCES = {
    "python": b"def main(text: str) -> str:\n    return text\n",
    "shell": b"@bash_command echo\n",
}
CALLS, ROUNDS = 1500, 5
SECONDS = 600.0


def main(calls: int = CALLS, rounds: int = ROUNDS) -> None:
    """Print one line for each kind of definition: both figures in microseconds, and their ratio."""
    for kind in SOURCES:
        count = calls if kind == "python" else max(1, calls // 10)
        found: dict[tuple[str, ...], list[float]] = {ALL: [], (): []}
        for _ in range(rounds):
            for names, figures in found.items():
                figures.append(
                    (measure_cpu_seconds(kind, names, count) - measure_cpu_seconds(kind, names, 1)) / (count - 1) * 1e6
                )
        before, after = statistics.median(found[()]), statistics.median(found[ALL])
        sys.stdout.write(f"{kind:7} without {before:8.1f} us   with {after:8.1f} us   ratio {after / before:.3f}\n")
    begins = [measure_cpu_seconds("python", ALL, 1) - measure_cpu_seconds("python", (), 1) for _ in range(rounds)]
    sys.stdout.write(f"start of the processes, once: {statistics.median(begins) * 1e3:+.1f} ms of processor time\n")


def _own_folder(data: Path, name: str, _: str | None) -> Path:
    """Return the folder of one server."""
    return data / name


def measure_cpu_seconds(kind: str, names: Sequence[str], calls: int) -> float:
    """Seconds of processor time for a pool of processes that begins, answers so many calls, and ends."""
    before = _total_cpu_seconds()
    with TemporaryDirectory() as folder:
        hosts = WorkerPool(hidden=[Path(folder, "data")], protections=names, kept=[PACKAGE, Path(sys.prefix)])
        handlers = Handlers(hosts, "process", folder_of=partial(_own_folder, Path(folder, "data")))
        handler = handlers(kind, SOURCES[kind], "cid", "bench")
        assert handler is not None
        for _ in range(calls):
            _call(handler, kind)
        hosts.close()
    return _total_cpu_seconds() - before


def _call(handler: Callable[..., object], kind: str) -> None:
    arguments = {"text": "hello"} if kind == "python" else {"args": "hello"}
    call = Call("bench", {"function": "main"}, arguments, time.monotonic() + SECONDS)
    events = list(activate(handler, call))  # type: ignore[arg-type]
    assert "hello" in str(events), events


def _total_cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = os.times()
    return own.user + own.system + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
