"""The event that signal handlers set: a signal may come at any line of its own code."""

from __future__ import annotations

import subprocess
import sys

from tests.checkout import ROOT
from tests.waiting import BOUND

SIGNAL_AT_EACH_LINE = """
import signal, sys
from patchbay.serving import signal_event

event = signal_event.SignalEvent()
came = []

def handle(number, frame):
    came.append(frame.f_back.f_code.co_name)
    sys.settrace(None)
    event.set()
    sys.settrace(trace)

def trace(frame, what, argument):
    if frame.f_code.co_filename == signal_event.__file__:
        signal.raise_signal(signal.SIGUSR1)
        return trace

signal.signal(signal.SIGUSR1, handle)
for use in (event.set, event.wait, event.clear, event.wait):
    sys.settrace(trace)
    use()
    sys.settrace(None)
print(sorted(set(came)))
"""


def test_a_signal_at_each_line_of_the_event_stops_neither_the_handler_nor_the_interrupted_code() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SIGNAL_AT_EACH_LINE], cwd=ROOT, capture_output=True, text=True, timeout=BOUND
    )
    assert (ended.stdout, ended.returncode) == ("['clear', 'set', 'wait']\n", 0), ended.stderr
