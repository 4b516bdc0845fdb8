"""Reads how long another process has worked: the processor time of all its threads, also of those that have ended."""

from __future__ import annotations

import ctypes
import time


class ProcessorClock:
    """The processor time of one process. It does not go on while the process is stopped, or waits for a processor.

    Only Linux has it. Source: `man 3 clock_getcpuclockid`.
    """

    def __init__(self, pid: int) -> None:
        clock = ctypes.c_int()
        self._clock = None if _LIBRARY.clock_getcpuclockid(pid, ctypes.byref(clock)) else clock.value

    def nanoseconds(self) -> int:
        """Return the time that the process has worked since it began; 0 for one that has ended."""
        if self._clock is None:
            return 0
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:
            return 0


_LIBRARY = ctypes.CDLL(None)
