"""The processor time of another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from patchbay.processes.processor_clock import ProcessorClock
from tests.waiting import until

TWO_BUSY_THREADS = """
import threading

def work():
    while True:
        pass

threading.Thread(target=work, daemon=True).start()
work()
"""


def test_the_clock_of_a_process_goes_on_while_it_works_stands_while_it_is_stopped_and_is_0_after_its_end() -> None:
    with subprocess.Popen([sys.executable, "-c", TWO_BUSY_THREADS]) as process:
        clock = ProcessorClock(process.pid)
        until(lambda: clock.nanoseconds() > 0, "its first work")
        first = clock.nanoseconds()
        until(lambda: clock.nanoseconds() > first + 10_000_000, "its next work")
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert clock.nanoseconds() == clock.nanoseconds() > 0
        process.kill()
        process.wait()
        assert clock.nanoseconds() == 0
        assert ProcessorClock(process.pid).nanoseconds() == 0
