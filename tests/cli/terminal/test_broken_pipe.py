"""The end of a command whose output is no longer read."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from patchbay.cli.terminal.broken_pipe import BrokenOutputPipe, _Interruption
from tests.waiting import BOUND

NEVER_LEFT = """
from patchbay.cli.terminal.broken_pipe import watch_output

block = watch_output()
block.__enter__()
cycle = [block]
cycle.append(cycle)
del block, cycle
"""


@pytest.mark.parametrize("cause", [BrokenPipeError, KeyboardInterrupt])
def test_the_signal_does_not_interrupt_the_cleanup_of_a_command_that_ends_already(cause: type[BaseException]) -> None:
    """J-F9: the reader that leaves causes both a failed write and the signal."""
    interrupt = _Interruption()
    with pytest.raises(cause):
        try:
            raise cause
        finally:
            interrupt(signal.SIGPIPE, None)
    with pytest.raises(BrokenOutputPipe):
        interrupt(signal.SIGPIPE, None)


def test_a_block_that_was_never_left_does_not_keep_the_interpreter_from_its_end() -> None:
    """J-F9: Python 3.13 has ended the thread that watches when it closes the block."""
    done = subprocess.run([sys.executable, "-c", NEVER_LEFT], stdout=subprocess.PIPE, timeout=BOUND)
    assert done.returncode == 0
