"""The limits of one run of a script, and what is left of them: a run inside a run shares what its outer one has."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from patchbay.scripting.suspended.suspension import BudgetLeft, CannotGoOn

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one run may use.

    `running_seconds` is the processor time of the interpreter. `wall_seconds` is all time, with the calls and the waits
    for a processor. `suspensions` is how often the interpreter may ask for something: a call and the wait for it are
    two, an import and a sleep are others. `memory_mib` is for the values of the script, `output_bytes` for what it
    prints, `value_bytes` for its value, `argument_bytes` for the arguments of all its calls together, and
    `result_bytes` for the results of all its calls together, also of those that failed. At most `parallel` calls run at
    the same time. `depth` counts the runs inside each other.
    """

    running_seconds: float = 5.0
    wall_seconds: float = 60.0
    memory_mib: int = 64
    calls: int = 200
    suspensions: int = 2400
    argument_bytes: int = 16 * MIB
    result_bytes: int = 16 * MIB
    value_bytes: int = 16 * MIB
    output_bytes: int = 64 * 1024
    parallel: int = 8
    depth: int = 2


class LimitReached(CannotGoOn):
    """A run reached one of its limits, which the message names."""


class Budget:
    """What is left for a run, and for the runs inside it. Thread-safe. A run that goes on has what it had `left`."""

    def __init__(self, limits: RunLimits, left: BudgetLeft | None = None) -> None:
        self.limits = limits
        self.runs = 0
        """The runs that share it now: one inside another, or several that calls at the same time began."""
        self.until = time.monotonic() + (left.wall_seconds if left else limits.wall_seconds)
        """The `time.monotonic()` time at which the run ends."""
        self._lock = threading.Lock()
        self._calls = left.calls if left else limits.calls
        self._argument_bytes = left.argument_bytes if left else limits.argument_bytes
        self._bytes = left.result_bytes if left else limits.result_bytes
        self._seconds = left.running_seconds if left else limits.running_seconds
        self._suspensions = left.suspensions if left else limits.suspensions

    def left(self, output_bytes: int) -> BudgetLeft:
        """Return what is left, for a run that goes on later; `output_bytes` are those that it may still print."""
        with self._lock:
            return BudgetLeft(
                calls=self._calls,
                argument_bytes=self._argument_bytes,
                result_bytes=self._bytes,
                output_bytes=output_bytes,
                running_seconds=self._seconds,
                wall_seconds=max(0.0, self.until - time.monotonic()),
                suspensions=self._suspensions,
            )

    def take_suspension(self) -> None:
        """Count that the interpreter asked for something. Raises LimitReached.

        The library counts too, and begins again with a snapshot.
        """
        with self._lock:
            self._suspensions -= 1
            if self._suspensions < 0:
                most = f"{self.limits.suspensions} times (limit suspensions)"
                raise LimitReached(f"it imports, calls, waits and sleeps more than {most}")

    def check_depth(self, depth: int) -> None:
        """Raise LimitReached if no run may begin inside so many others."""
        if depth >= self.limits.depth:
            raise LimitReached(f"scripts may run inside each other {self.limits.depth} deep (limit depth)")

    def take_call(self) -> None:
        """Count one call. Raises LimitReached."""
        with self._lock:
            if not self._calls:
                raise LimitReached(f"the script makes more than {self.limits.calls} calls (limit calls)")
            self._calls -= 1

    def take_argument_bytes(self, size: int) -> None:
        """Count bytes of the arguments of a call. Raises LimitReached."""
        with self._lock:
            self._argument_bytes -= size
            if self._argument_bytes < 0:
                sentence = f"the arguments of its calls have more than {self.limits.argument_bytes} bytes together"
                raise LimitReached(f"{sentence} (limit argument_bytes)")

    def take_bytes(self, size: int) -> None:
        """Count the bytes of a result. Raises LimitReached."""
        with self._lock:
            self._bytes -= size
            if self._bytes < 0:
                sentence = f"the results of its calls have more than {self.limits.result_bytes} bytes together"
                raise LimitReached(f"{sentence} (limit result_bytes)")

    @property
    def seconds_left(self) -> float:
        """The seconds in which the interpreter may still work."""
        return self._seconds

    def take_seconds(self, seconds: float) -> None:
        """Count seconds in which the interpreter worked."""
        with self._lock:
            self._seconds = max(0.0, self._seconds - seconds)

    def check_time(self) -> None:
        """Raise LimitReached when the time of the run is over."""
        if time.monotonic() >= self.until:
            raise LimitReached(f"the script takes more than {self.limits.wall_seconds:g} s (limit wall_seconds)")


class ValueBytes:
    """What is left of the bytes of the value of one run. For one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit

    def take(self, size: int) -> None:
        """Count bytes of the value. Raises LimitReached."""
        self._left -= size
        if self._left < 0:
            raise LimitReached(f"it has more than {self._limit} bytes (limit value_bytes)")
