"""The background event loop of a process."""

from __future__ import annotations

import subprocess
import sys

THREADS = """
import sys, threading
from patchbay.client.connection.event_loop import get_shared_loop
sys.setswitchinterval(1e-6)
found, barrier = [], threading.Barrier(32)
def get():
    barrier.wait()
    found.append(get_shared_loop())
threads = [threading.Thread(target=get) for _ in range(32)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(set(map(id, found))))
"""


def test_threads_that_ask_at_the_same_time_get_one_loop() -> None:
    """A client of one loop hangs on another one."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
